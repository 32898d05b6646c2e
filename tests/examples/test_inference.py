"""The inference examples print what their folder says; two stand in the guide, whose blocks are run."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from astrarium.cli.dispatch import dispatch


def test_what_it_prints(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(root)
    assert dispatch(["serve", "examples/inference/chat.yaml"]) == 0
    assert capsys.readouterr().out == (root / "examples" / "inference" / "serve.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "shown", "expected"), [
    ("examples/inference/h100.yaml", "examples/inference/h100.yaml", "run.txt"),
    ("examples/inference/split.yaml", "own/split.yaml", "split.txt")])
def test_the_guide_prints_the_others(name: str, shown: str, expected: str, root: Path) -> None:
    """tests/packaging/test_readme.py runs the guide's blocks; a design that stands in the guide is the folder's."""
    printed = (root / "examples" / "inference" / expected).read_text(encoding="utf-8").replace(name, shown)
    guide = (root / "docs" / "guides" / "inference.md").read_text(encoding="utf-8")
    assert f"$ astrarium run {shown}\n{printed}```" in guide
    if shown != name:
        written = guide.split(f'```yaml title="{shown}"\n')[1].split("```")[0]
        assert yaml.safe_load(written) == yaml.safe_load((root / name).read_text(encoding="utf-8"))
