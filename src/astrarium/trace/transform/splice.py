"""One field of very many Node messages at once: found by columns, replaced without decoding anything else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I64, U8
from astrarium.trace._wire import DELIMITED, VARINT
from astrarium.trace.transform.patch import replaced

__all__ = ["Splice", "spliced"]

LONGEST = 10         # bytes of a number
AT_ONCE = 1 << 16    # nodes


class Splice(Struct, frozen=True, eq=False):
    """`values[i]` is what takes the place of field `field` (below 10) of node index `nodes[i]`, with its tag; where it
    is empty the field goes. `nodes` ascend."""

    field: int
    nodes: I64
    values: Sequence[bytes]


def spliced(file: bytes, start: I64, end: I64, splice: Splice) -> Iterator[tuple[int, bytes]]:
    """(node index, its new message) of the nodes of a splice; messages are `file[start[i]:end[i]]` [all nodes]."""
    for first in range(0, splice.nodes.size, AT_ONCE):
        nodes = splice.nodes[first:first + AT_ONCE]
        begin, stop, odd = _located(np.frombuffer(file, np.uint8), start[nodes], end[nodes], splice.field)
        rows = zip(nodes.tolist(), start[nodes].tolist(), begin.tolist(), stop.tolist(), end[nodes].tolist(),
                   odd.tolist(), splice.values[first:first + AT_ONCE], strict=True)
        for node, a, b, c, d, strange, value in rows:
            if strange:
                yield node, replaced(file[a:d], splice.field, value)
            else:
                yield node, file[a:b] + value + file[c:d]


def _located(data: U8, start: I64, end: I64, field: int) -> tuple[I64, I64, npt.NDArray[np.bool_]]:
    """[messages] where the field begins and stops, both where it would be if it is not there; and whether a message is
    one that this cannot tell of: fields out of order or twice, tags of two bytes, other wire types, malformed."""
    begin, stop = end.copy(), end.copy()
    odd = np.zeros(start.size, np.bool_)
    found = np.zeros(start.size, np.bool_)
    last, at = np.zeros(start.size, np.int64), start.copy()
    left = np.flatnonzero(start < end)
    while left.size:
        place, limit = at[left], end[left]
        tag = data[place].astype(np.int64)
        number, wire = tag >> 3, tag & 7
        after, value = _numbers(data, place + 1, limit)
        after = np.where(wire == DELIMITED, after + value, after)
        bad = ((tag >= 0x80) | (number == 0) | (number < last[left]) | ((number == field) & found[left])
               | ((wire != DELIMITED) & (wire != VARINT)) | (after > limit))
        here = (number >= field) & ~found[left] & ~bad
        begin[left[here]] = place[here]
        stop[left[here]] = np.where(number == field, after, place)[here]
        found[left[here]] = True
        odd[left[bad]] = True
        at[left], last[left] = after, number
        left = left[~bad & (after < limit)]
    return begin, stop, odd


def _numbers(data: U8, at: I64, limit: I64) -> tuple[I64, I64]:
    """(place after it, value) of the varint at each place; one that runs too far ends behind its limit."""
    at, value, going = at.copy(), np.zeros(at.size, np.int64), np.ones(at.size, np.bool_)
    for step in range(LONGEST):
        byte = data[np.minimum(at, data.size - 1)].astype(np.int64)
        if step < LONGEST - 2:      # a length is never longer
            value += np.where(going, (byte & 0x7F) << 7 * step, 0)
        at += going
        going &= byte >= 0x80
        if not going.any():
            break
    at[going] = limit[going] + 1
    return at, value
