"""The study that its tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from astrarium.cluster.study import Lab

from .book import book


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """On a small book."""
    return Lab(book(tmp_path))
