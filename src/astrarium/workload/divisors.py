"""What must divide: a problem with the divisors on both sides of the value that does not."""

from __future__ import annotations

from collections.abc import Iterator

from astrarium.config import Problem

__all__ = ["closest_divisors", "divides", "divisors"]


def divisors(number: int) -> list[int]:
    """All divisors, in order."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def closest_divisors(number: int, near: int) -> str:
    """`8 or 12`: the divisors of `number` on both sides of `near`."""
    every = divisors(number)
    below, above = [d for d in every if d < near], [d for d in every if d > near]
    return " or ".join(str(d) for d in (*below[-1:], *above[:1]))


def divides(field: str, value: int, number: int, what: str) -> Iterator[Problem]:
    """A problem where `value` does not divide `number`, with the divisors next to it."""
    if number % value:
        close = closest_divisors(number, value)
        yield Problem(field, f"{value} does not divide {number} {what}",
                      close if number == 1 else f"a divisor, such as {close}")
