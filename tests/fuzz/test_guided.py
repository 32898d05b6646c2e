"""The coverage-guided fuzzer: its corpus runs always, a search of a minute in the exam."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import guided

CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize("backend", ["unaware", "aware"])
def test_corpus(backend: str, tmp_path: Path) -> None:
    """Inputs that once covered something new, and those that once were findings."""
    pool = [files for path in sorted(CORPUS.glob("*.json")) for files in guided.read(path)]
    assert pool
    for files in pool:
        guided.target(files, tmp_path, backend)


def test_the_search_finds_more_than_its_seeds() -> None:
    """A second of search covers lines that the good inputs do not."""
    tried, pool = guided.fuzz(1.0, seed=1)
    assert tried > len(pool) > len(guided.seeds())


@pytest.mark.exam
def test_a_minute_of_search() -> None:
    """From the corpus on; whatever is found is raised."""
    start = [files for path in sorted(CORPUS.glob("*.json")) for files in guided.read(path)]
    tried, _ = guided.fuzz(60.0, seed=2, start=start)
    assert tried > 1000
