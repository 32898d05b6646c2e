"""How many random examples a property draws."""

from __future__ import annotations

from hypothesis import settings

USUAL = 50      # of a property that says nothing, in `make test`


def draws(count: int) -> settings:
    """`count` examples in `make test`, and as many times more as other profiles draw: for properties that are dear."""
    return settings(max_examples=max(1, count * settings.default.max_examples // USUAL))
