"""Quantiles for the intervals of means."""

from __future__ import annotations

import math

__all__ = ["student"]

FIRST = (12.706, 4.303, 3.182, 2.776)
Z = 1.959964


def student(freedom: int) -> float:
    """Student's t, 97.5 %, within 0.1 %, for 1 or more degrees of freedom (above 4: Abramowitz and Stegun 26.7.5)."""
    if freedom <= len(FIRST):
        return FIRST[freedom - 1]
    terms = (Z, (Z**3 + Z) / 4, (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96, (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384)
    return math.fsum(term / float(freedom)**power for power, term in enumerate(terms))
