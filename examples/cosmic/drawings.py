"""Drawings of the slides that reports do not have: values in cells, and every trial of agents."""

from __future__ import annotations

import html
import statistics
from collections.abc import Callable, Sequence

from astrarium.report.plot.colours import PALETTE, ranked
from astrarium.report.plot.plot import Axis, Column, Layer, Plot
from astrarium.report.plot.quantities import ticks
from astrarium.report.plot.svg import svg_file

__all__ = ["Cell", "Series", "Span", "cells", "ranges", "trials"]

Scale = Callable[[float], float]
Span = tuple[float, float, float]           # a value and the interval around it: value, low, high

Cell = tuple[str, bool]                     # its words, and whether it is marked
Series = tuple[str, Sequence[Sequence[float]]]      # an agent; per seed the value of each trial
MARKED, PLAIN = "#cfe3cf", "#f2f2f2"
LEFT, TOP, LINE, WIDE = 180, 46, 21, 96
PANEL, GAP, HIGH, WINDOW = 230, 14, 260, 16


def _chart(body: Sequence[str], width: float, height: float) -> str:
    return (f'<svg xmlns="http://www.w3.org/2000/svg" style="background:#fff" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" role="img" font-family="sans-serif" font-size="11">'
            f'{"".join(body)}</svg>\n')


def text(x: float, y: float, words: str, anchor: str = "middle", extra: str = "") -> str:
    """Words at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{html.escape(words)}</text>'


def scale(values: Sequence[float], start: float, end: float) -> tuple[Scale, list[float]]:
    """Where a value goes on a linear axis, and its ticks."""
    low, high = min(values), max(values)
    return (lambda value: start + (value - low) / ((high - low) or 1.0) * (end - start)), ticks(low, high, log=False)


def ranges(title: str, names: Sequence[str], rows: Sequence[tuple[str, Sequence[Span | None]]], x_name: str) -> str:
    """Values with their intervals: a row each, with a point for each series of `names` (None: none), and an upright
    line at 1."""
    colours, layers = ranked(names), [Layer("rule", {"x": Column("", [1.0], "number")}, colour="muted", dash=True)]
    for at, name in enumerate(names):
        known = [(row, spans[at]) for row, spans in rows]
        drawn = [(row, *span) for row, span in known if span is not None]
        y, colour = (Column("", [each[0] for each in drawn]), Column("", [name] * len(drawn)))
        value, low, high = (Column("", [each[place] for each in drawn], "number") for place in (1, 2, 3))
        down = 7.0 * (at - (len(names) - 1) / 2)
        layers += [Layer("rule", {"y": y, "colour": colour, "x": low, "x2": high}, size=2, down=down),
                   Layer("point", {"y": y, "colour": colour, "x": value}, size=45, down=down)]
    return svg_file(Plot(title, f"{x_name}; lines: intervals.", tuple(layers), Axis(x_name, "number", zero=False),
                         Axis(order=tuple(row for row, _ in rows), tall=True), colours))


def cells(columns: Sequence[tuple[str, str]], rows: Sequence[tuple[str, Sequence[Cell]]], rule: int | None = None,
          wide: float = WIDE) -> str:
    """Words in cells; a marked one is green. `columns`: two lines of heading each; `rule`: rows above a line."""
    body = []
    for at, (first, second) in enumerate(columns):
        middle = LEFT + wide * (at + 0.5)
        body += [text(middle, TOP - 24, first, extra=' font-weight="bold"'), text(middle, TOP - 9, second)]
    for down, (name, found) in enumerate(rows):
        y = TOP + LINE * down
        body.append(text(LEFT - 8, y + 14, name, "end"))
        for at, (words, marked) in enumerate(found):
            body.append(f'<rect x="{LEFT + wide * at:.1f}" y="{y}" width="{wide - 2:.1f}" height="{LINE - 2}" '
                        f'fill="{MARKED if marked else PLAIN}"/>' + text(LEFT + wide * (at + 0.5) - 1, y + 14, words))
    if rule is not None:
        y = TOP + LINE * rule - 1
        body.append(f'<path d="M10 {y}H{LEFT + wide * len(columns):.0f}" stroke="#c00" stroke-dasharray="4 3"/>')
    return _chart(body, LEFT + wide * len(columns) + 10, TOP + LINE * len(rows) + 8)


def trials(series: Sequence[Series], y_name: str) -> str:
    """Every trial of every agent, a panel each: the trials of all seeds as points, and the median of WINDOW trials in a
    row over all seeds as a line. A dashed line at 1."""
    left, top, bottom = 62, 26, HIGH - 36
    y, ticks = scale([1.0, *(value for _, seeds in series for way in seeds for value in way)], bottom, top)
    body = [text(14, (top + bottom) / 2, y_name, extra=f' transform="rotate(-90 14 {(top + bottom) / 2})"')]
    body += [text(left - 6, y(tick) + 4, f"{tick:g}", "end") for tick in ticks]
    for number, (name, seeds) in enumerate(series):
        start = left + (PANEL + GAP) * number
        x, along = scale([0, max(map(len, seeds))], start, start + PANEL)
        dots = "".join(f"M{x(at):.0f} {y(value):.0f}h0" for way in seeds for at, value in enumerate(way))
        colour, middle = PALETTE[number % len(PALETTE)], start + PANEL / 2
        body += [f'<rect x="{start}" y="{top}" width="{PANEL}" height="{bottom - top}" fill="none" stroke="#888"/>',
                 f'<path d="{dots}" stroke="{colour}" stroke-width="2.4" stroke-linecap="round" stroke-opacity="0.4"/>',
                 f'<path d="M{start} {y(1.0):.1f}h{PANEL}" stroke="#555" stroke-dasharray="4 3"/>',
                 f'<polyline points="{_medians(seeds, x, y)}" fill="none" stroke="#222" stroke-width="2"/>',
                 text(middle, 16, name, extra=' font-weight="bold"'), text(middle, HIGH - 6, "trial")]
        body += [f'<path d="M{x(tick):.1f} {bottom}v4" stroke="#888"/>' + text(x(tick), bottom + 16, f"{tick:g}")
                 for tick in along]
        body += [f'<path d="M{start} {y(tick):.1f}h-4" stroke="#888"/>' for tick in ticks]
    return _chart(body, left + (PANEL + GAP) * len(series) + 6, HIGH)


def _medians(seeds: Sequence[Sequence[float]], x: Scale, y: Scale) -> str:
    last, found = max(map(len, seeds)), []
    for at in range(0, last, WINDOW):
        near = [value for way in seeds for value in way[at:at + WINDOW]]
        if near:
            found.append(f"{x(min(at + WINDOW / 2, last)):.1f},{y(statistics.median(near)):.1f}")
    return " ".join(found)
