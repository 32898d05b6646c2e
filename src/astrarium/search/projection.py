"""From a wish to the nearest feasible point, so that no agent proposes a design that is not in its space."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from astrarium.cache import Cache
from astrarium.search.axes import Axis
from astrarium.search.components import Component

__all__ = ["Projector"]

PINNED = 1e6
HELD = 1 << 14


class Projector:
    """Wishes are one number per axis: a value's index (a fraction lies between two values), or a continuum's value.

    The nearest point has the smallest sum of distances over axes: |wish - index| / (size - 1) where the values are
    ordered, else 0 or 1; ties go to the smaller index, axis by axis.
    """

    def __init__(self, axes: Sequence[Axis], components: Sequence[Component]):
        self.axes, self.components = tuple(axes), tuple(components)
        self.part_of: dict[int, Component] = {place: part for part in components for place in part.places}
        free = [part.places[0] for part in self.components
                if len(part.places) == 1 and part.diagram.count == self.axes[part.places[0]].size]
        self._free = tuple((place, self.axes[place].size - 1) for place in free)
        self._bound = tuple(part for part in self.components if part.places[0] not in free)
        self._continua = tuple((place, axis.domain) for place, axis in enumerate(self.axes) if not axis.size)
        self._nearest_of: Cache[tuple[int, ...]] = Cache(HELD)

    def project(self, wish: Sequence[float], pinned: int = -1) -> tuple[Any, ...]:
        """The nearest feasible point; `pinned` is an axis that keeps its wish wherever that is possible at all."""
        found: list[Any] = [None] * len(self.axes)
        for place, last in self._free:
            found[place] = min(last, max(0, round(wish[place])))
        for part in self._bound:
            for place, value in zip(part.places, self._nearest(part, wish, pinned)):
                found[place] = value
        for place, domain in self._continua:
            found[place] = min(domain.high, max(domain.low, float(wish[place])))
        return tuple(found)

    def _nearest(self, part: Component, wish: Sequence[float], pinned: int) -> tuple[int, ...]:
        diagram = part.diagram
        wishes = [wish[place] for place in part.places]
        whole = [int(each) for each in wishes]
        if whole == wishes and diagram.number(whole) >= 0:
            return tuple(whole)
        key = (part.places[0], pinned if pinned in part.places else -1, *wishes)
        return self._nearest_of.get(key, lambda: diagram.nearest(
            [self._costs(place, wish[place], place == pinned) for place in part.places]))

    def _costs(self, place: int, wish: float, pinned: bool) -> list[float]:
        axis = self.axes[place]
        if axis.ordered:
            span = max(1, axis.size - 1)
            costs = [abs(index - wish) / span for index in range(axis.size)]
        else:
            costs = [0.0 if index == round(wish) else 1.0 for index in range(axis.size)]
        if pinned:
            costs = [cost and cost + PINNED for cost in costs]
        return [*costs, 0.0 if wish == -1 else 1.0]

    def moved(self, point: Sequence[Any], place: int, rng: random.Random, reach: float = 1.0) -> tuple[Any, ...]:
        """A neighbour: axis `place` takes another value (within `reach` of its range where it is ordered), the others
        move as little as the constraints ask for. The point itself where there is no other value."""
        axis, wish = self.axes[place], list(point)
        if not axis.size:
            width = reach * (axis.domain.high - axis.domain.low)
            wish[place] = point[place] + rng.uniform(-width, width)
            return self.project(wish)
        wish[place] = self._another(axis, point[place], rng, reach)
        return self.project(wish, pinned=place)

    @staticmethod
    def _another(axis: Axis, now: int, rng: random.Random, reach: float) -> int:
        if axis.size == 1:
            return 0
        if axis.ordered and reach < 1 and now >= 0:
            width = max(1, round(reach * (axis.size - 1)))
            low, high = max(0, now - width), min(axis.size - 1, now + width)
        else:
            low, high = 0, axis.size - 1
        value = rng.randint(low, high - (low <= now <= high))
        return value + (low <= now <= value)
