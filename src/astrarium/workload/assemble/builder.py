"""Strips and single nodes in a row, with what they wait for: the template of a unit of work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from astrarium.errors import InternalError
from astrarium.workload.assemble.pool import ENTRY, Strip

__all__ = ["BEFORE", "BESIDE", "Builder", "Held", "Span", "Template"]

I32 = npt.NDArray[np.int32]

BEFORE, BESIDE = -1, -2     # parents outside: the exit of the unit before, and of the one that ran at the same time


@dataclass(frozen=True, eq=False)
class Span:
    """`count` equal strips one after the other, the first at node `base`; `block` is the first one's number in the part.

    `down`: the following ones are blocks of lower number (backward).
    """

    block: int
    count: int
    base: int
    strip: Strip
    down: bool


@dataclass(frozen=True, eq=False)
class Held:
    """A tensor inside a unit: bytes, the node that makes it, the nodes that read it."""

    size: float
    writer: int
    readers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Template:
    """One unit's nodes: row numbers, how many parents, parents (nodes of the unit, or BEFORE or BESIDE).

    `exit` is what the next unit waits for; `grads` are nodes after which the gradients of weights are there; `spans` say
    which block a node belongs to; `held` are tensors that live inside; `stores` [blocks] the node that empties each block's
    saved activations into remote memory, where one does.
    """

    rows: I32
    degree: I32
    parent: I32
    exit: int
    grads: tuple[int, ...]
    spans: tuple[Span, ...]
    held: tuple[Held, ...]
    stores: tuple[int, ...] = ()

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

    def node(self, row: int, parents: Sequence[int]) -> int:
        """One node; returns its number."""
        waits = sorted(set(parents))
        self._add(np.array([row], np.int32), np.array([len(waits)], np.int32), np.array(waits, np.int32))
        return self.size - 1

    def strips(self, strip: Strip, entry: Sequence[int], *, block: int, count: int = 1, down: bool = False) -> int:
        """`count` equal strips, each after the one before, the first after `entry`; returns the first one's first node."""
        if strip.exit < 0 and count > 1:
            raise InternalError("a run of blocks that give nothing")
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

    def template(self, exit_node: int, grads: Sequence[int] = (), stores: Sequence[int] = ()) -> Template:
        """What was collected."""
        if exit_node < 0:
            raise InternalError("a unit of work without a node that gives its result")
        return Template(np.concatenate(self._rows), np.concatenate(self._degree), np.concatenate(self._parent), exit_node,
                        tuple(grads), tuple(self._spans), tuple(self.held), tuple(stores))
