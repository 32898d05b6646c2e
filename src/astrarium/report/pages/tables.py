"""Answers that are tables and a plot as one HTML page: explanations, several runs, calibrations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from astrarium.report.pages.figures import figure, figures
from astrarium.report.pages.html import note, page, section, table_of
from astrarium.report.pages.page import Page, ShownTables
from astrarium.report.plot.plots.waterfall import waterfall
from astrarium.search.explain_serving import ServingExplanation

__all__ = ["CALIBRATE", "EXPLAIN", "RUNS", "tables_page"]


def tables_page(verb: str, shown: ShownTables) -> str:
    """The page of a verb."""
    notes = [section("Notes", *map(note, shown.notes))] if shown.notes else []
    first, *rest = (table_of(each, sort=False) for each in shown.tables)
    return page(shown.title, shown.lead, [first, *_plots(verb, shown.found), *rest, *notes], shown.about)


def _plots(verb: str, found: object) -> Iterator[str]:
    """The plots; of two serving designs a waterfall of each figure."""
    if isinstance(found, ServingExplanation) and found.knobs["tpot"].changes:
        yield from (figure(waterfall(found, name)) for name in found.knobs)
    else:
        yield from figures(verb, found)


RUNS, EXPLAIN, CALIBRATE = (Page(verb, partial(tables_page, verb)) for verb in ("runs", "explain", "calibrate"))
