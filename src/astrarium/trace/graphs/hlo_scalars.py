"""Integers that a module computes for itself: counters of loops, indexes, their comparisons."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from astrarium.trace.graphs.hlo_text import Operation

__all__ = ["scalar"]

WIDEST = 1 << 64
_DENSE = re.compile(r"dense<(-?\d+|true|false)>")
_DIRECTION = re.compile(r"\b(EQ|NE|LT|LE|GT|GE)\b")
_COMPARE: Mapping[str, Callable[[int, int], bool]] = MappingProxyType({
    "EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge})
_TWO: Mapping[str, Callable[[int, int], int]] = MappingProxyType({
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "minimum": min, "maximum": max,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor})


def scalar(word: str, operation: Operation, values: Sequence[int | None]) -> int | None:
    """The value of a whole-number scalar whose operands have `values`; None where it is not known."""
    if not operation.outputs or any(each.shape for each in operation.outputs):
        return None
    if not re.fullmatch(r"u?i\d+", operation.outputs[-1].dtype):
        return None
    if word == "constant":
        found = _DENSE.search(operation.text)
        return None if found is None else int(found[1]) if found[1][-1].isdigit() else int(found[1] == "true")
    known = [each for each in values if each is not None]
    if len(known) < len(values) or not known:
        return None
    value = _value(word, operation, known)
    return value if value is not None and -WIDEST < value < WIDEST else None


def _value(word: str, operation: Operation, known: Sequence[int]) -> int | None:
    if word == "select" and len(known) == 3:
        return known[1] if known[0] else known[2]
    if word == "clamp" and len(known) == 3:
        return min(max(known[0], known[1]), known[2])
    if len(known) == 2:
        direction = _DIRECTION.search(operation.text) if word == "compare" else None
        if direction is not None:
            return int(_COMPARE[direction[1]](known[0], known[1]))
        return _TWO[word](known[0], known[1]) if word in _TWO else None
    if len(known) == 1 and word in ("convert", "reshape", "broadcast_in_dim", "negate"):
        return -known[0] if word == "negate" else known[0]
    return None
