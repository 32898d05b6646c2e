"""The inference examples print what their folder says: they stand in the guide, whose blocks are run."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml


@pytest.mark.parametrize(("command", "name", "shown", "expected"), [
    ("run", "examples/inference/h100.yaml", "examples/inference/h100.yaml", "run.txt"),
    ("run", "examples/inference/split.yaml", "own/split.yaml", "split.txt"),
    ("serve", "examples/inference/chat.yaml", "own/chat.yaml", "serve.txt")])
def test_the_guide_prints_them(command: str, name: str, shown: str, expected: str, root: Path) -> None:
    """tests/packaging/test_readme.py runs the guide's blocks; a design that stands in the guide is the folder's."""
    printed = (root / "examples" / "inference" / expected).read_text(encoding="utf-8").replace(name, shown)
    page = "serving.md" if command == "serve" else "inference.md"
    guide = (root / "docs" / "guides" / page).read_text(encoding="utf-8")
    assert f"$ astrarium {command} {shown}\n{printed}```" in guide
    if shown != name:
        written = guide.split(f'```yaml title="{shown}"\n')[1].split("```")[0].replace("../examples/inference/", "")
        assert yaml.safe_load(written) == yaml.safe_load((root / name).read_text(encoding="utf-8"))
