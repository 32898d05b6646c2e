"""What a trace recorded: time that the GPU computes, communicates and idles, and its longest operations."""

from __future__ import annotations

from astrarium.errors import InputError
from astrarium.report.plot.colours import PALETTE
from astrarium.report.plot.find import Drawing
from astrarium.report.plot.plot import Axis, Column, Layer, Plot
from astrarium.report.trace.times import Times

__all__ = ["OPERATIONS", "OVERLAP", "operations", "overlap"]

LONGEST = 60        # letters of a name


def overlap(times: Times) -> Plot:
    """The time over which the trace has the GPU compute, communicate, do both, and idle.

    Args:
        times: recorded times (`times_of`).

    Raises:
        InputError: of a trace without start times.
    """
    parts = [("computes", times.compute), ("communicates", times.communication), ("both at once", times.overlap),
             ("idle", times.idle)]
    rows = [(name, 1e3 * value) for name, value in parts if value is not None]
    if not rows or not times.span:
        raise InputError("overlap", "the trace has no start times", expected="a trace of a profiler")
    span = 1e3 * times.span
    return _bars("The GPU over time, as recorded", rows, "share of the time", span,
                 ", ".join(f"{name} {100 * value / span:.1f} %" for name, value in rows) + " of the time.")


def operations(times: Times) -> Plot:
    """The ten kinds of GPU operations that take longest, as the trace recorded them.

    Args:
        times: recorded times (`times_of`).

    Raises:
        InputError: of a trace without durations.
    """
    if not times.longest:
        raise InputError("operations", "the trace has no durations", expected="a trace of a profiler")
    rows = [(name if len(name) <= LONGEST else f"{name[:LONGEST - 3]}...", 1e3 * time)
            for name, _, time in times.longest]
    return _bars("Longest GPU operations, as recorded", rows, "share of these", sum(value for _, value in rows),
                 f"{rows[0][0]} takes longest, in {times.longest[0][1]:,} calls.")


def _bars(title: str, rows: list[tuple[str, float]], share: str, whole: float, said: str) -> Plot:
    columns = {"y": Column("what", [name for name, _ in rows]), "x": Column("", [0.0] * len(rows), "time"),
               "x2": Column("time", [value for _, value in rows], "time"),
               "share": Column(share, [value / whole for _, value in rows], "share")}
    return Plot(title, said, (Layer("bar", columns, colour=PALETTE[0]),), Axis("time", "time"),
                Axis(order=tuple(dict.fromkeys(name for name, _ in rows))))


OVERLAP = Drawing(("trace",), lambda found: overlap(found.times))
OPERATIONS = Drawing(("trace",), lambda found: operations(found.times))
