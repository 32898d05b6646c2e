"""Drawings of the slides that reports do not have: values in cells, and every trial of agents."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from astrarium.report.svg.charts import COLOURS, Scale, scale, text

__all__ = ["Cell", "Series", "cells", "trials", "whole"]

Cell = tuple[str, bool]                     # its words, and whether it is marked
Series = tuple[str, Sequence[Sequence[float]]]      # an agent; per seed the value of each trial
MARKED, PLAIN = "#cfe3cf", "#f2f2f2"
LEFT, TOP, LINE, WIDE = 180, 46, 21, 96
PANEL, GAP, HIGH, WINDOW = 230, 14, 260, 16


def whole(svg: str) -> str:
    """A chart as a file by itself, on white."""
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" style="background:#fff" ', 1) + "\n"


def _chart(body: Sequence[str], width: float, height: float) -> str:
    return whole(f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" role="img" '
                 f'font-family="sans-serif" font-size="11">{"".join(body)}</svg>')


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
        colour, middle = COLOURS[number % len(COLOURS)], start + PANEL / 2
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
