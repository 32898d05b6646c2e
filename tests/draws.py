"""How many random examples a property draws."""

from __future__ import annotations

from hypothesis import settings

USUAL = 50      # of a property that says nothing, as counts are written
IN_SUITE = 16       # of it in `make test`, whose draws are the same each time: `make roam` draws new ones each night


def draws(count: int) -> settings:
    """`count` examples for every USUAL that a profile draws: for properties that are dear."""
    return settings(max_examples=max(1, count * settings.default.max_examples // USUAL))
