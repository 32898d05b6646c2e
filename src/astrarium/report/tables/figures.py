"""The figures of a run as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from astrarium.cost import FIGURES
from astrarium.cost.interval import Interval
from astrarium.report.tables.interval import span
from astrarium.report.tables.table import Table

__all__ = ["SCORES", "figure_table"]

SCORES = "MFU counts all scores of attention; HFU leaves out those that are masked and skipped"


def figure_table(found: Mapping[str, float], training: Mapping[str, object],
                 within: Interval | None = None) -> Table | None:
    """Label, value and, where the step time has one, interval of every figure in `found`, under what holds for all of
    them where a training step ran; None where there is nothing."""
    title = "figures"
    if training:
        title = (f"training: {training['sequence_tokens']:,} tokens a sample, {training['global_batch']:,} samples a "
                 f"step, {training['precision']}")
        peaks = cast("list[float]", training["peak_flop_per_ns"])
        rates = " and ".join(f"{peak / 1000:,.6g}" for peak in peaks)
        title += f"; {training['peak_precision']} peak {rates} TFLOP/s" if peaks else ""
        title += (f"\nwith {' and '.join(cast('list[str]', training['kernels']))} kernels, {training['collectives']} "
                  "collectives, " + (f"stack {training['stack']}" if training["stack"] else "no stack named"))
        if found.get("hfu", math.inf) < found.get("mfu", 0.0):
            title += f"\n{SCORES}"
    rows = [(FIGURES[name].label or name, FIGURES[name].shown(value)) for name, value in found.items()]
    if within is not None and within.known:
        return Table(title, "<><", [(*row, span(within, name, value)) for row, (name, value) in
                                    zip(rows, found.items(), strict=True)])
    return Table(title, "<>", rows) if rows else None
