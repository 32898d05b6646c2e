"""Answers that are tables and a plot as one HTML page: explanations, several runs, calibrations."""

from __future__ import annotations

from astrarium.report.pages.html import note, page, section, table_of
from astrarium.report.pages.page import Page, ShownTables

__all__ = ["CALIBRATE", "EXPLAIN", "RUNS", "tables_page"]


def tables_page(shown: ShownTables) -> str:
    """The page."""
    notes = [section("Notes", *map(note, shown.notes))] if shown.notes else []
    return page(shown.title, shown.lead, [*(table_of(each, sort=False) for each in shown.tables), *notes], shown.about)


RUNS, EXPLAIN, CALIBRATE = Page("runs", tables_page), Page("explain", tables_page), Page("calibrate", tables_page)
