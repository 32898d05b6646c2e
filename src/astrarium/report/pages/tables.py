"""Answers that are tables and a plot as one HTML page: explanations, several runs, calibrations."""

from __future__ import annotations

from functools import partial

from astrarium.report.pages.figures import figures
from astrarium.report.pages.html import note, page, section, table_of
from astrarium.report.pages.page import Page, ShownTables

__all__ = ["CALIBRATE", "EXPLAIN", "RUNS", "tables_page"]


def tables_page(verb: str, shown: ShownTables) -> str:
    """The page of a verb."""
    notes = [section("Notes", *map(note, shown.notes))] if shown.notes else []
    first, *rest = (table_of(each, sort=False) for each in shown.tables)
    return page(shown.title, shown.lead, [first, *figures(verb, shown.found), *rest, *notes], shown.about)


RUNS, EXPLAIN, CALIBRATE = (Page(verb, partial(tables_page, verb)) for verb in ("runs", "explain", "calibrate"))
