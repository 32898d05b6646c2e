"""The step times of a Shortlist with their intervals, drawn below each other on one ruler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astrarium.planner.shortlist import Line
from astrarium.report.pages.html import note, row, signs
from astrarium.report.svg.charts import Area, Mark, Ruler, ruler_line, strip
from astrarium.report.tables.interval import NONE, span
from astrarium.units import format_time

__all__ = ["interval_rows"]

HEIGHT = 26         # px of a row
MARGIN = 0.04       # of the ruler, at both ends
SHAPES = {"fastest": ("the fastest", Mark(0, "diamond", "#222222")),
          "tie": ("ties with the fastest", Mark(0, "dot", "#174a7c")),
          "slower": ("slower than the fastest", Mark(0, "square", "#aa3377")),
          NONE: ("unvalidated: no interval", Mark(0, "dot", "#222222", filled=False))}


def interval_rows(lines: Sequence[tuple[str, Line]]) -> Iterator[str]:
    """One row per line (its place, and the line; the fastest first): the step as a mark, its interval as a bar. Behind
    them the interval and, dashed, the step of the fastest."""
    best = lines[0][1]
    kinds = [_kind(line, best) for _, line in lines]
    ruler = _ruler([line for _, line in lines])
    yield signs({words: mark for kind, (words, mark) in SHAPES.items() if kind in kinds})
    several = len({line.device for _, line in lines}) > 1
    for (place, line), kind in zip(lines, kinds, strict=True):
        name = f"{place}: {line.device + ': ' if several else ''}{line.label}"
        yield row(name, _words(line), _strip(ruler, name, line, kind, best), beside=True)
    yield row("", "", ruler_line(ruler, format_time), beside=True)
    if best.within.known:
        yield note("Bars: intervals in which measured steps are expected. Grey and dashed: bar and step of the fastest."
                   " A layout ties with it where its mark lies in the grey, or its bar reaches the dashed line.")
    else:
        yield note("Dashed: the step of the fastest. Its interval is unknown, so ties are not marked.")


def _kind(line: Line, best: Line) -> str:
    if not line.within.known:
        return NONE
    return "fastest" if line is best else "tie" if line.tie else "slower"


def _words(line: Line) -> str:
    around = span(line.within, "makespan", line.time)
    if not line.within.known:
        return f"{format_time(line.time)}, {around}"
    more = (", ties with 1" if line.tie else "") + (", extrapolated" if line.within.extrapolated else "")
    return f"{format_time(line.time)} ({100 * line.within.share:.0f} %: {around}){more}"


def _ruler(lines: Sequence[Line]) -> Ruler:
    """From the lowest to the highest end of all intervals, and a margin."""
    ends = [end for line in lines for end in (line.time, *(line.within.around(line.time) or ()))]
    margin = MARGIN * ((max(ends) - min(ends)) or max(ends))
    return Ruler(min(ends) - margin, max(ends) + margin)


def _strip(ruler: Ruler, name: str, line: Line, kind: str, best: Line) -> str:
    behind, around = best.within.around(best.time), line.within.around(line.time)
    areas = [] if behind is None else [Area(*behind, "#ececec", HEIGHT)]
    areas += [] if around is None else [Area(*around, "#8fb0d0", 8)]
    mark = SHAPES[kind][1]
    marks = [Mark(line.time, mark.shape, mark.colour, mark.filled, says=f"{name}: {_words(line)}")]
    return strip(ruler, f"{name}: {_words(line)}", HEIGHT, areas, marks, [(best.time, "#555", "3 3")])
