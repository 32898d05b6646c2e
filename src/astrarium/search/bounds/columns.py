"""Trees evaluated for many designs at once (numpy columns), and a descent to a design with a low bound."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from astrarium.search.choice import plain
from astrarium.search.constraints import Component
from astrarium.search.expression import Const, Interval, Node, Op, Ref, bounds, names_in, put_all
from astrarium.search.space import Space

__all__ = ["Columns", "by_effect", "columns", "crossed", "dive", "left", "narrowed", "vector", "vectorised"]

Columns = dict[str, npt.NDArray[Any]]
TRIED = 4096        # combinations of a component that a walk looks at
ROUNDS = 3


def columns(space: Space, part: Component) -> Columns:
    """Axis name -> its value in every combination of a component."""
    choices = np.array([part.diagram.choice(number) for number in range(part.diagram.count)], dtype=np.int64)
    found = {}
    for column, place in enumerate(part.places):
        axis = space.axes[place]
        values = np.array([*map(plain, axis.values), *([plain(axis.otherwise)] if axis.when else [])])
        found[axis.name] = values[choices[:, column]]
    return found


def crossed(parts: Sequence[Columns]) -> Columns:
    """Columns of every combination of several components: one array dimension each, the last one fastest."""
    return {name: values.reshape([-1 if place == index else 1 for place in range(len(parts))])
            for index, part in enumerate(parts) for name, values in part.items()}


def left(tree: Node, ranges: Mapping[str, Interval], part: Columns, choice: int) -> tuple[Node, dict[str, Interval]]:
    """The tree and the ranges after the choice of one combination of a component: a number narrows its range, any other
    value is put into the tree."""
    return narrowed({name: values[choice:choice + 1].tolist()[0] for name, values in part.items()}, tree, ranges)


def narrowed(chosen: Mapping[str, Any], tree: Node, ranges: Mapping[str, Interval]) -> tuple[Node, dict[str, Interval]]:
    """The tree and the ranges after the choice of values, by name."""
    numbers = {name: (value, value) for name, value in chosen.items()
               if isinstance(value, (int, float)) and not isinstance(value, bool)}
    others = {name: Const(value) for name, value in chosen.items() if name not in numbers}
    return (put_all(tree, others) if others else tree), {**ranges, **numbers}


def by_effect(tree: Node, ranges: Mapping[str, Interval], parts: Sequence[Component],
              known: Sequence[Columns]) -> list[int]:
    """Numbers of the components in descending order of the mean by which a choice raises the least value of the tree;
    components whose values are not numbers come last."""
    def gain(place: int) -> float:
        if parts[place].diagram.count > TRIED or not all(values.dtype.kind in "if" for values in known[place].values()):
            return -1.0
        lows = [bounds(*left(tree, ranges, known[place], choice))[0] for choice in range(parts[place].diagram.count)]
        return sum(lows) / len(lows)
    return sorted(range(len(parts)), key=lambda place: (-gain(place), place))


def dive(space: Space, tree: Node, parts: Sequence[Component]) -> dict[int, int]:
    """Axis -> index of its value, for a combination with a low value of the tree: in turn, the best combination of each
    component with the others fixed, ROUNDS times."""
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


def vector(node: Node, columns: Mapping[str, Any]) -> Any:
    """The value of a tree for every row of `columns` (name -> array); arrays broadcast. Both sides of an `if` are
    computed, and divisions by zero give infinity."""
    return vectorised(node)(columns)


def vectorised(node: Node) -> Callable[[Mapping[str, Any]], Any]:
    """`vector` of one tree for many calls: the tree is flattened once, and a subtree that occurs several times is
    computed once."""
    slots, order = _ordered(node)
    start: list[Any] = [part.value if isinstance(part, Const) else None for part in order]
    names = [(slot, part.name) for slot, part in enumerate(order) if isinstance(part, Ref)]
    last = {slots[id(arg)]: slot for slot, part in enumerate(order) if isinstance(part, Op) for arg in part.args}
    steps = [(slot, _FUNCTIONS[part.name] if len(part.args) != 2 else _BINARY.get(part.name, _FUNCTIONS[part.name]),
              [slots[id(arg)] for arg in part.args],
              {slots[id(arg)] for arg in part.args if last[slots[id(arg)]] == slot})
             for slot, part in enumerate(order) if isinstance(part, Op)]

    def run(columns: Mapping[str, Any]) -> Any:
        values = start.copy()
        for slot, name in names:
            values[slot] = columns[name]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for slot, function, arguments, done in steps:
                values[slot] = function(*[values[each] for each in arguments])
                for each in done:
                    values[each] = None      # large ones go at once
        return values[-1]
    return run


def _ordered(node: Node) -> tuple[dict[int, int], list[Node]]:
    """Flatten a tree: identity of each subtree -> its place, and the distinct subtrees, each after its arguments."""
    slots: dict[int, int] = {}
    order: list[Node] = []
    stack = [node]
    while stack:
        top = stack[-1]
        open_parts = [arg for arg in top.args if id(arg) not in slots] if isinstance(top, Op) else []
        if open_parts:
            stack += reversed(open_parts)
            continue
        stack.pop()
        if id(top) not in slots:
            slots[id(top)] = len(order)
            order.append(top)
    return slots, order


def _member(value: Any, legal: Any) -> Any:
    return functools.reduce(np.logical_or, [value == each for each in legal], np.False_)


def _folded(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda *parts: functools.reduce(function, parts)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.logical_and, "or": np.logical_or}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _folded(function) for name, function in _BINARY.items()},
    "/": np.true_divide, "//": np.floor_divide, "%": np.mod, "in": _member, "not": np.logical_not, "if": np.where,
    "abs": np.abs, "sqrt": np.sqrt, "log2": np.log2, "ceil": np.ceil, "floor": np.floor, "<=": np.less_equal,
    "<": np.less, ">=": np.greater_equal, ">": np.greater, "==": operator.eq, "!=": operator.ne,
}
