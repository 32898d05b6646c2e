"""The training example prints what its folder says."""

from __future__ import annotations

from pathlib import Path

import pytest

from astrarium.cli.dispatch import dispatch


def test_what_it_prints(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(root)
    assert dispatch(["run", "examples/training/megatron_175b.yaml"]) == 0
    assert capsys.readouterr().out == (root / "examples" / "training" / "run.txt").read_text(encoding="utf-8")
