"""The examples on fabrics print what their folder says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("name", ["clos_8", "tenants"])
def test_what_they_print(root: Path, name: str) -> None:
    found = subprocess.run([sys.executable, f"examples/fabrics/{name}.py"], cwd=root, capture_output=True, text=True,
                           timeout=300, check=False, env={"PYTHONPATH": ":".join(sys.path), "PATH": ""})
    assert found.returncode == 0, found.stderr
    assert found.stdout == (root / "examples" / "fabrics" / f"{name}.txt").read_text(encoding="utf-8")
