"""A calibration as tables: rows that were used, and errors before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from astrarium.report.tables.table import Table
from astrarium.units import format_time

if TYPE_CHECKING:
    from astrarium.validate.serving.calibrate import Constants

__all__ = ["class_table", "engine_table", "error_table"]

Errors = Mapping[str, tuple[tuple[float, float], tuple[float, float]]]


def class_table(counts: Mapping[str, int], errors: Errors) -> Table:
    """Per class of kernels its rows, and (median, p90) errors in % of rows left out, as the base has them and
    corrected; empty for classes with too few rows."""
    rows = [(name, f"{count:,}", *(f"{error:g} %" for pair in errors.get(name, ()) for error in pair))
            for name, count in counts.items()]
    rows = [(*row, *[""] * (6 - len(row))) for row in rows]
    return Table("classes of kernels (errors: of rows left out of the fit)", "<>>>>>", rows,
                 ("class", "rows", "median before", "p90 before", "median after", "p90 after"))


def error_table(errors: Mapping[str, float]) -> Table:
    """Operation -> median error (0 to 1) of its measured times."""
    return Table("median errors", "<>", [(name, f"{100 * error:.1f} %") for name, error in errors.items()],
                 ("operation", "error"))


def engine_table(found: Constants) -> Table:
    """Mean times of an engine as measured, and as predicted without and with the fitted constants."""
    rows = [(f"mean {name}", *(format_time(1e6 * getattr(getattr(found, when), name))
                               for when in ("measured", "before", "after"))) for name in ("tpot", "ttft")]
    return Table("mean times of the engine", "<>>>", rows, ("", "measured", "predicted before", "predicted after"))
