"""A Result as one HTML page that needs nothing else: what `run` prints, where each rank's time goes, and for training
the pipeline and memory."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from astrarium.design import Design
from astrarium.report.pages.about import about
from astrarium.report.pages.html import bar, key, note, page, section, table_of, wide
from astrarium.report.pages.page import Page, ShownRun
from astrarium.report.pages.queues import queue_part
from astrarium.report.pages.roofline import roofline_part
from astrarium.report.pages.stages import SHOWN, memory_bars, memory_over_time, pipeline
from astrarium.report.svg.charts import COLOURS
from astrarium.report.tables.summary import PARTS, summary_tables
from astrarium.report.tables.table import Table
from astrarium.result import Result
from astrarium.units import format_time
from astrarium.workload.transformer import Transformer

__all__ = ["PAGE", "run_page"]

WORDS = dict(PARTS)
COLOUR = dict(zip(WORDS, (COLOURS[0], COLOURS[1], COLOURS[3], COLOURS[4], "#dddddd")))


def run_page(design: Design, result: Result, title: str, *more: Table | None) -> str:
    """The page; `more` follows the times, as in print."""
    capacity = float("inf") if design.memory.capacity is None else float(design.memory.capacity)
    path, colon, words = title.partition(": ")
    name = os.path.basename(path) + colon + words
    parts = [table_of(table) for table in summary_tables(result, f"Times and memory of {name}", *more)]
    parts[1:1] = [*_times(result), *_fabric(design)]
    training = isinstance(design.workload, Transformer)
    if isinstance(design.workload, Transformer):
        parts += [*pipeline("the step", result, design.workload), *memory_bars("a stage", design.workload, capacity)]
    parts += roofline_part(design, result)
    parts += memory_over_time("the step" if training else "the run", result, capacity)
    parts += queue_part(design, result)
    ranks = len(result.outcome.row)
    return page(name, f"{ranks:,} ranks, {format_time(result.makespan)}. All figures are simulated.", parts,
                about(design))


def _fabric(design: Design) -> Iterator[str]:
    """The picture of a design's fabric."""
    if design.network.fabric is not None:
        from astrarium.report.tables.show_fabric import fabric_picture, shown_fabric

        yield section("The fabric", wide(fabric_picture(shown_fabric(design.network.fabric))))


def _times(result: Result) -> Iterator[str]:
    """Per kind of rank where its time goes, until the last one has finished."""
    row_of, whole = np.asarray(result.outcome.row), result.makespan_ps
    rows, first, count = np.unique(row_of, return_index=True, return_counts=True)
    shown = sorted(zip(first.tolist(), rows.tolist(), count.tolist()))
    used = {name: words for name, words in PARTS if name in ("compute", "bubble") or any(
        int(getattr(result.ranks, name)[row]) > 0 for row in rows.tolist())}
    if whole <= 0:
        return
    bars = [key(used, COLOUR)]
    for rank, row, ranks in shown[:SHOWN]:
        spent = {name: float(getattr(result.ranks, name)[row]) for name in used}
        busy = sum(value for name, value in spent.items() if name != "bubble")
        spent["bubble"] = max(0.0, whole - busy)        # and what is left when the rank has ended
        alike = f" and {ranks - 1:,} like it" if ranks > 1 else ""
        bars.append(bar(f"rank {result.first_rank + rank}{alike}",
                        f"compute {100 * spent['compute'] / whole:.1f} %", spent, float(max(whole, busy)), COLOUR,
                        WORDS))
    bars += [note(f"The first {SHOWN} of {len(shown)} kinds are drawn.")] if len(shown) > SHOWN else []
    yield section(f"Parts of the time, {len(shown)} kinds of rank", *bars)


def _shown(found: ShownRun) -> str:
    return run_page(found.design, found.result, found.title, *found.tables)


PAGE = Page("run", _shown)
