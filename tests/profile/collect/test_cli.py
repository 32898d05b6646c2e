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


FAILING = "import torch\ntorch.nn.Linear(8, 8)(torch.randn(2, 8))\n"


@pytest.mark.parametrize(("end", "code", "words"), [
    ("raise SystemExit(4)", 4, "ended with 4"), ("raise ValueError('mine')", 1, "ValueError: mine"),
    ("import sys; sys.exit('in words')", 1, "in words"), ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
                                                          143, "ended with 143")])
def test_a_script_that_fails_keeps_what_was_recorded(tmp_path, end, code, words):
    (tmp_path / "script.py").write_text(FAILING + end)
    found = collect(tmp_path, "script.py")
    assert found.returncode == code, found.stderr[-2000:]
    assert words in found.stderr
    assert "bug of ours" not in found.stderr
    assert "runpy" not in found.stderr
    assert "aten::addmm" in read_traces(tmp_path / "out" / "trace").classes[0].names()


def test_no_script(tmp_path):
    found = collect(tmp_path, "script.py")
    assert (found.returncode, found.stdout) == (1, "")
    assert "is not a file" in found.stderr
    assert not list(tmp_path.glob("out/*"))
