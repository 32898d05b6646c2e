"""Strips and single nodes in a row, with what they wait for: the template of a unit of work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from astrarium.arrays import I32
from astrarium.errors import InternalError
from astrarium.workload.assemble.pool import Strip

__all__ = ["BEFORE", "BESIDE", "GATHERED", "REDUCED", "STORED", "Again", "Builder", "Held", "Mark", "Span", "Template",
           "What"]


What = Literal["activations", "weights", "gradients", "states", "working", "messages"]

BEFORE, BESIDE = -1, -2     # parents outside: the exit of the unit before, and of the one that ran at the same time
REDUCED, GATHERED = -3, -4  # and the last reduction of gradients, the last gather of weights of any unit before
STORED = -6                 # and the last store of activations (-5 is flows.NONE)


class Span(Struct, frozen=True, eq=False):
    """`count` equal strips, the first at node `base`, each `stride` nodes after the one before; `block` is the first
    one's number in its part.

    `down`: the following ones are blocks of lower number (backward).
    """

    block: int
    count: int
    base: int
    strip: Strip
    down: bool
    stride: int


class Held(Struct, frozen=True, eq=False):
    """A tensor inside a unit: what it is for, bytes, the node that makes it, the nodes that read it."""

    what: What
    size: float
    writer: int
    readers: tuple[int, ...]


class Again(Struct, frozen=True, eq=False):
    """Repeat the `tensors` `times` times, each time `stride` nodes further."""

    tensors: tuple[Held | Again, ...]
    times: int
    stride: int


class Template(Struct, frozen=True, eq=False):
    """One unit's nodes: row numbers, how many parents, parents (nodes of the unit, or BEFORE or BESIDE).

    `exit` is what the next unit waits for; `grads` are nodes after which the gradients of weights are there; `spans`
    say which block a node belongs to; `held` are tensors that live inside; `stores` (block, node): the node that puts
    what a block saves into another memory, `loads` that which brings it back, `released` that after which it is no
    longer here; `reduced` and `gathered` the last such collective (-1: none).
    """

    rows: I32
    degree: I32
    parent: I32
    exit: int
    grads: tuple[int, ...]
    spans: tuple[Span, ...]
    held: tuple[Held | Again, ...]
    stores: tuple[tuple[int, int], ...] = ()
    reduced: int = -1
    gathered: int = -1
    loads: tuple[tuple[int, int], ...] = ()
    released: tuple[tuple[int, int], ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def stored(self) -> int:
        """The last node that stores what a block saves (-1: none)."""
        return self.stores[-1][1] if self.stores else -1

    def block_of(self, node: int) -> int | None:
        """The block (in its part) that a node belongs to; None between blocks."""
        for span in self.spans:
            turn, place = divmod(node - span.base, span.stride)
            if 0 <= turn < span.count and place < len(span.strip):
                return span.block - turn if span.down else span.block + turn
        return None


class Mark(Struct, frozen=True):
    """How far a Builder was: its nodes, and the lengths of its lists."""

    size: int
    arrays: int
    held: int
    spans: int
    grads: int
    stores: int
    loads: int
    released: int


class Builder:
    """Collects the nodes of one unit, counted from `start`, and what its Template says of them."""

    def __init__(self, start: int = 0) -> None:
        self.size = start
        self.held: list[Held | Again] = []
        self.grads: list[int] = []
        self.stores: list[tuple[int, int]] = []
        self.loads: list[tuple[int, int]] = []
        self.released: list[tuple[int, int]] = []
        self._rows: list[I32] = []
        self._degree: list[I32] = []
        self._parent: list[I32] = []
        self._spans: list[Span] = []
        self._single: tuple[list[int], list[int], list[int]] = ([], [], [])

    def node(self, row: int, parents: Sequence[int]) -> int:
        """One node; returns its number."""
        waits = sorted(set(parents))
        rows, degree, parent = self._single
        rows.append(row)
        degree.append(len(waits))
        parent += waits
        self.size += 1
        return self.size - 1

    def chain(self, rows: Sequence[int], parents: Sequence[int]) -> int:
        """Nodes one after the other, the first after `parents`; returns the last one's number."""
        self.node(rows[0], parents)
        known, degree, parent = self._single
        more = len(rows) - 1
        known += rows[1:]
        degree += [1] * more
        parent += range(self.size - 1, self.size - 1 + more)
        self.size += more
        return self.size - 1

    def strips(self, strip: Strip, entry: Sequence[int], *, block: int, count: int = 1, down: bool = False) -> int:
        """`count` equal strips, each after the one before, the first after `entry`; returns the first node's number."""
        if strip.exit < 0 and count > 1:
            raise InternalError("a run of blocks that give nothing")
        self._flush()
        base, size = self.size, len(strip)
        self._spans.append(Span(block, count, base, strip, down, size))
        waits = sorted(set(entry))
        mark, degree, parent = strip.entry, strip.degree, strip.parent + np.int32(base)
        if len(waits) == 1:
            parent[mark] = waits[0]
        else:       # a node that waits for the entry waits for nothing else
            degree = degree.copy()
            degree[strip.first] = len(waits)
            times = np.where(mark, len(waits), 1)
            parent = np.repeat(parent, times)
            parent[np.repeat(mark, times)] = waits * len(strip.first)
        self._add(strip.rows, degree, parent)
        if count > 1:
            starts = base + size * np.arange(1, count, dtype=np.int32)[:, None]
            more = strip.parent[None, :] + starts
            more[:, mark] = starts - size + strip.exit
            self._add(_tiled(strip.rows, count - 1), _tiled(strip.degree, count - 1), more.ravel())
        return base

    def mark(self) -> Mark:
        """Where it is now."""
        self._flush()
        return Mark(self.size, len(self._rows), len(self.held), len(self._spans), len(self.grads), len(self.stores),
                    len(self.loads), len(self.released))

    def repeat(self, since: Mark, times: int, blocks: int) -> None:
        """Repeat what was collected `since` `times` times, for `blocks` other blocks each time: parents move along."""
        self._flush()
        size, turn = self.size - since.size, np.arange(1, times + 1, dtype=np.int32)
        rows, degree, parent = (np.concatenate(each[since.arrays:])
                                for each in (self._rows, self._degree, self._parent))
        moved = np.where(parent >= 0, parent + np.int32(size) * turn[:, None], parent)
        self._add(_tiled(rows, times), _tiled(degree, times), moved.ravel())
        held, grads = self.held[since.held:], self.grads[since.grads:]
        stores, loads, gone = self.stores[since.stores:], self.loads[since.loads:], self.released[since.released:]
        self.held += [Again(tuple(held), times, size)] if held else []
        self._spans += _repeated(self._spans[since.spans:], size, times, blocks)
        turns = range(1, times + 1)
        self.grads += [node + number * size for number in turns for node in grads]
        self.stores += [(block + number * blocks, node + number * size) for number in turns for block, node in stores]
        self.released += [(block + number * blocks, node + number * size) for number in turns for block, node in gone]
        self.loads += [(block - number * blocks, node + number * size) for number in turns for block, node in loads]

    def _add(self, rows: I32, degree: I32, parent: I32) -> None:
        self._rows.append(rows)
        self._degree.append(degree)
        self._parent.append(parent)
        self.size += len(rows)

    def _flush(self) -> None:
        """Single nodes since the last strip become arrays."""
        if self._single[0]:
            for known, fresh in zip((self._rows, self._degree, self._parent), self._single, strict=True):
                known.append(np.array(fresh, np.int32))
            self._single = ([], [], [])

    def template(self, exit_node: int, *, reduced: int | None = None, gathered: int | None = None) -> Template:
        """What was collected."""
        if exit_node < 0:
            raise InternalError("a unit of work without a node that gives its result")
        self._flush()
        rows, degree, parent = (np.concatenate(each) for each in (self._rows, self._degree, self._parent))
        return Template(rows, degree, parent, exit_node, tuple(self.grads), tuple(self._spans), tuple(self.held),
                        tuple(self.stores), -1 if reduced is None else reduced, -1 if gathered is None else gathered,
                        tuple(self.loads), tuple(self.released))


def _tiled(values: I32, times: int) -> I32:
    """Repeat `values` `times` times."""
    return np.broadcast_to(values, (times, len(values))).ravel()


def _repeated(spans: Sequence[Span], size: int, times: int, blocks: int) -> list[Span]:
    """Repeat `times` times, `size` nodes and `blocks` blocks further each time."""
    def at(span: Span, turn: int) -> Span:
        on = -turn * blocks if span.down else turn * blocks
        return Span(span.block + on, span.count, span.base + turn * size, span.strip, span.down, span.stride)
    if len(spans) == 1 and spans[0].count == 1:
        return [replace(at(spans[0], 1), count=times, stride=size)]
    return [at(span, turn) for turn in range(1, times + 1) for span in spans]
