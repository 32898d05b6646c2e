"""Measured rows and predictions as one HTML page that needs nothing else: plots and tables."""

from __future__ import annotations

from collections.abc import Iterator

from astrarium.report.pages.figures import figure, figures
from astrarium.report.pages.html import page, table_of
from astrarium.report.pages.page import Page
from astrarium.report.plot.plots.validation import errors, groups, measured
from astrarium.report.tables.validation import validation_tables
from astrarium.validate.predict import Prediction
from astrarium.validate.verdict import Validation

__all__ = ["PAGE", "validation_page"]

KINDS = {"unseen": "Rows that no fit has seen", "fitted": "Rows on which a stack was fitted",
         "incomplete": "Rows that do not state everything"}


def validation_page(made: Validation) -> str:
    """The page."""
    rows, judged = len(made.found), sum(isinstance(each, Prediction) for each in made.found)
    return page("Measured and predicted", f"{rows:,} rows, {judged:,} of them predicted. Time is simulated.",
                [*map(table_of, validation_tables(made)), *_by_kind(made),
                 *figures("validate", made, without=("measured", "errors"))])


def _by_kind(made: Validation) -> Iterator[str]:
    """Per metric and kind of rows predicted against measured values, and the errors."""
    for metric, kind in groups(made):
        for plot in (measured, errors):
            yield figure(plot(made, metric, kind), of=f"{KINDS[kind]}: ")


PAGE = Page("validate", validation_page)
