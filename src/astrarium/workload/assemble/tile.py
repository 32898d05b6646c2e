"""Templates along a schedule: one stage's nodes, by offsets alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from astrarium.arrays import I32, I64, Bool
from astrarium.workload.assemble.builder import BEFORE, BESIDE, GATHERED, REDUCED, STORED, Template

__all__ = ["Tiled", "joined_to", "tile"]


class Tiled(Struct, frozen=True, eq=False):
    """Nodes of one stage: `rows` [nodes] in the pool, parents as in TraceClass; `offset` and `exit` [units]."""

    rows: I32
    parent_ptr: I64
    parent: I32
    offset: I64
    exit: I64


def tile(templates: Sequence[Template], which: I32, joined: Bool) -> Tiled:
    """The units in order; each waits for the exit of the one before, or, joined, for what that one waits for."""
    sizes = np.array([len(each) for each in templates], np.int64)[which]
    ends = np.cumsum(sizes)
    offset = ends - sizes
    leave = offset + np.array([each.exit for each in templates], np.int64)[which]
    order = which.tolist()
    rows = np.concatenate([templates[each].rows for each in order])
    degree = np.concatenate([templates[each].degree for each in order])
    parent = np.concatenate([templates[each].parent for each in order])
    edges = np.array([len(each.parent) for each in templates], np.int64)[which]
    unit = np.repeat(np.arange(len(which), dtype=np.int32), edges)
    found = parent + offset.astype(np.int32)[unit]
    before, beside = _outside(joined, leave)
    reduced = _latest(np.array([each.reduced for each in templates], np.int64)[which], offset)
    gathered = _latest(np.array([each.gathered for each in templates], np.int64)[which], offset)
    stored = _latest(np.array([each.stored for each in templates], np.int64)[which], offset)
    for mark, exits in ((BEFORE, before), (BESIDE, beside), (REDUCED, reduced), (GATHERED, gathered), (STORED, stored)):
        at = np.flatnonzero(parent == mark)
        found[at] = exits[unit[at]]
    keep = found >= 0
    if not keep.all():
        node = np.repeat(np.arange(len(rows), dtype=np.int32), degree)
        degree, found = np.bincount(node[keep], minlength=len(rows)), found[keep]
    pointer = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(degree, out=pointer[1:])
    return Tiled(rows, pointer, found, offset, leave)


def _outside(joined: Bool, leave: I64) -> tuple[I64, I64]:
    """[units] exits of the unit before and of the one beside that, -1 where there is none."""
    count = len(leave)
    before = np.full(count, -1, np.int64)
    before[1:] = leave[:-1]
    beside = np.full(count, -1, np.int64)
    after_pair = np.zeros(count, np.bool_)
    after_pair[2:] = joined[1:-1]
    beside[2:] = np.where(after_pair[2:], leave[:-2], -1)
    pair = np.flatnonzero(joined)
    before[pair], beside[pair] = before[pair - 1], beside[pair - 1]
    return before, beside


def _latest(node: I64, offset: I64) -> I64:
    """[units] the node that the last unit before has at `node` (-1: it has none), as a number of the whole; or -1."""
    last = np.maximum.accumulate(np.where(node >= 0, np.arange(len(node)), -1))
    last[1:], last[0] = last[:-1].copy(), -1
    return np.where(last >= 0, (offset + node)[last], -1)


def joined_to(tiled: Tiled, tail: Template) -> Tiled:
    """Append a last unit. Its parents are numbers of nodes of the whole."""
    return Tiled(np.concatenate([tiled.rows, tail.rows]),
                 np.concatenate([tiled.parent_ptr, tiled.parent_ptr[-1] + np.cumsum(tail.degree)]),
                 np.concatenate([tiled.parent, tail.parent]),
                 np.append(tiled.offset, len(tiled.rows)), np.append(tiled.exit, tail.exit))
