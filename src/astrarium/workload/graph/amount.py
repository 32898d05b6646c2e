"""Numbers that wait for sizes: how they come about is written down once, and computed for any number of layouts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from operator import add, mul, sub, truediv
from typing import Any

__all__ = ["Amount", "Leaf", "Program", "Tape", "largest", "total"]

Leaf = tuple[str, Any]      # what a layout is asked for: the name of its method, and the argument
Node = tuple[int, int]      # LEAF, CONSTANT or RESULT, and its number among these
LEAF, CONSTANT, RESULT = range(3)


class Amount:
    """A number to be, in the place of a float. It can be added, multiplied and divided, and nothing else: code that
    would decide by its value fails."""

    __slots__ = ("node", "tape")

    def __init__(self, tape: Tape, node: Node) -> None:
        self.tape, self.node = tape, node

    def __add__(self, other: object) -> Amount:
        return self.tape.result(add, self, other)

    def __radd__(self, other: object) -> Amount:
        return self if other == 0 and type(other) is int else self.tape.result(add, other, self)    # where sums start

    def __sub__(self, other: object) -> Amount:
        return self.tape.result(sub, self, other)

    def __rsub__(self, other: object) -> Amount:
        return self.tape.result(sub, other, self)

    def __mul__(self, other: object) -> Amount:
        return self.tape.result(mul, self, other)

    def __rmul__(self, other: object) -> Amount:
        return self.tape.result(mul, other, self)

    def __truediv__(self, other: object) -> Amount:
        return self.tape.result(truediv, self, other)

    def __lt__(self, other: object) -> bool:
        raise TypeError("an amount has no value yet")

    __gt__ = __le__ = __ge__ = __lt__

    def __bool__(self) -> bool:
        raise TypeError("an amount has no value yet")


def largest(*values: float) -> float:
    """The largest of some numbers, or amounts."""
    return functools.reduce(_larger, values)


def total(values: Iterable[float], start: float = 0) -> float:
    """The sum of some numbers, or amounts, one after the other: Python's `sum` rounds floats otherwise from 3.12 on."""
    return functools.reduce(add, values, start)


def _larger(one: Any, other: Any) -> Any:
    amount = next((each for each in (one, other) if isinstance(each, Amount)), None)
    return max(one, other) if amount is None else amount.tape.result(max, one, other)


class Tape:
    """What amounts come from, in the order in which that was asked for; equal ones once."""

    def __init__(self) -> None:
        self._leaves: dict[Leaf, int] = {}
        self._constants: dict[tuple[type, Any], int] = {}
        self._code: dict[tuple[Callable[[Any, Any], Any], Node, Node], int] = {}

    def leaf(self, method: str, argument: Any) -> Amount:
        """What a layout's `method` says of an argument."""
        return Amount(self, (LEAF, self._leaves.setdefault((method, argument), len(self._leaves))))

    def result(self, function: Callable[[Any, Any], Any], left: object, right: object) -> Amount:
        """`function` of two amounts or numbers."""
        key = (function, self.node(left), self.node(right))
        return Amount(self, (RESULT, self._code.setdefault(key, len(self._code))))

    def node(self, value: object) -> Node:
        """An amount's, or a number's."""
        if isinstance(value, Amount):
            return value.node
        return CONSTANT, self._constants.setdefault((type(value), value), len(self._constants))

    def program(self, wanted: Sequence[object]) -> Program:
        """What computes the `wanted` amounts or numbers."""
        nodes = [self.node(each) for each in wanted]
        starts = (0, len(self._leaves), len(self._leaves) + len(self._constants))
        code = [(function, starts[left[0]] + left[1], starts[right[0]] + right[1])
                for function, left, right in self._code]
        return Program(tuple(self._leaves), tuple(value for _, value in self._constants), tuple(code),
                       tuple(starts[kind] + number for kind, number in nodes))


class Program:
    """Computes amounts from the sizes of a layout."""

    def __init__(self, leaves: Sequence[Leaf], constants: Sequence[Any],
                 code: Sequence[tuple[Callable[[Any, Any], Any], int, int]], wanted: Sequence[int]) -> None:
        self._leaves, self._constants, self._code, self._wanted = leaves, constants, code, wanted

    def run(self, layout: object) -> list[Any]:
        """The numbers that were wanted, in that order. Raises what the layout raises (InputError: an uneven size)."""
        found = [getattr(layout, method)(argument) for method, argument in self._leaves]
        found += self._constants
        for function, left, right in self._code:
            found.append(function(found[left], found[right]))
        return [found[place] for place in self._wanted]
