"""Expressions as trees: folded as they are built, values put in, compiled to functions, bounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from astrarium.errors import InputError

__all__ = ["AGGREGATES", "CONDITIONS", "FALSE", "TRUE", "Const", "Interval", "Node", "Op", "Ref", "bounds", "compiled",
           "make", "names_in", "put", "put_all", "resolve", "truth"]

Interval = tuple[float, float]
_ANY: Interval = (-math.inf, math.inf)
_LAZY = ("if", "and", "or")

AGGREGATES = {"product": "*", "sum": "+", "min": "min", "max": "max"}
"""Functions of any number of arguments; a path with [*] gives one argument per entry."""


class Const(Struct, frozen=True):
    """A number, true or false, text, or a tuple of these."""

    value: Any


class Ref(Struct, frozen=True):
    """A name: an axis, a path, or a figure of a result."""

    name: str


class Op(Struct, frozen=True):
    """An operator or function on its arguments; `+` and `*` hold at most one constant, which comes first."""

    name: str
    args: tuple[Node, ...]


Node: TypeAlias = "Const | Ref | Op"

TRUE, FALSE = Const(True), Const(False)
CONDITIONS = frozenset(("and", "or", "not", "in", "<=", "<", ">=", ">", "==", "!="))
"""Operators whose value is true or false."""


def _number(value: object, op: str) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    shown = "nothing (it is not set)" if value is None else repr(value)[:60]
    raise InputError("", f"{shown} is not a number, so {op!r} has no meaning", expected="numbers")


def truth(value: object, op: str) -> bool:
    """Return `value` if it is true or false. Raises InputError otherwise."""
    if isinstance(value, bool):
        return value
    raise InputError("", f"{value!r} is not true or false, so {op!r} has no meaning", expected="a comparison")


def _divided(op: str, a: Any, b: Any) -> Any:
    a, b = _number(a, op), _number(b, op)
    if b == 0:
        raise InputError("", f"divides by zero ({a!r} {op} {b!r})", expected="a divisor other than 0")
    return a / b if op == "/" else a // b if op == "//" else a % b


def _ordered(op: str, a: Any, b: Any) -> bool:
    a, b = _number(a, op), _number(b, op)
    return bool(a <= b if op == "<=" else a < b if op == "<" else a >= b if op == ">=" else a > b)


def _root(name: str, value: Any) -> Any:
    value = _number(value, name)
    if value < 0 or (name == "log2" and value == 0):
        raise InputError("", f"{name}({value!r}) does not exist", expected="a positive number")
    return math.sqrt(value) if name == "sqrt" else math.log2(value)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **{op: (lambda a, b, op=op: _divided(op, a, b)) for op in ("/", "//", "%")},      # type: ignore[misc]
    **{op: (lambda a, b, op=op: _ordered(op, a, b)) for op in ("<=", "<", ">=", ">")},      # type: ignore[misc]
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "in": lambda a, b: a in b,
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "not": lambda a: not truth(a, "not"),
    "abs": lambda a: abs(_number(a, "abs")),
    "ceil": lambda a: math.ceil(_number(a, "ceil")),
    "floor": lambda a: math.floor(_number(a, "floor")),
    "sqrt": lambda a: _root("sqrt", a),
    "log2": lambda a: _root("log2", a),
}


def make(name: str, args: Sequence[Node]) -> Node:
    """Make the node of an operator and fold its constants. Raises InputError for constants without a result (1 / 0)."""
    if name in ("+", "*"):
        return _gathered(name, args)
    if name in ("and", "or"):
        return _joined(name, args)
    if name in ("min", "max"):
        return _extreme(name, args)
    if name == "if":
        return _chosen(args)
    if all(isinstance(arg, Const) for arg in args):
        values = [arg.value for arg in args if isinstance(arg, Const)]
        return Const(_UNARY[name](values[0]) if name in _UNARY else _BINARY[name](*values))
    return Op(name, tuple(args))


def _gathered(name: str, args: Sequence[Node]) -> Node:
    """A sum or product with its constants gathered in front."""
    start: Any = 0 if name == "+" else 1
    total, rest = start, []
    for arg in args:
        if isinstance(arg, Op) and arg.name == name:
            inner: Sequence[Node] = arg.args
        else:
            inner = (arg,)
        for each in inner:
            if isinstance(each, Const):
                value = _number(each.value, name)
                total = total + value if name == "+" else total * value
            else:
                rest.append(each)
    if not rest or (name == "*" and total == 0):
        return Const(total)
    if total == start:
        return rest[0] if len(rest) == 1 else Op(name, tuple(rest))
    return Op(name, (Const(total), *rest))


def _joined(name: str, args: Sequence[Node]) -> Node:
    decides = name == "or"
    rest: list[Node] = []
    for arg in args:
        if isinstance(arg, Const):
            if truth(arg.value, name) is decides:
                return Const(decides)
        elif arg not in rest:
            rest.append(arg)
    if not rest:
        return Const(not decides)
    return rest[0] if len(rest) == 1 else Op(name, tuple(rest))


def _extreme(name: str, args: Sequence[Node]) -> Node:
    if not args:
        raise InputError("", f"{name}() of nothing", expected="at least one value")
    known = [_number(arg.value, name) for arg in args if isinstance(arg, Const)]
    rest = [arg for arg in args if not isinstance(arg, Const)]
    best: list[Node] = [Const(min(known) if name == "min" else max(known))] if known else []
    return (best + rest)[0] if len(best) + len(rest) == 1 else Op(name, (*best, *rest))


def _chosen(args: Sequence[Node]) -> Node:
    test, yes, no = args
    if isinstance(test, Const):
        return yes if truth(test.value, "if") else no
    return Op("if", (test, yes, no))


def names_in(node: Node) -> tuple[str, ...]:
    """The names of a tree, in order of first appearance."""
    found: dict[str, None] = {}
    stack: list[Node] = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, Ref):
            found.setdefault(top.name)
        elif isinstance(top, Op):
            stack.extend(reversed(top.args))
    return tuple(found)


def resolve(node: Node, scope: Callable[[str], Sequence[Node]]) -> Node:
    """Replace every name by the nodes that `scope` gives: one node, or one per entry for a path with [*], which only an
    aggregate may hold. Raises InputError for a list outside an aggregate."""
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
    """The nodes of one argument of an aggregate: itself, or one per entry of its lists, which have equal lengths."""
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
    """Replace one name by `value` and fold. Shared subtrees stay shared."""
    return put_all(node, {name: value})


def put_all(node: Node, values: Mapping[str, Const]) -> Node:
    """Replace several names by values and fold. Shared subtrees stay shared."""
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


def _decided(name: str, args: Sequence[Node]) -> bool:
    """Whether the first arguments decide the result, so that the others are not evaluated."""
    if name == "if":
        return len(args) == 1 and args[0] in (TRUE, FALSE)
    return args[-1] == (TRUE if name == "or" else FALSE)


def compiled(node: Node, slots: Mapping[str, int]) -> Callable[[Sequence[Any]], Any]:
    """Compile a tree to a function of a sequence of values; `slots`: name -> index in the sequence."""
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
    """Compile `if`, `and` and `or`, which evaluate no more arguments than they need."""
    if name == "if":
        test, yes, no = parts
        return lambda values: (yes if truth(test(values), name) else no)(values)
    stop = name == "or"
    return lambda values: stop if any(truth(part(values), name) is stop for part in parts) else not stop


def _times(a: Any, b: Any) -> Any:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a * b
    return _value(make("*", (Const(a), Const(b))))


def _value(node: Node) -> Any:
    if isinstance(node, Const):
        return node.value
    raise InputError("", "is not a value")      # cannot be: every argument was a constant


def bounds(node: Node, ranges: Mapping[str, Interval]) -> Interval:
    """An interval that holds every value of a tree if each name stays within its range; false is 0, true is 1.

    Text and unknown names are unbounded. The interval may be too wide: two occurrences of a name count as two names.
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
    """Turn nan into 0: 0 * infinity is 0 at the corner of an interval."""
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
