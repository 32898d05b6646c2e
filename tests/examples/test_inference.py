"""The inference example prints what its folder says; that of h100.yaml stands in the guide, whose blocks are run."""

from __future__ import annotations

from pathlib import Path

import pytest

from astrarium.cli.dispatch import dispatch


@pytest.mark.parametrize(("verb", "design", "expected"), [
    ("serve", "chat.yaml", "serve.txt"), ("run", "split.yaml", "split.txt")])
def test_what_it_prints(verb: str, design: str, expected: str, root: Path, monkeypatch: pytest.MonkeyPatch,
                        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(root)
    assert dispatch([verb, f"examples/inference/{design}"]) == 0
    assert capsys.readouterr().out == (root / "examples" / "inference" / expected).read_text(encoding="utf-8")


def test_the_guide_prints_the_first_one(root: Path) -> None:
    """tests/packaging/test_readme.py runs it."""
    printed = (root / "examples" / "inference" / "run.txt").read_text(encoding="utf-8")
    guide = (root / "docs" / "guides" / "inference.md").read_text(encoding="utf-8")
    assert f"$ astrarium run examples/inference/h100.yaml\n{printed}```" in guide
