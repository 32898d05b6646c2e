"""The blocks of a unit one after the other; those that go like the ones before them are repeated by columns.

What a block adds depends on its kind, on those of a few blocks ahead, and on what is remembered from the blocks before
it. Where all of that is as it was some blocks ago, but for numbers of nodes that have moved along, so is what follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from astrarium.workload.assemble.builder import Builder, Mark

__all__ = ["State", "Walk", "moved", "walk"]

Nodes = tuple[Any, ...]     # numbers of nodes, and tuples of such; below 0: marks, which stay
FAR = 1 << 40               # beyond all nodes


class State(NamedTuple):
    """What is remembered between two blocks: `nodes`, and all else (`fixed`, which can be a key)."""

    fixed: tuple[Any, ...]
    nodes: Nodes


class Walk(Protocol):
    """A unit on its way through its blocks."""

    def block(self, position: int) -> int:
        """Adds the block at `position`, and those after it that go with it; returns how many these are."""

    def state(self, position: int) -> State:
        """What blocks from `position` on can see of those before."""

    def resume(self, position: int, state: State) -> None:
        """Goes on at `position` with what was remembered."""


def moved(nodes: Nodes, by: int) -> Nodes:
    """Add `by` to all node numbers that are not negative."""
    return tuple([moved(each, by) if isinstance(each, tuple) else each if each < 0 else each + by for each in nodes])


def walk(unit: Walk, build: Builder, order: Sequence[int], ahead: int) -> None:
    """All blocks of `order` (kinds); a block sees the kinds of `ahead` blocks behind it (at least 1)."""
    seen: dict[State, tuple[int, Mark]] = {}
    position, often = 0, Counter(order)
    while position < len(order):
        if often[order[position]] == 1 or position + ahead >= len(order):   # nothing that could be repeated
            position += unit.block(position)
            continue
        state = unit.state(position)
        here = State(state.fixed, moved(state.nodes, FAR - build.size))
        if here in seen:
            first, mark = seen[here]
            period = position - first
            times = (_alike(order, position, period) - ahead) // period
            if times > 0:
                by = (build.size - mark.size) * times
                build.repeat(mark, times, period)
                position += period * times
                unit.resume(position, State(state.fixed, moved(state.nodes, by)))
                continue
        if position:        # the first block has its own rules
            seen[here] = position, build.mark()
        position += unit.block(position)


def _alike(order: Sequence[int], position: int, period: int) -> int:
    """How many kinds from `position` on are those of `period` blocks before."""
    end = position
    while end < len(order) and order[end] == order[end - period]:
        end += 1
    return end - position
