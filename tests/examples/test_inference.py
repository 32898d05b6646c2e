"""The inference example prints what its folder says."""

from __future__ import annotations

from pathlib import Path

import pytest

from astrarium.cli.dispatch import dispatch


@pytest.mark.parametrize(("verb", "design", "expected"), [
    ("run", "h100.yaml", "run.txt"), ("serve", "chat.yaml", "serve.txt"), ("run", "split.yaml", "split.txt")])
def test_what_it_prints(verb: str, design: str, expected: str, root: Path, monkeypatch: pytest.MonkeyPatch,
                        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(root)
    assert dispatch([verb, f"examples/inference/{design}"]) == 0
    assert capsys.readouterr().out == (root / "examples" / "inference" / expected).read_text(encoding="utf-8")
