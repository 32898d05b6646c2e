"""Where the time of each kind of rank goes: compute, communication that nothing hides, waiting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from astrarium.errors import InputError
from astrarium.planner.breakdown import PARTS as AXES
from astrarium.planner.shortlist import WORDS, Line, Shortlist
from astrarium.report.plot.colours import PALETTE
from astrarium.report.plot.find import Drawing
from astrarium.report.plot.plot import Axis, Column, Layer, Plot
from astrarium.report.tables.summary import PARTS
from astrarium.result import Result

__all__ = ["PLOT", "breakdown", "stacked"]

SHOWN = 24          # rows
COLOURS = dict(zip((*(words for _, words in PARTS), *WORDS.values()), (
    PALETTE[0], PALETTE[1], PALETTE[3], PALETTE[4], PALETTE[2], "#bbbbbb",
    PALETTE[0], PALETTE[5], PALETTE[1], PALETTE[6], PALETTE[3], PALETTE[4], PALETTE[7], PALETTE[2], "#bbbbbb")))
Row = tuple[str, Mapping[str, float]]       # name, and ns of each part in words


def breakdown(answer: Result | Shortlist | Line) -> Plot:
    """The parts of the time: of each kind of rank of a run, of each layout of a plan (mean over its NPUs), or of each
    stage of one of its lines.

    Args:
        answer: a `Result`, a `Shortlist`, or one of its lines.

    Raises:
        InputError: of a run that takes no time or did not record its nodes.
    """
    if isinstance(answer, Shortlist):
        lines = [(str(place), line) for place, line in enumerate(answer.lines, 1)]
        lines += [("now", answer.today)] if answer.today is not None else []
        return stacked("Parts of a step, mean over all NPUs", "step time",
                       [(f"{place}: {line.label}", _worded(line.breakdown.mean)) for place, line in lines])
    if isinstance(answer, Line):
        return stacked(f"Parts of a step by stage: {answer.label}", "time",
                       [(f"stage {place}", _worded(parts)) for place, parts in enumerate(answer.breakdown.stages)])
    return stacked("Parts of the time", "time", _ranks(answer))


def _worded(parts: Mapping[str, float]) -> dict[str, float]:
    return {WORDS[part]: parts[part] for part in AXES}


def _ranks(result: Result) -> list[Row]:
    """A row for each kind of rank, the lowest first; what is left when a rank has ended is idle time, too."""
    if not result.recorded or not result.makespan_ps:
        raise InputError("breakdown", "the run takes no time" if result.recorded else "no node times were recorded",
                         expected="a run that records its nodes (simulate(design), not simulate_many)")
    rows, first, count = np.unique(np.asarray(result.outcome.row), return_index=True, return_counts=True)
    found: list[Row] = []
    for rank, row, ranks in sorted(zip(first.tolist(), rows.tolist(), count.tolist())):
        spent = {words: (result.spent[name] if name == "ports" else float(getattr(result.ranks, name)[row])) / 1000
                 for name, words in PARTS}
        spent["idle"] += float(result.ranks.idle[row]) / 1000
        alike = f" and {ranks - 1:,} like it" if ranks > 1 else ""
        found.append((f"rank {result.first_rank + rank}{alike}", spent))
    return found


def stacked(title: str, what: str, rows: Sequence[Row], quantity: str = "time",
            colours: Mapping[str, str] = COLOURS) -> Plot:
    """Parts beside each other, a row each, in the order of the first row."""
    drawn = rows[:SHOWN]
    used = [part for part in drawn[0][1] if any(parts[part] > 0 for _, parts in drawn)]
    names, parts, start, end = list[str](), list[str](), list[float](), list[float]()
    for name, spent in drawn:
        at = 0.0
        for part in used:
            if spent[part] > 0:
                names.append(name)
                parts.append(part)
                start.append(at)
                end.append(at := at + spent[part])
    size = [after - before for before, after in zip(start, end)]
    whole = dict(zip(names, end))
    columns = {"y": Column("of", names), "colour": Column("part", parts), what: Column(what, size, quantity),
               "share": Column("share", [each / whole[name] if whole[name] else 0.0 for name, each in zip(names, size)],
                               "share"),
               "x": Column("", start, quantity), "x2": Column("", end, quantity)}
    return Plot(title, _sentence(rows, used), (Layer("bar", columns),), Axis(what, quantity),
                Axis(order=tuple(dict.fromkeys(name for name, _ in drawn))), {part: colours[part] for part in used})


def _sentence(rows: Sequence[Row], used: Iterable[str]) -> str:
    name, spent = rows[0]
    whole = sum(spent.values()) or 1.0
    said = ", ".join(f"{part} {100 * spent[part] / whole:.1f} %" for part in used if spent[part] > 0)
    left = f" The first {SHOWN} of {len(rows)} rows are drawn." if len(rows) > SHOWN else ""
    return f"{name}: {said}.{left}"


def _drawn(found: Any) -> Plot:
    if isinstance(found, list):
        return stacked("Parts of the time of the rank that finishes last", "time",
                       [(run.name, {words: run.parts[name] / 1000 for name, words in PARTS}) for run in found])
    return breakdown(found if isinstance(found, Shortlist) else found.result)


PLOT = Drawing(("run", "runs", "plan"), _drawn)
