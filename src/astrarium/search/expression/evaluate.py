"""What a tree is worth: names resolved, values put in, compiled to a function, bounded from both sides."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from astrarium.errors import InputError
from astrarium.search.expression.nodes import FALSE, TRUE, Const, Node, Op, Ref, make, names_in
from astrarium.search.expression.nodes import truth as _truth
from astrarium.search.expression.parse import AGGREGATES

__all__ = ["Interval", "bounds", "compiled", "put", "put_all", "resolve"]

Interval = tuple[float, float]
_ANY: Interval = (-math.inf, math.inf)


def resolve(node: Node, scope: Callable[[str], Sequence[Node]]) -> Node:
    """The tree with every name replaced by what `scope` gives: one node, or several for a path with [*], which only an
    aggregate may hold. Raises InputError."""
    if isinstance(node, Const):
        return node
    if isinstance(node, Ref):
        found = scope(node.name)
        if len(found) != 1 or "[*]" in node.name:
            raise InputError("", f"{node.name} is a list", expected="product(...), sum(...), min(...) or max(...)")
        return found[0]
    if node.name not in AGGREGATES:
        return make(node.name, [resolve(arg, scope) for arg in node.args])
    args: list[Node] = []
    for arg in node.args:
        args.extend(_entries(arg, scope))
    return make(AGGREGATES[node.name], args)


def _entries(arg: Node, scope: Callable[[str], Sequence[Node]]) -> list[Node]:
    """What one argument of an aggregate stands for: itself, or one node per entry of its lists, taken side by side."""
    inner = () if isinstance(arg, Op) and arg.name in AGGREGATES else names_in(arg)
    lists = {name: scope(name) for name in inner if "[*]" in name}
    if not lists:
        return [resolve(arg, scope)]
    lengths = {len(nodes) for nodes in lists.values()}
    if len(lengths) > 1:
        raise InputError("", f"{', '.join(lists)} differ in length", expected="lists of one length")
    return [_indexed(arg, scope, lists, index) for index in range(lengths.pop())]


def _indexed(node: Node, scope: Callable[[str], Sequence[Node]], lists: Mapping[str, Sequence[Node]],
             index: int) -> Node:
    if isinstance(node, Ref) and node.name in lists:
        return lists[node.name][index]
    if not isinstance(node, Op) or node.name in AGGREGATES:
        return resolve(node, scope)
    return make(node.name, [_indexed(arg, scope, lists, index) for arg in node.args])


def put(node: Node, name: str, value: Const) -> Node:
    """The tree with `value` in the place of one name, folded. Parts that the tree shares stay shared."""
    return put_all(node, {name: value})


def put_all(node: Node, values: Mapping[str, Const]) -> Node:
    """The tree with values in the place of several names, folded. Parts that the tree shares stay shared."""
    return _put(node, values, {})


def _put(node: Node, values: Mapping[str, Const], done: dict[int, Node]) -> Node:
    if isinstance(node, Ref):
        return values.get(node.name, node)
    if isinstance(node, Const):
        return node
    if id(node) not in done:
        done[id(node)] = _put_op(node, values, done)
    return done[id(node)]


def _put_op(node: Op, values: Mapping[str, Const], done: dict[int, Node]) -> Node:
    args: list[Node] = []
    for arg in node.args:
        args.append(_put(arg, values, done))
        if node.name in _LAZY and _decided(node.name, args):
            return make(node.name, args) if node.name != "if" else _put(node.args[1 if args[0] == TRUE else 2], values,
                                                                        done)
    if all(new is old for new, old in zip(args, node.args)):
        return node
    return make(node.name, args)


_LAZY = ("if", "and", "or")


def _decided(name: str, args: Sequence[Node]) -> bool:
    """Whether the first arguments settle the matter, so that the others need not even exist."""
    if name == "if":
        return len(args) == 1 and args[0] in (TRUE, FALSE)
    return args[-1] == (TRUE if name == "or" else FALSE)


def compiled(node: Node, slots: Mapping[str, int]) -> Callable[[Sequence[Any]], Any]:
    """A function of a sequence of values, in which `slots` says where each name's value is."""
    if isinstance(node, Const):
        value = node.value
        return lambda _: value
    if isinstance(node, Ref):
        at = slots[node.name]
        return lambda values: values[at]
    parts = [compiled(arg, slots) for arg in node.args]
    if node.name == "*" and len(parts) == 2:
        one, two = parts
        return lambda values: _times(one(values), two(values))
    if node.name in _LAZY:
        return _lazily(node.name, parts)
    name = node.name
    return lambda values: _value(make(name, [Const(part(values)) for part in parts]))


