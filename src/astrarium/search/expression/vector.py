"""A tree evaluated for many designs at once: numpy columns in, a column out."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from astrarium.search.expression.nodes import Const, Node, Op, Ref

__all__ = ["vector", "vectorised"]

Columns = Mapping[str, Any]


def vector(node: Node, columns: Columns) -> Any:
    """The value of a tree for every row of `columns` (name -> array); arrays broadcast. Both sides of an `if` are
    computed, and divisions by zero give infinity."""
    return vectorised(node)(columns)


def vectorised(node: Node) -> Callable[[Columns], Any]:
    """`vector` of one tree, for many calls: the tree is taken apart once, and a part that stands in it several times is
    computed once."""
    slots, order = _ordered(node)
    start: list[Any] = [part.value if isinstance(part, Const) else None for part in order]
    names = [(slot, part.name) for slot, part in enumerate(order) if isinstance(part, Ref)]
    last = {slots[id(arg)]: slot for slot, part in enumerate(order) if isinstance(part, Op) for arg in part.args}
    steps = [(slot, _FUNCTIONS[part.name] if len(part.args) != 2 else _BINARY.get(part.name, _FUNCTIONS[part.name]),
              [slots[id(arg)] for arg in part.args],
              {slots[id(arg)] for arg in part.args if last[slots[id(arg)]] == slot})
             for slot, part in enumerate(order) if isinstance(part, Op)]

    def run(columns: Columns) -> Any:
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
    """The parts of a tree, each after its own parts and once, and the place of each by its identity."""
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
