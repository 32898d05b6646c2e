"""Queues of links over time as SVG: lines, the thresholds of marks, and above them when PFC stopped a link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from astrarium.design import Design
from astrarium.network.config import Network
from astrarium.network.roce import Roce
from astrarium.network.roce_network import roce_marks
from astrarium.report.pages.html import note, section, wide
from astrarium.report.svg.charts import Thresholds, over_time
from astrarium.result import Result
from astrarium.result.queues import Queues

__all__ = ["SHOWN", "queue_chart", "queue_part"]

SHOWN = 6           # links


def queue_chart(queues: Queues, network: Network, links: int = SHOWN) -> str:
    """The longest queues, one line each; with `roce`, where marks begin and where every packet is marked. Bars above
    them say when PFC stopped each link."""
    rows = _longest(queues)[:links]
    last = queues.longest.shape[1] * queues.bin
    scale, unit = (1e9, "ms") if last > 1e9 else (1e6, "us")
    time = (np.arange(queues.longest.shape[1]) * queues.bin / scale).tolist()
    series = [(queues.name(row), [*time, last / scale], [*(queues.longest[row] / 1e3).tolist(), 0.0]) for row in rows]
    return over_time(series, unit, "kB", _thresholds(queues, network), [_spans(queues, row, scale) for row in rows])


def _longest(queues: Queues) -> list[int]:
    """Rows by the longest queue, those that waited most first."""
    order = np.lexsort((queues.number, -queues.longest.sum(axis=1), -queues.longest.max(axis=1)))
    return [int(row) for row in order]


def _thresholds(queues: Queues, network: Network) -> Thresholds:
    """The thresholds of marks within the chart, those of each rate where links have several."""
    if not isinstance(network.packets.transport, Roce):
        return {}
    most = 2 * int(queues.longest.max())
    rows = roce_marks(network)
    limits = {name + (f" at {8 * row.rate:g} Gb/s" if len(rows) > 1 else ""): limit for row in rows
              for name, limit in (("marks begin", row.kmin), ("all are marked", row.kmax))}
    return {name: limit / 1e3 for name, limit in limits.items() if limit <= most}


def _spans(queues: Queues, row: int, scale: float) -> Sequence[tuple[float, float]]:
    """(begin, end) of the spans in which the link stood still for some time; that share of each."""
    at = np.flatnonzero(queues.paused[row])
    begin = at * queues.bin
    return list(zip((begin / scale).tolist(), ((begin + queues.paused[row][at]) / scale).tolist()))


def queue_part(design: Design, result: Result) -> Iterator[str]:
    """The chart of queues for a page, if the run recorded them."""
    queues = result.queues
    if queues is None:
        return
    stopped = queues.paused.any()
    said = note(f"The {min(SHOWN, queues.number.size)} longest of {queues.number.size:,} queues; of each span of "
                f"{queues.bin / 1e6:.3g} us the longest that stood in it."
                + (" Bars above: for how much of a span PFC stopped the link." if stopped else ""))
    yield section("Queues of links over time", wide(queue_chart(queues, design.network)), said)
