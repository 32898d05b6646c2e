"""Microseconds, the unit of Chakra's durations, as the nanoseconds of everything that is printed as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["in_ns"]

NS_PER_US = 1000


def in_ns(plain: Any) -> Any:
    """Plain data in which every entry `NAME_us` is `NAME_ns`, with all numbers below it in ns."""
    if isinstance(plain, Mapping):
        return {name[:-3] + "_ns" if name.endswith("_us") else name:
                _times(value) if name.endswith("_us") else in_ns(value) for name, value in plain.items()}
    if isinstance(plain, Sequence) and not isinstance(plain, str):
        return [in_ns(each) for each in plain]
    return plain


def _times(value: Any) -> Any:
    """Every number in `value` times 1000."""
    if isinstance(value, Mapping):
        return {name: _times(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_times(each) for each in value]
    return value * NS_PER_US if isinstance(value, (int, float)) else value
