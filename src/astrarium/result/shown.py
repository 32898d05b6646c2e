"""Figures of a result that print rounded, with their unit."""

from __future__ import annotations

from astrarium.units import Bytes, Time, format_bytes, format_time

__all__ = ["Duration", "Size", "duration"]


class Duration(Time):
    """A float of ns that prints rounded, with its unit; exact figures are the integer columns."""

    __slots__ = ()

    def __str__(self) -> str:
        return format_time(float(self))


class Size(Bytes):
    """Bytes that print rounded, with their unit."""

    __slots__ = ()

    def __str__(self) -> str:
        return format_bytes(float(self))


def duration(ps: int) -> Duration:
    """Picoseconds as a Duration."""
    return Duration.of(ps / 1000)
