"""Queues of links over time, the thresholds of marks, and when PFC stopped a link."""

from __future__ import annotations

import numpy as np

from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.network.roce import Roce
from astrarium.network.roce_network import roce_marks
from astrarium.report.plot.colours import ranked
from astrarium.report.plot.find import Drawing
from astrarium.report.plot.plot import Axis, Column, Layer, Plot
from astrarium.result import Result
from astrarium.result.queues import Queues

__all__ = ["PLOT", "link_queues"]

SHOWN = 6           # links


def link_queues(result: Result, design: Design) -> Plot:
    """The longest queues of links, a line each; with `roce` also from where packets are marked, and bars at the top
    when PFC stopped a link.

    Args:
        result: the run of `design` with `network.packets.queues: true`.
        design: says the transport.

    Raises:
        InputError: where queues were not recorded, or nothing waited.
    """
    queues = result.queues
    if queues is None:
        raise InputError("link_queues", "no queue was recorded", expected="a run with network.packets.queues: true")
    order = np.lexsort((queues.number, -queues.longest.sum(axis=1), -queues.longest.max(axis=1)))[:SHOWN].tolist()
    names = [queues.name(row) for row in order]
    bins = queues.longest.shape[1]
    time = (np.arange(bins + 1) * queues.bin / 1000).tolist()
    columns = {"colour": Column("link", [name for name in names for _ in time]),
               "x": Column("time", time * len(order), "time"),
               "y": Column("queue", [float(value) for row in order for value in (*queues.longest[row], 0)], "bytes")}
    most = float(queues.longest.max())
    layers = [Layer("line", columns, step=True, size=1.5)]
    limits = _thresholds(queues, design)
    if limits:
        layers += [Layer("rule", {"y": Column(name, [limit], "bytes")}, colour="limit", dash=True)
                   for name, limit in limits.items()]
        layers.append(Layer("text", {"x": Column("", [0.0] * len(limits), "time"),
                                     "y": Column("", list(limits.values()), "bytes"),
                                     "text": Column("", [f" {name}" for name in limits])}, colour="limit", down=-9))
    layers += _stops(queues, order, names, 1.1 * max(most, *limits.values(), 1.0))
    said = (f"The {len(order)} longest of {queues.number.size:,} queues; of each span of {queues.bin / 1e6:.3g} us the "
            "longest that stood in it." + (" Bars at the top: for how much of a span PFC stopped the link."
                                           if queues.paused.any() else ""))
    return Plot("Queues of links over time", said, tuple(layers), Axis("time", "time"), Axis("queue", "bytes"),
                ranked(names), zoom=True)


def _thresholds(queues: Queues, design: Design) -> dict[str, float]:
    """The thresholds of marks within the plot, those of each rate where links have several."""
    if not isinstance(design.network.packets.transport, Roce):
        return {}
    most, rows = 2 * int(queues.longest.max()), roce_marks(design.network)
    limits = {name + (f" at {8 * row.rate:g} Gb/s" if len(rows) > 1 else ""): float(limit) for row in rows
              for name, limit in (("marks begin", row.kmin), ("all are marked", row.kmax))}
    return {name: limit for name, limit in limits.items() if limit <= most}


def _stops(queues: Queues, order: list[int], names: list[str], top: float) -> list[Layer]:
    """When PFC stopped each link, a line of bars for each."""
    rows = []
    for place, row in enumerate(order):
        at = np.flatnonzero(queues.paused[row])
        begin = at * queues.bin
        rows += [(names[place], start / 1000, end / 1000, top * (1 + 0.03 * place)) for start, end in zip(
            begin.tolist(), (begin + queues.paused[row][at]).tolist())]
    if not rows:
        return []
    return [Layer("rule", {"colour": Column("link", [row[0] for row in rows]),
                           "x": Column("stopped from", [row[1] for row in rows], "time"),
                           "x2": Column("to", [row[2] for row in rows], "time"),
                           "y": Column("", [row[3] for row in rows], "bytes")}, size=4)]


PLOT = Drawing(("run",), lambda found: link_queues(found.result, found.design))
