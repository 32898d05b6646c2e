"""The statistics of one trace as one HTML page that needs nothing else: the tables of `trace show`, and bars."""

from __future__ import annotations

import os
from collections.abc import Iterator

from astrarium.report.pages.html import page, section, table_of
from astrarium.report.pages.page import Page, ShownTrace
from astrarium.report.svg.charts import bars
from astrarium.report.trace.times import Times

__all__ = ["PAGE"]

LONGEST = 34        # letters of a name beside a bar


def _shown(found: ShownTrace) -> str:
    return page(os.path.basename(found.title), "Times are those that the trace recorded.",
                (*map(table_of, found.tables), *_charts(found.times)))


def _charts(times: Times) -> Iterator[str]:
    parts = [("GPU computes", times.compute), ("GPU communicates", times.communication),
             ("both at once", times.overlap), ("GPU idle", times.idle)]
    if times.span:
        yield section("ms over time, as recorded",
                      bars([(name, value / 1000) for name, value in parts if value is not None]), half=True)
    if times.longest:
        yield section("ms of the longest GPU operations", bars(
            [(name if len(name) <= LONGEST else f"{name[:LONGEST - 3]}...", time / 1000)
             for name, _, time in times.longest]), half=True)


PAGE = Page("trace", _shown)
