"""The example of PyTorch's stacks prints what its folder and the guide say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest


def test_what_it_prints(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    folder = root / "examples" / "pytorch_jobs"
    monkeypatch.setattr("sys.argv", ["jobs.py"])
    runpy.run_path(str(folder / "jobs.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed == (folder / "expected.txt").read_text(encoding="utf-8")
    assert printed in (root / "docs" / "guides" / "pytorch_jobs.md").read_text(encoding="utf-8")
