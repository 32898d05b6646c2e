"""The study that its tests share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "comet"))

from comet import Lab
from tests.examples.comet.book import book


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """On a small book."""
    return Lab(book(tmp_path))
