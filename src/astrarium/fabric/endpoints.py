"""Endpoints of InfraGraph's edges: `host[0:2]`, `cx5[1].port[::2]`, with Python's slices."""

from __future__ import annotations

import re
from functools import lru_cache

from astrarium.errors import InputError

__all__ = ["Segment", "indices", "parts_of"]

Segment = tuple[str, str | None]       # a name, and the text in its brackets; None without brackets

_PART = re.compile(r"([^\[\].]{1,200})(?:\[([^\]]{0,60})\])?")
_SLICE = re.compile(r"\s*(-?\d{1,12})?\s*(?::\s*(-?\d{1,12})?\s*(?::\s*(-?\d{1,12})?\s*)?)?")
FORM = "names with slices, such as xpu[0:4] or cx5[0].port[1]"


@lru_cache(1 << 16)
def parts_of(text: str) -> tuple[Segment, ...] | None:
    """`cx5[0:2].port` -> (("cx5", "0:2"), ("port", None)); None where it is no endpoint."""
    found = []
    for piece in text.split("."):
        match = _PART.fullmatch(piece)
        if match is None:
            return None
        found.append((match[1], match[2]))
    return tuple(found)


def indices(inside: str | None, count: int, what: str, path: str) -> range:
    """The numbers that brackets mean, out of `count`: none or `[]` all, `[3]` one, `[0:8:2]` a slice, negative ones
    from the end. Raises InputError for what is no slice, for a number out of range, and where nothing is meant."""
    if not inside:
        return range(count)
    match = _SLICE.fullmatch(inside)
    if match is None or (match[3] is not None and int(match[3]) == 0):
        raise InputError(path, f"[{inside}] of {what} is no slice", expected=FORM)
    if ":" not in inside:
        number = int(match[1]) if match[1] is not None else 0
        if not -count <= number < count:
            raise InputError(path, f"there is no {what}[{inside.strip()}]", expected=_out_of(count))
        return range(number % count, number % count + 1)
    start, stop, step = (None if match[group] is None else int(match[group]) for group in (1, 2, 3))
    for bound in (start, stop):
        if bound is not None and not -count <= bound <= count:
            raise InputError(path, f"{what}[{inside}] goes beyond its {count}", expected=_out_of(count))
    found = range(count)[slice(start, stop, step)]
    if not found:
        raise InputError(path, f"{what}[{inside}] means none", expected=_out_of(count))
    return found


def _out_of(count: int) -> str:
    return f"numbers from 0 to {count - 1}" if count else "at least one"
