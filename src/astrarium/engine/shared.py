"""Makes programs, collectives and schedules of equal content, in plans that were lowered apart, one object."""

from __future__ import annotations

from operator import is_
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct

__all__ = ["Shared"]

T = TypeVar("T")


class Shared:
    """The first object of each content."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[Any, Any]] = {}       # id -> (the object itself, so that the id stays its; the first)
        self._first: dict[Any, Any] = {}

    def first(self, value: T) -> T:
        """The first object of equal content; of a new one, with the first objects of its parts in it."""
        if isinstance(value, tuple):
            parts = tuple(map(self.first, value))
            return value if all(map(is_, parts, value)) else parts      # type: ignore[return-value]
        if not isinstance(value, Struct):
            return value
        if id(value) not in self._of:
            own = [getattr(value, name) for name in value.__struct_fields__]
            found = list(map(self.first, own))
            new = value if all(map(is_, found, own)) else type(value)(*found)
            self._of[id(value)] = value, self._first.setdefault((type(value), *map(_key, found)), new)
        return self._of[id(value)][1]       # type: ignore[no-any-return]


def _key(part: Any) -> Any:
    """What tells a part of an object apart, where parts with fields are the first of their content."""
    if isinstance(part, np.ndarray):
        return part.dtype.str, part.tobytes()
    if isinstance(part, tuple):
        return tuple(map(_key, part))
    return id(part) if isinstance(part, Struct) else part
