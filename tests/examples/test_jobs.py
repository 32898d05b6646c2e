"""The example of two jobs prints what its folder says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from astrarium.cli.dispatch import dispatch


def test_what_it_prints(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(root)
    assert dispatch(["run", "examples/jobs/two_jobs.yaml"]) == 0
    assert capsys.readouterr().out == (root / "examples" / "jobs" / "run.txt").read_text(encoding="utf-8")


def test_the_comparison(root: Path, forks: Any) -> None:
    found = forks([sys.executable, "examples/jobs/compare.py"], root)
    assert found.returncode == 0, found.stderr
    assert found.stdout == (root / "examples" / "jobs" / "compare.txt").read_text(encoding="utf-8")