def _lazily(name: str, parts: Sequence[Callable[[Sequence[Any]], Any]]) -> Callable[[Sequence[Any]], Any]:
    """`if`, `and` and `or`, which look at no more arguments than they need."""
    if name == "if":
        test, yes, no = parts
        return lambda values: (yes if _truth(test(values), name) else no)(values)
    stop = name == "or"
    return lambda values: stop if any(_truth(part(values), name) is stop for part in parts) else not stop


def _times(a: Any, b: Any) -> Any:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a * b
    return _value(make("*", (Const(a), Const(b))))


def _value(node: Node) -> Any:
    if isinstance(node, Const):
        return node.value
    raise InputError("", "is not a value")      # cannot be: every argument was a constant


def bounds(node: Node, ranges: Mapping[str, Interval]) -> Interval:
    """An interval that holds every value of a tree when each name stays within its range; truth counts as 0 and 1.

    Text and unknown names are unbounded. Sound, not tight: a name that stands twice is taken as two.
    """
    return _bounds(node, ranges, {})


def _bounds(node: Node, ranges: Mapping[str, Interval], done: dict[int, Interval]) -> Interval:
    if isinstance(node, Const):
        value = node.value
        return (value, value) if isinstance(value, (int, float)) else _ANY
    if isinstance(node, Ref):
        return ranges.get(node.name, _ANY)
    if id(node) not in done:
        rule = _BOUNDS.get(node.name)
        done[id(node)] = rule([_bounds(arg, ranges, done) for arg in node.args]) if rule else _ANY
    return done[id(node)]


def _product(a: Interval, b: Interval) -> Interval:
    corners = [_finite(x * y) for x in a for y in b]
    return min(corners), max(corners)


def _finite(value: float) -> float:
    """0 * infinity is 0 at the corner of an interval."""
    return 0.0 if math.isnan(value) else value


def _multiplied(inner: Sequence[Interval]) -> Interval:
    total: Interval = (1, 1)
    for each in inner:
        total = _product(total, each)
    return total


def _quotient(inner: Sequence[Interval]) -> Interval:
    top, (low, high) = inner
    if low <= 0 <= high:
        return _ANY
    corners = [_finite(x / y) for x in top for y in (low, high)]
    return min(corners), max(corners)


def _floored(inner: Sequence[Interval]) -> Interval:
    low, high = _quotient(inner)
    return (low if math.isinf(low) else math.floor(low) - 1), high


def _compared(op: str) -> Callable[[Sequence[Interval]], Interval]:
    def rule(inner: Sequence[Interval]) -> Interval:
        (a, b), (c, d) = inner
        if op in (">=", ">"):
            (a, b), (c, d) = (c, d), (a, b)
        strict = op in ("<", ">")
        surely = b < c if strict else b <= c
        never = a >= d if strict else a > d
        return (int(surely), int(not never))
    return rule


def _equal(inner: Sequence[Interval]) -> Interval:
    (a, b), (c, d) = inner
    if b < c or d < a:
        return (0, 0)
    return (int(a == b == c == d), 1)


def _unequal(inner: Sequence[Interval]) -> Interval:
    low, high = _equal(inner)
    return 1 - high, 1 - low


_BOUNDS: dict[str, Callable[[Sequence[Interval]], Interval]] = {
    "+": lambda inner: (sum(low for low, _ in inner), sum(high for _, high in inner)),
    "*": _multiplied,
    "/": _quotient,
    "//": _floored,
    "min": lambda inner: (min(low for low, _ in inner), min(high for _, high in inner)),
    "max": lambda inner: (max(low for low, _ in inner), max(high for _, high in inner)),
    "and": lambda inner: (min(low for low, _ in inner), min(high for _, high in inner)),
    "or": lambda inner: (max(low for low, _ in inner), max(high for _, high in inner)),
    "not": lambda inner: (1 - inner[0][1], 1 - inner[0][0]),
    "if": lambda inner: (min(inner[1][0], inner[2][0]), max(inner[1][1], inner[2][1])),
    "abs": lambda inner: (0.0 if inner[0][0] <= 0 <= inner[0][1] else min(map(abs, inner[0])), max(map(abs, inner[0]))),
    "==": _equal,
    "!=": _unequal,
    **{op: _compared(op) for op in ("<=", "<", ">=", ">")},
}
