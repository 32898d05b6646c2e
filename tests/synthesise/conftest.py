"""A model of traces that several files of tests ask."""

from __future__ import annotations

import pytest

from astrarium.synthesise import Example, Model, learn

from .corpus import examples


@pytest.fixture(scope="session")
def learned() -> tuple[Model, list[Example]]:
    """A model, and the examples that it was learned from."""
    found = examples(40)
    return learn(found), found
