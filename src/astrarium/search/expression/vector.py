"""A tree evaluated for many designs at once: numpy columns in, a column out."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from astrarium.search.expression.nodes import Const, Node, Op, Ref

__all__ = ["vector"]


def vector(node: Node, columns: Mapping[str, Any]) -> Any:
    """The value of a tree for every row of `columns` (name -> array); arrays broadcast. Both sides of an `if` are
    computed, and divisions by zero give infinity."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _value(node, columns, dict.fromkeys(_shared(node)))


def _shared(node: Node) -> set[int]:
    """Parts that stand in a tree more than once."""
    seen, found, stack = set[int](), set[int](), [node]
    while stack:
        top = stack.pop()
        if isinstance(top, Op):
            (found if id(top) in seen else seen).add(id(top))
            stack.extend(arg for arg in top.args if id(arg) not in found)
    return found


def _value(node: Node, columns: Mapping[str, Any], done: dict[int, Any]) -> Any:
    if isinstance(node, Const):
        return node.value
    if isinstance(node, Ref):
        return columns[node.name]
    if id(node) not in done:
        return _op(node, columns, done)
    if done[id(node)] is None:
        done[id(node)] = _op(node, columns, done)
    return done[id(node)]


def _op(node: Op, columns: Mapping[str, Any], done: dict[int, Any]) -> Any:
    if node.name == "in":
        member = _value(node.args[0], columns, done)
        values = node.args[1].value if isinstance(node.args[1], Const) else ()
        return functools.reduce(np.logical_or, [member == value for value in values], np.False_)
    return _FUNCTIONS[node.name](*[_value(arg, columns, done) for arg in node.args])


def _folded(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda *parts: functools.reduce(function, parts)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": _folded(np.add), "*": _folded(np.multiply), "/": np.true_divide, "//": np.floor_divide, "%": np.mod,
    "min": _folded(np.minimum), "max": _folded(np.maximum), "and": _folded(np.logical_and),
    "or": _folded(np.logical_or), "not": np.logical_not, "if": np.where, "abs": np.abs, "sqrt": np.sqrt,
    "log2": np.log2, "ceil": np.ceil, "floor": np.floor, "<=": np.less_equal, "<": np.less,
    ">=": np.greater_equal, ">": np.greater, "==": operator.eq, "!=": operator.ne,
}
