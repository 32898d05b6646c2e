"""The statistics of one trace as one HTML page that needs nothing else: tables of `trace show`, and plots."""

from __future__ import annotations

from astrarium.report.pages.figures import figures
from astrarium.report.pages.html import named, page, table_of
from astrarium.report.pages.page import Page, ShownTrace

__all__ = ["PAGE"]


def _shown(found: ShownTrace) -> str:
    return page(named(found.title), "Times are those that the trace recorded.",
                (*map(table_of, found.tables), *figures("trace", found)))


PAGE = Page("trace", _shown)
