"""What a notebook shows of an answer: its first tables, and its main picture. The kind `cell` of the registry names
them."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable
from itertools import islice

from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.planner import Shortlist
from astrarium.planner.serving import ServingPlan
from astrarium.report.pages.about import about
from astrarium.report.plot.plot import Plot
from astrarium.report.plot.plots.breakdown import breakdown
from astrarium.report.plot.plots.memory import footprint
from astrarium.report.plot.plots.plan import intervals
from astrarium.report.plot.plots.serving import latency
from astrarium.report.plot.plots.study import pareto
from astrarium.report.plot.plots.trace import overlap
from astrarium.report.plot.svg import cell
from astrarium.report.tables.serving import serving_tables
from astrarium.report.tables.serving_plan import serving_plan_tables
from astrarium.report.tables.shortlist import shortlist_tables
from astrarium.report.tables.show_design import network_table
from astrarium.report.tables.study import study_tables
from astrarium.report.tables.summary import time_table
from astrarium.report.tables.table import Table
from astrarium.report.trace.statistics import statistics_tables
from astrarium.report.trace.times import times_of
from astrarium.result import Result
from astrarium.search import Study
from astrarium.serving import Objective, Served
from astrarium.trace import Traces, groups_of
from astrarium.trace.counts import statistics

__all__ = ["design", "plan", "plan_serving", "run", "search", "serve", "trace"]

ROWS = 20       # of a table


def run(result: Result) -> str:
    """Times of a run, and their parts."""
    return _cell([time_table(result, "run")], lambda: breakdown(result))


def plan(found: Shortlist) -> str:
    """Layouts with their intervals."""
    return _cell(islice(shortlist_tables(found), 1), lambda: intervals(found))


def plan_serving(found: ServingPlan) -> str:
    """Engines with their intervals."""
    return _cell(islice(serving_plan_tables(found), 1), lambda: intervals(found))


def serve(served: Served) -> str:
    """Latencies and rates of a stream."""
    return _cell(islice(serving_tables(served, Objective(), "stream"), 2), lambda: latency(served))


def search(study: Study) -> str:
    """How a search went, its best design, and the front of several objectives."""
    return _cell(islice(study_tables(study, "search", ()), 2), lambda: pareto(study))


def trace(traces: Traces) -> str:
    """The first rank of traces: its nodes by kind, and what the GPU did."""
    columns = traces.classes[0]
    tables = islice(statistics_tables(statistics(columns), traces.sources[0]), 2)
    return _cell(tables, lambda: overlap(times_of(columns, traces.texts, groups_of(traces))))


def design(found: Design) -> str:
    """What a design models, its network, and of training what fills the memory."""
    facts = Table("design", "<<", list(about(found).facts.items()))
    return _cell([facts, network_table(found)], lambda: footprint(found))


def _cell(tables: Iterable[Table], draw: Callable[[], Plot]) -> str:
    """Tables, and a picture where the answer has the data for it."""
    try:
        picture = cell(draw())
    except InputError:
        picture = ""
    return "".join(map(_table, tables)) + picture


def _table(table: Table) -> str:
    sides = {"<": "left", ">": "right"}
    head = "".join(f"<th>{html.escape(each)}</th>" for each in table.head)
    rows = ["".join(f'<td style="text-align:{sides[side]}">{html.escape(str(each))}</td>'
                    for side, each in zip(table.align, row)) for row in table.rows[:ROWS]]
    more = f"<p>{len(table.rows) - ROWS:,} more rows: print it</p>" if len(table.rows) > ROWS else ""
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (f"<h4>{html.escape(table.title.partition(chr(10))[0])}</h4><table>"
            + (f"<thead><tr>{head}</tr></thead>" if head else "") + f"<tbody>{body}</tbody></table>{more}")
