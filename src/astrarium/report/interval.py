"""The interval of a run's step time as a table and as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from astrarium.report.tables import Table
from astrarium.units import format_time

if TYPE_CHECKING:
    from astrarium.result import Result
    from astrarium.validate.intervals import Interval

__all__ = ["interval_table", "plain_interval"]


def plain_interval(within: Interval, result: Result) -> dict[str, Any]:
    """As JSON: `low_ns` and `high_ns` of the makespan, null where nothing was measured."""
    ns = float(result.makespan)
    return {"stack": within.stack, "device": within.device or None, "rows": within.rows, "share": within.share,
            "validated": within.validated, "low_ns": None if within.low is None else ns * within.low,
            "high_ns": None if within.high is None else ns * within.high}


def interval_table(within: Interval | None, result: Result) -> Table | None:
    """One line; None for a design without a stack."""
    if within is None:
        return None
    what = f"stack {within.stack} on {within.device or 'a device without measured kernels'}"
    if within.low is None or within.high is None:
        text = f"unvalidated: {within.rows} unseen measured rows of {what}"
    else:
        low, high = (format_time(float(result.makespan) * factor) for factor in (within.low, within.high))
        text = f"{low} to {high}: {100 * within.share:.0f} % of {within.rows} unseen rows of {what}"
    return Table("", "<<", [("step time, measured", text)])
