"""Equal nodes of a graph as classes: an equitable partition (colour refinement), for pictures of large fabrics."""

from __future__ import annotations

import numpy as np

from astrarium.arrays import I64, U64

__all__ = ["refined"]


def refined(colour: I64, source: I64, target: I64, link: I64, most: int) -> tuple[I64, bool]:
    """Split classes until nodes of a class have equally many neighbours in each class, over each kind of link.

    Args:
        colour: [nodes] class of each node at the start.
        source, target, link: [edges] of an undirected graph, and the kind of each.
        most: classes that may come of it.

    Returns:
        [nodes] classes 0, 1, ... by their first node, and whether they are equitable; where that needs more than
        `most` classes, the last partition of at most that many (of the start, if it has more).
    """
    now = _numbered(colour)
    while True:
        mark = np.zeros(now.size, np.uint64)
        for one, two in ((source, target), (target, source)):
            np.add.at(mark, one, _mixed(now[two].astype(np.uint64) * np.uint64(0x10001) + link.astype(np.uint64)))
        new = _numbered(_pairs(now, mark))
        count = int(new.max(initial=-1)) + 1
        if count == int(now.max(initial=-1)) + 1:
            return now, True
        if count > most:
            return now, False
        now = new


def _pairs(colour: I64, mark: U64) -> I64:
    """Equal numbers for equal pairs."""
    order = np.lexsort((mark, colour))
    new = np.r_[True, (colour[order][1:] != colour[order][:-1]) | (mark[order][1:] != mark[order][:-1])]
    found = np.empty(colour.size, np.int64)
    found[order] = np.cumsum(new[:colour.size]) - 1
    return found


def _numbered(colour: I64) -> I64:
    """Classes numbered by their first nodes."""
    _, first, which = np.unique(colour, return_index=True, return_inverse=True)
    place = np.empty(first.size, np.int64)
    place[np.argsort(first)] = np.arange(first.size)
    return place[which.reshape(-1)]


def _mixed(value: U64) -> U64:
    """A hash of each number (the finaliser of SplitMix64), so that sums of them tell multisets apart."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        value = (value ^ (value >> np.uint64(shift))) * np.uint64(factor)
    return value
