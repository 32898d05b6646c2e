"""Measured rows and predictions as one HTML page that needs nothing else: plots and tables."""

from __future__ import annotations

from astrarium.report.pages.figures import figures
from astrarium.report.pages.html import page, table_of
from astrarium.report.pages.page import Page
from astrarium.report.tables.validation import validation_tables
from astrarium.validate.predict import Prediction
from astrarium.validate.verdict import Validation

__all__ = ["PAGE", "validation_page"]


def validation_page(made: Validation) -> str:
    """The page."""
    rows, judged = len(made.found), sum(isinstance(each, Prediction) for each in made.found)
    return page("Measured and predicted", f"{rows:,} rows, {judged:,} of them predicted. Time is simulated.",
                [*map(table_of, validation_tables(made)), *figures("validate", made)])


PAGE = Page("validate", validation_page)
