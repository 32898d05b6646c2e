"""What a point puts into a design, ready made: the values of axes, and those that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from astrarium.cache import Cache
from astrarium.search.axes import Axis
from astrarium.search.scope import plain
from astrarium.search.typed import Field
from astrarium.search.update import UNSET

__all__ = ["Derived", "Listed", "Value", "token"]

HELD = 1 << 14
Value = tuple[Any, Any, bytes]
"""A derived value in base units, as its field `takes` it, and as text."""


def token(number: Any) -> bytes:
    """A value in base units as text: equal where the values are."""
    return repr(number).encode()


class Listed(Struct, frozen=True, eq=False):
    """The values of an axis by index (the last one stands for -1, not chosen): in base units, at each of its paths,
    and as text."""

    numbers: tuple[Any, ...]
    put: tuple[tuple[Any, ...], ...]
    texts: tuple[bytes, ...]

    @staticmethod
    def of(axis: Axis) -> Listed:
        """Those of an axis that is no continuum."""
        numbers, paths = [plain(value) for value in axis.values], len(axis.paths)
        put = [(value,) * paths for value in (*axis.values, UNSET)]
        return Listed((*numbers, plain(axis.otherwise)), tuple(put), (*map(token, numbers), b"-"))


class Derived(Struct, frozen=True, eq=False, dict=True):
    """One derived path. `function` computes its value in base units from those of all axes; it depends on `places`
    (numbers of axes) alone, so that it is computed once for each of their combinations."""

    path: str
    takes: Field
    function: Callable[[Sequence[Any]], Any]
    places: tuple[int, ...]

    @cached_property
    def _known(self) -> Cache[Value]:
        return Cache(HELD)

    def of(self, point: Sequence[Any], numbers: Sequence[Any]) -> Value:
        """The value at a point; `numbers`: its axes in base units. Raises InputError where it cannot be computed."""
        def made() -> Value:
            number = self.function(numbers)
            return number, self.takes.computed(number), token(number)

        return self._known.get(tuple([point[place] for place in self.places]), made)
