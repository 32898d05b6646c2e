"""Combinations of a space's components as columns, and the design with the lowest floor to which small steps lead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from astrarium.search.components import Component
from astrarium.search.expression import Const, Interval, Node, bounds, names_in, put_all
from astrarium.search.expression.vector import vectorised
from astrarium.search.scope import plain
from astrarium.search.space import Space

__all__ = ["Columns", "by_effect", "columns", "crossed", "dive", "left", "narrowed"]

Columns = dict[str, npt.NDArray[Any]]
TRIED = 4096        # combinations of a component that a walk looks at
ROUNDS = 3


def columns(space: Space, part: Component) -> Columns:
    """Per axis of a component its value in every combination."""
    choices = np.array([part.diagram.choice(number) for number in range(part.diagram.count)], dtype=np.int64)
    found = {}
    for column, place in enumerate(part.places):
        axis = space.axes[place]
        values = np.array([*map(plain, axis.values), *([plain(axis.otherwise)] if axis.when else [])])
        found[axis.name] = values[choices[:, column]]
    return found


def crossed(parts: Sequence[Columns]) -> Columns:
    """Columns of every combination of several components: a dimension each, the last one fastest."""
    return {name: values.reshape([-1 if place == index else 1 for place in range(len(parts))])
            for index, part in enumerate(parts) for name, values in part.items()}


def left(tree: Node, ranges: Mapping[str, Interval], part: Columns, choice: int) -> tuple[Node, dict[str, Interval]]:
    """The tree and the ranges when one combination of a component is chosen: a number narrows its range, anything else
    is put into the tree."""
    return narrowed({name: values[choice:choice + 1].tolist()[0] for name, values in part.items()}, tree, ranges)


def narrowed(chosen: Mapping[str, Any], tree: Node, ranges: Mapping[str, Interval]) -> tuple[Node, dict[str, Interval]]:
    """The same for any values."""
    numbers = {name: (value, value) for name, value in chosen.items()
               if isinstance(value, (int, float)) and not isinstance(value, bool)}
    others = {name: Const(value) for name, value in chosen.items() if name not in numbers}
    return (put_all(tree, others) if others else tree), {**ranges, **numbers}


def by_effect(tree: Node, ranges: Mapping[str, Interval], parts: Sequence[Component],
              known: Sequence[Columns]) -> list[int]:
    """Numbers of the components, those first whose choice raises the least value of the tree most, on the mean; those
    that are not numbers last."""
    def gain(place: int) -> float:
        if parts[place].diagram.count > TRIED or not all(values.dtype.kind in "if" for values in known[place].values()):
            return -1.0
        floors = [bounds(*left(tree, ranges, known[place], choice))[0] for choice in range(parts[place].diagram.count)]
        return sum(floors) / len(floors)
    return sorted(range(len(parts)), key=lambda place: (-gain(place), place))


def dive(space: Space, tree: Node, parts: Sequence[Component]) -> dict[int, int]:
    """Axis -> index of its value, where the tree is low: component after component its best combination, the others as
    they are, a few times over."""
    known = [columns(space, part) for part in parts]
    chosen = [0] * len(parts)
    named, value_of = set(names_in(tree)), vectorised(tree)
    for _ in range(ROUNDS):
        for place, values in enumerate(known):
            if named.isdisjoint(values):
                continue
            fixed = {name: each[chosen[other]:chosen[other] + 1] for other, columns_ in enumerate(known)
                     for name, each in columns_.items()}
            tried = {name: each[:TRIED] for name, each in values.items()}
            found = np.ravel(value_of({**fixed, **tried}))
            chosen[place] = int(found.argmin()) if found.size > 1 else chosen[place]
    return {place: index for part, number in zip(parts, chosen)
            for place, index in zip(part.places, part.diagram.choice(number))}
