"""What `--json` prints names its format and the version that made it, whichever verb prints it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.commands import Run

import astrarium as ar

RUNS = {
    "run/1": ("run", "examples/quickstart/design.yaml"), "list/1": ("list", "shape"), "check/1": ("check", "."),
    "show/1": ("show", "examples/quickstart/design.yaml"),
    "explain/1": ("explain", "examples/quickstart/design.yaml", "examples/quickstart/design.yaml"),
    "search count/1": ("search", "examples/search/network.yaml", "--count"),
}


@pytest.mark.parametrize("name", RUNS)
def test_an_answer_begins_with_its_format(run: Run, root: Path, name: str) -> None:
    words = [root / word if word.startswith("examples") else word for word in RUNS[name]]
    found = json.loads(run(*words, "--json").out)
    assert list(found)[:2] == ["format", "astrarium"]
    assert (found["format"], found["astrarium"]) == (name, ar.__version__)
