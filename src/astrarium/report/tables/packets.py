"""What packets did, as tables: completion times of messages, and the links where packets waited longest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from astrarium.report.tables.table import Table
from astrarium.result import Result
from astrarium.result.flows import Flows, PacketLinks
from astrarium.units import format_bytes, format_time

__all__ = ["packet_tables"]

TOP = 4     # links shown
PARTS = ((50, "median"), (99, "99 %"), (100, "most"))


def packet_tables(result: Result) -> Iterator[Table]:
    """Flows by size, and the longest queues; nothing for a back end without packets."""
    if result.flows is not None:
        yield _flows(result.flows)
    if result.packet_links is not None and result.packet_links.number.size:
        yield _queues(result.packet_links)


def _flows(flows: Flows) -> Table:
    time, rows = flows.time / 1000, []
    sizes, counts = np.unique(flows.size, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    for size in sizes[order][:TOP].tolist():
        of = np.sort(time[flows.size == size])
        rows.append((format_bytes(size), f"{of.size:,}", format_time(float(of[0])),
                     *(format_time(_percentile(of, part)) for part, _ in PARTS)))
    more = f", {TOP} of {sizes.size} sizes" if sizes.size > TOP else ""
    lost = int(flows.lost.sum())
    lost_too = f"; links that failed lost {format_bytes(lost)}, sent again" if lost else ""
    return Table(f"messages{more} (time: until the last byte is there{lost_too})", ">>>>>>", rows,
                 ("bytes", "messages", "least", *(name for _, name in PARTS)))


def _percentile(ordered: npt.NDArray[np.float64], part: float) -> float:
    """As numpy's, which takes 10 ms to start: between the two values that are nearest."""
    at = part / 100 * (ordered.size - 1)
    low = int(at)
    high = min(low + 1, ordered.size - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (at - low))


def _queues(queues: PacketLinks) -> Table:
    order = np.lexsort((queues.number, -queues.marks, -queues.queue))[:TOP]
    rows = [(queues.name(int(row)), format_bytes(int(queues.queue[row])), f"{int(queues.marks[row]):,}",
             f"{int(queues.pauses[row]):,}", format_time(int(queues.paused[row]) / 1000)) for row in order]
    total = f"{int(queues.marks.sum()):,} ECN marks, {int(queues.pauses.sum()):,} pauses"
    return Table(f"longest queues ({int((queues.queue > 0).sum()):,} links had one; in all {total})", "<>>>>", rows,
                 ("link", "most bytes", "ECN marks", "pauses", "paused"))
