"""Expression trees: constants, names and operators, folded as they are built."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from astrarium.errors import InputError

__all__ = ["CONDITIONS", "FALSE", "TRUE", "Const", "Node", "Op", "Ref", "make", "names_in", "truth"]


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
    raise InputError("", f"{shown} is no number, so {op!r} has no meaning", expected="numbers")


def truth(value: object, op: str) -> bool:
    """`value` where it is true or false; InputError else."""
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
    """The node of an operator, folded as far as its constants go. Raises InputError for what cannot be computed."""
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
