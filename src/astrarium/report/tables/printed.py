"""What `print` shows of an answer: the tables that its verb prints. The kind `table` of the registry names them."""

from __future__ import annotations

from collections.abc import Iterable

from astrarium.planner import Shortlist
from astrarium.planner.serving import ServingPlan
from astrarium.report.tables.serving import serving_tables
from astrarium.report.tables.serving_plan import serving_plan_tables
from astrarium.report.tables.shortlist import shortlist_tables
from astrarium.report.tables.study import study_tables
from astrarium.report.tables.summary import summary_tables
from astrarium.report.tables.table import Table, text_of
from astrarium.result import Result
from astrarium.search import Study
from astrarium.serving import Objective, Served

__all__ = ["plan", "plan_serving", "run", "search", "serve"]


def run(result: Result) -> str:
    """Times, collectives, network and memory of a run."""
    return _text(summary_tables(result, "run"))


def plan(found: Shortlist) -> str:
    """Layouts, best first, and why the others are slower."""
    return _text(shortlist_tables(found))


def plan_serving(found: ServingPlan) -> str:
    """Engines, best first, and why the others lost."""
    return _text(serving_plan_tables(found))


def serve(served: Served) -> str:
    """Latencies and rates of a stream."""
    return _text(serving_tables(served, Objective(), "stream"))


def search(study: Study) -> str:
    """How a search went, its best design and front (whose memory is not looked up: that takes runs)."""
    return _text(table for table in study_tables(study, "search", ()) if table.rows)


def _text(tables: Iterable[Table]) -> str:
    return "\n\n".join(map(text_of, tables))
