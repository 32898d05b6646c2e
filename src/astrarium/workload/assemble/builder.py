"""Strips and single nodes in a row, with what they wait for: the template of a unit of work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from astrarium.errors import InternalError
from astrarium.workload.assemble.pool import ENTRY, Strip

__all__ = ["BEFORE", "BESIDE", "GATHERED", "REDUCED", "Builder", "Held", "Span", "Template", "What"]

I32 = npt.NDArray[np.int32]

What = Literal["activations", "weights", "gradients", "states", "working", "messages"]

BEFORE, BESIDE = -1, -2     # parents outside: the exit of the unit before, and of the one that ran at the same time
REDUCED, GATHERED = -3, -4  # and the last reduction of gradients, the last gather of weights of any unit before


@dataclass(frozen=True, eq=False)
class Span:
    """`count` equal strips one after the other, the first at node `base`; `block` is the first one's number in its
    part.

    `down`: the following ones are blocks of lower number (backward).
    """

    block: int
    count: int
    base: int
    strip: Strip
    down: bool


@dataclass(frozen=True, eq=False)
class Held:
    """A tensor inside a unit: what it is for, bytes, the node that makes it, the nodes that read it."""

    what: What
    size: float
    writer: int
    readers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Template:
    """One unit's nodes: row numbers, how many parents, parents (nodes of the unit, or BEFORE or BESIDE).

    `exit` is what the next unit waits for; `grads` are nodes after which the gradients of weights are there; `spans`
    say which block a node belongs to; `held` are tensors that live inside; `stores` (block, node): the node that puts
    what a block saves into remote memory; `reduced` and `gathered` the last such collective (-1: none).
    """

    rows: I32
    degree: I32
    parent: I32
    exit: int
    grads: tuple[int, ...]
    spans: tuple[Span, ...]
    held: tuple[Held, ...]
    stores: tuple[tuple[int, int], ...] = ()
    reduced: int = -1
    gathered: int = -1

    def __len__(self) -> int:
        return len(self.rows)


class Builder:
    """Collects the nodes of one unit; they are counted from `start`."""

    def __init__(self, start: int = 0) -> None:
        self.size = start
        self.held: list[Held] = []
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

    def strips(self, strip: Strip, entry: Sequence[int], *, block: int, count: int = 1, down: bool = False) -> int:
        """`count` equal strips, each after the one before, the first after `entry`; returns the first node's number."""
        if strip.exit < 0 and count > 1:
            raise InternalError("a run of blocks that give nothing")
        self._flush()
        base, size = self.size, len(strip)
        self._spans.append(Span(block, count, base, strip, down))
        waits = sorted(set(entry))
        mark = strip.parent == ENTRY
        degree, parent = strip.degree, strip.parent + np.int32(base)
        if len(waits) == 1:
            parent[mark] = waits[0]
        else:
            times = np.where(mark, len(waits), 1)
            node = np.repeat(np.arange(size), degree)
            degree = np.bincount(np.repeat(node, times), minlength=size).astype(np.int32)
            parent = np.repeat(parent, times)
            parent[np.repeat(mark, times)] = np.tile(waits, int(mark.sum()))
        self._add(strip.rows, degree, parent)
        if count > 1:
            starts = base + size * np.arange(1, count, dtype=np.int32)[:, None]
            more = strip.parent[None, :] + starts
            more[:, mark] = starts - size + strip.exit
            self._add(np.tile(strip.rows, count - 1), np.tile(strip.degree, count - 1), more.ravel())
        return base

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

    def template(self, exit_node: int, grads: Sequence[int] = (), stores: Sequence[tuple[int, int]] = (), *,
                 reduced: int | None = None, gathered: int | None = None) -> Template:
        """What was collected."""
        if exit_node < 0:
            raise InternalError("a unit of work without a node that gives its result")
        self._flush()
        rows, degree, parent = (np.concatenate(each) for each in (self._rows, self._degree, self._parent))
        return Template(rows, degree, parent, exit_node, tuple(grads), tuple(self._spans), tuple(self.held),
                        tuple(stores), -1 if reduced is None else reduced, -1 if gathered is None else gathered)
