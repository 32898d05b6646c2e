"""A stream of requests that was served as one HTML page that needs nothing else: tables, distributions of latencies,
queue and cache over time, and some requests from arrival to answer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.report.pages.about import About
from astrarium.report.pages.html import note, page, row, section, table_of, wide
from astrarium.report.pages.page import Page
from astrarium.report.svg.charts import Area, Ruler, over_time, ruler_line, strip
from astrarium.report.tables.table import Table
from astrarium.serving import Served
from astrarium.units import format_time

__all__ = ["PAGE", "ShownServing", "serving_page"]

NAMES = {"ttft": "time to the first token (TTFT)", "tpot": "time per further token of a request (TPOT)",
         "itl": "time between two tokens (ITL)", "latency": "time to the last token"}
POINTS, ROWS = 200, 24      # of a curve; requests of the timeline
UNITS = ((1e12, "s"), (1e9, "ms"), (1e6, "us"), (1.0, "ps"))


class ShownServing(Struct, frozen=True):
    """A stream, the tables that `astrarium serve` prints of it, and its notes."""

    title: str
    served: Served
    tables: Sequence[Table]
    notes: Sequence[str]
    about: About = About()


def serving_page(shown: ShownServing) -> str:
    """The page."""
    served = shown.served
    servers = "1 server" if served.servers == 1 else f"{served.servers:,} servers"
    lead = (f"{len(served.finish):,} requests on {served.npus:,} NPUs, {servers}; {served.how}. "
            "All figures are simulated.")
    notes = [section("Notes", *map(note, shown.notes))] if shown.notes else []
    return page(os.path.basename(shown.title), lead, [
        *map(table_of, shown.tables), *_distributions(served), *_over_time(served), *_requests(served), *notes],
        shown.about)


def _distributions(served: Served) -> Iterator[str]:
    """The share of values up to each value, of the figures that have some."""
    where = "the steady state" if served.window else "the whole run"
    charts = []
    for name, (values, counts) in served.latencies(served.window).items():
        at, share = _shares(np.asarray(values, np.float64), counts)
        scale, unit = next(pair for pair in UNITS if at[-1] >= pair[0] or pair[1] == "ps")
        charts.append(f"<div><h3>{NAMES[name]}: half within {format_time(float(np.interp(50, share, at)) / 1000)}</h3>"
                      + wide(over_time([(name, (at / scale).tolist(), share.tolist())], unit, "%", {"99 %": 99.0}))
                      + "</div>")
    yield section(f"Shares of requests (ITL: of tokens) within a time, {where}",
                  f'<div class="charts">{"".join(charts)}</div>')


def _shares(values: F64, counts: npt.NDArray[np.int32] | None) -> tuple[F64, F64]:
    """(values, ascending; % of all that are not above each), at most POINTS of them."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(np.ones(len(values)) if counts is None else counts[order])
    share = 100 * total / total[-1]
    places = np.unique(np.minimum(np.searchsorted(share, np.linspace(0, 100, POINTS)), len(values) - 1))
    return values[order][places], share[places]


def _over_time(served: Served) -> Iterator[str]:
    """Requests that wait and run, and the share of the cache in use."""
    if served.samples is None or len(served.samples) < 2:
        return
    places = np.unique(np.linspace(0, len(served.samples) - 1, POINTS).astype(np.int64))
    time, waiting, running, used = ((served.samples[places, column]).astype(np.float64) for column in range(4))
    seconds = ((time - float(served.arrival.min())) / 1e12).tolist()
    charts = [wide(over_time([("running", seconds, running.tolist()), ("waiting", seconds, waiting.tolist())], "s",
                             "requests", {})),
              wide(over_time([("cache in use", seconds, (100 * used / max(1, served.blocks)).tolist())], "s", "%",
                             {"all of it": 100.0}))]
    yield section("Over time", f'<div class="charts">{"".join(charts)}</div>')


def _requests(served: Served) -> Iterator[str]:
    """Successive requests from the middle of the steady state: until the first token, and from there to the last."""
    chosen = np.flatnonzero(served.within(served.window))
    chosen = chosen[np.argsort(served.arrival[chosen], kind="stable")]
    middle = max(0, (len(chosen) - ROWS) // 2)
    chosen = chosen[middle:middle + ROWS]
    start = int(served.arrival[chosen].min())
    times = [((each[chosen] - start) / 1000).tolist() for each in (served.arrival, served.first, served.finish)]
    ruler = Ruler(0.0, max(times[2]))
    rows = [note("Yellow: until the first token (queue and prompt). Blue: from the first token to the last.")]
    for number, arrival, first, finish in zip(chosen.tolist(), *times, strict=True):
        words = f"TTFT {format_time(first - arrival)}, {int(served.output[number]):,} tokens"
        areas = [Area(arrival, first, "#e0b040", 8), Area(first, finish, "#8fb0d0", 8)]
        rows.append(row(f"request {number}", words, strip(ruler, f"request {number}: {words}", 16, areas, []),
                        beside=True))
    rows.append(row("", "", ruler_line(ruler, format_time), beside=True))
    yield section(f"{len(chosen)} successive requests from arrival to answer", *rows)


PAGE = Page("serve", serving_page)
