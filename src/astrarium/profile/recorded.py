"""What a profiled trace says about its collectives: the order in which the rank issued them, and when they ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.trace.columns import Columns, Traces
from astrarium.trace.groups import group_key
from astrarium.trace.node import decode_metadata
from astrarium.vocab import CommOp

__all__ = ["TOGETHER", "WORLD", "Calls", "collective_calls", "is_timed", "start_ns", "world_size"]

WORLD = ""                  # the group of all ranks
LONGEST_US = 1 << 43        # 100 days
LATEST_NS = 1 << 62         # the year 2116
TOGETHER = (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.ALL_TO_ALL, CommOp.REDUCE_SCATTER,
            CommOp.REDUCE_SCATTER_BLOCK, CommOp.BARRIER)
"""Operations in which every member needs data of every other, so that none ends before the last has begun."""


class Calls(Struct, frozen=True, eq=False):
    """The collectives of one group on one rank in order of issue; arrays [collectives], times in ns of its clock."""

    node: I64       # index in the rank's columns
    op: I64
    size: I64       # bytes
    begin: I64
    end: I64

    def same(self, other: Calls) -> bool:
        """Whether the other rank issued the same operations with the same bytes in the same order."""
        return np.array_equal(self.op, other.op) and np.array_equal(self.size, other.size)


def is_timed(traces: Traces) -> bool:
    """Whether all recorded times can be times of one run."""
    return all(int(columns.start.max(initial=0)) < LONGEST_US and int(columns.duration.max(initial=0)) < LONGEST_US
               for columns in traces.classes)


def start_ns(traces: Traces, rank: int) -> int | None:
    """When the rank's first node began, ns of its clock; None where the trace does not say."""
    said = _said(traces, rank, "start_ns")
    return None if said is None or not 0 <= said < LATEST_NS else said + _first_ns(traces.of(rank)[0])


def _first_ns(columns: Columns) -> int:
    """When the first node that took time began, ns after `start_ns`: of a step that was cut out, not the job's 0."""
    timed = columns.start[columns.duration > 0]
    return 1000 * int(timed.min()) if timed.size else 0


def world_size(traces: Traces, rank: int) -> int | None:
    """How many ranks the rank's recorded job had; None where the trace does not say."""
    return _said(traces, rank, "world_size")


def _said(traces: Traces, rank: int, name: str) -> int | None:
    message = traces.described.get(rank)
    found = [a.value for a in decode_metadata(message).attrs if a.name == name] if message else []
    return found[-1] if found and isinstance(found[-1], int) and not isinstance(found[-1], bool) else None


def collective_calls(traces: Traces, groups: Mapping[str, Sequence[int]]) -> list[dict[str, Calls]]:
    """Per rank: group -> its collectives. "" is the group of all ranks; collectives of unknown groups are left out."""
    key = [group_key(text) for text in traces.texts]
    named = [name if name in groups else WORLD if name in ("", "0") else None for name in key] + [WORLD]
    orders = [columns.issue_order for columns in traces.classes]
    found: list[dict[str, Calls]] = []
    for rank in range(traces.ranks):
        found.append(_calls_of(traces, rank, orders[int(traces.rank_class[rank])], named))
    return found


def _calls_of(traces: Traces, rank: int, order: I64, named: Sequence[str | None]) -> dict[str, Calls]:
    columns, row = traces.of(rank)
    slot = np.full(columns.nodes, -1, np.int64)
    slot[columns.comm_node] = np.arange(len(columns.comm_node))
    group = columns.group[row, slot[order]]
    origin = start_ns(traces, rank)
    origin = 0 if origin is None else origin - _first_ns(columns)
    out: dict[str, Calls] = {}
    for name in dict.fromkeys(named[number] for number in group.tolist()):
        if name is None:
            continue
        same = np.array([named[number] == name for number in group.tolist()], np.bool_)
        node = order[same]
        begin = origin + 1000 * columns.start[node].astype(np.int64)
        out[name] = Calls(node, columns.comm_type[node], columns.comm_size[node], begin,
                          begin + 1000 * columns.duration[node].astype(np.int64))
    return out
