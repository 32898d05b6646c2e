"""Recordings end: a few here, hundreds by `python tests/profile/collect/soak.py 500`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason='collecting needs PyTorch: pip install "astrarium[torch]"')
pytestmark = pytest.mark.exam

SOURCE = Path(__file__).resolve().parents[3] / "src"


def test_recordings_end():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])}
    found = subprocess.run([sys.executable, str(Path(__file__).with_name("soak.py")), "6"], env=env,
                           capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-2000:]
