"""Figures that are equal as far as they are printed."""

from __future__ import annotations

__all__ = ["EQUAL", "alike"]

EQUAL = 5e-4        # relative difference; figures print with four digits


def alike(one: float, other: float) -> bool:
    """Whether two figures differ by less than they are printed with."""
    return abs(one - other) < EQUAL * abs(other) or one == other
