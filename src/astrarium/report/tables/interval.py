"""Intervals of figures that follow from the step time, as every verb prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from astrarium.cost import FIGURES, Figure
from astrarium.cost.interval import Interval
from astrarium.report.tables.table import Table
from astrarium.units import format_time

if TYPE_CHECKING:
    from astrarium.result import Result

__all__ = ["interval_remarks", "interval_table", "plain_interval", "span", "tie_words"]

NONE = "unvalidated"


def span(within: Interval, name: str, value: float, figures: Mapping[str, Figure] = FIGURES) -> str:
    """`5.87 to 6.56 s`: where 80 % of measured values of a figure lie, or `unvalidated`; nothing for figures that do
    not follow from the step time."""
    figure = figures.get(name)
    if figure is None or not figure.of_time:
        return ""
    around = within.around(value, figure.of_time)
    if around is None:
        return NONE
    shown = figure.shown if figure.label else format_time
    low, high = (shown(each) for each in around)
    number, _, unit = low.partition(" ")
    return f"{number} to {high}" if high.endswith(f" {unit}") else f"{low} to {high}"


def interval_remarks(every: Iterable[Interval | None], names: Iterable[str] = ()) -> list[str]:
    """What the intervals of several designs rest on, each once, and the rows that several rest on with the first; of
    designs with `names`, whose interval it is if they have several."""
    whose: dict[str, list[str]] = {}
    found: dict[str, Interval] = {}
    for within, name in zip_longest(every, names, fillvalue=""):
        if isinstance(within, Interval):
            found.setdefault(within.words, within)
            whose.setdefault(within.words, []).append(name)
    lines, said = list[str](), set[str]()
    for words, within in found.items():
        of = [name for name in whose[words] if name] if len(found) > 1 else []
        shown = f"{within.widened} than that of the same rows" if within.widened and within.basis in said else words
        lines.append(f"interval{' of ' * bool(of)}{', '.join(of)}: {shown}")
        said.add(within.basis)
    return lines


def tie_words(value: float, one: tuple[float, Interval], name: str) -> str:
    """How a value ties with that of `one`, called `name`: the interval is of each alone, not of their difference."""
    around = one[1].around(one[0])
    inside = around is not None and around[0] <= value <= around[1]
    return f"within the interval of {name}" if inside else f"{name} is within its interval"


def plain_interval(within: Interval, ns: float) -> dict[str, Any]:
    """As JSON: `low_ns` and `high_ns` of a step of `ns`, null where nothing was measured; `extrapolated`: what the
    design has and the measured rows do not."""
    low, high = within.around(ns) or (None, None)
    return {"stack": within.stack, "device": within.device or None, "rows": within.rows, "share": within.share,
            "validated": within.validated, "low_ns": low, "high_ns": high, "why": within.why or None,
            "extrapolated": list(within.extrapolated)}


def interval_table(within: Interval | None, result: Result) -> Table | None:
    """One line; None for other workloads than training."""
    if within is None:
        return None
    around = span(within, "makespan", float(result.at_least))
    text = f"{around}: {within.words}" if within.known else within.words
    return Table("", "<<", [("step time, expected", text)])
