"""`astrarium trace collect`: a script with its arguments; faults are one message."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from astrarium.trace import read_traces

pytest.importorskip("torch", reason='collecting needs PyTorch: pip install "astrarium[torch]"')
pytestmark = pytest.mark.exam

SOURCE = Path(__file__).resolve().parents[3] / "src"
SCRIPT = """
import sys, torch
assert sys.argv[1:] == ["--size", "8"]
torch.nn.Linear(8, 8)(torch.randn(2, 8)).sum().backward()
"""


def collect(cwd, *words):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "astrarium", "trace", "collect", "-o", "out", *words]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_a_script_is_recorded(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    found = collect(tmp_path, "script.py", "--size", "8")
    assert found.returncode == 0, found.stderr[-2000:]
    assert found.stdout == ""
    assert "aten::addmm" in read_traces(tmp_path / "out" / "trace").classes[0].names()


@pytest.mark.parametrize(("text", "words"), [("raise SystemExit(4)", "ended with 4"), (None, "is not a file")])
def test_scripts_that_fail_leave_nothing(tmp_path, text, words):
    if text is not None:
        (tmp_path / "script.py").write_text(text)
    found = collect(tmp_path, "script.py")
    assert found.returncode == 1
    assert words in found.stderr
    assert "Traceback" not in found.stderr
    assert not list(tmp_path.glob("out/*"))
