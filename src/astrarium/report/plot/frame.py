"""Where things go in a picture of some width: margins, legend lines, rows, and the scale of each axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from astrarium.report.plot.plot import Axis, Plot
from astrarium.report.plot.quantities import axis_unit, one_unit, tick_text, ticks, unit_of

__all__ = ["FONT", "LETTER", "Frame", "Scale", "above", "frame_of", "row_height", "span_of", "text_width"]

FONT, LETTER = 12, 6.9      # px: of letters, and how wide one is at most on average
LONG = 15                   # letters of a category: longer ones stand above their row
ROW, TALL = 24, 38          # px of a row, and of one with its name above
EDGE = 14                   # px at the right
RIM = 0.03                  # of an axis: room for half a point
HEAD, FOOT, KEY = 22, 44, 19        # px above and below the marks; of a line of the legend


class Scale(Struct, frozen=True):
    """An axis in px. `ticks`: (px, text); `unit`: that the axis names once; `band`: px of a category."""

    at: Callable[[float | str], float]
    ticks: tuple[tuple[float, str], ...]
    unit: str = ""
    band: float = 0.0


class Frame(Struct, frozen=True):
    """The place of the marks, in px, both scales, and the legend: (px from the left, px from the top, name)."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    x: Scale
    y: Scale
    keys: tuple[tuple[float, float, str], ...]
    above: bool


def text_width(text: str) -> float:
    """About how wide a text is, px."""
    return LETTER * len(text)


def above(axis: Axis) -> bool:
    """Whether names of categories stand above their rows, as they are long."""
    return axis.tall or any(len(name) > LONG for name in axis.order)


def row_height(axis: Axis) -> int:
    """px of the row of a category."""
    return axis.row or (TALL if above(axis) else ROW)


def frame_of(plot: Plot, width: float) -> Frame:
    """The frame of a plot in a picture `width` px wide."""
    high = above(plot.y)
    keys = tuple(_keys(list(plot.colours), width)) if len(plot.colours) > 1 else ()
    top = (keys[-1][1] + 8 if keys else 0.0) + (HEAD if plot.y.quantity and plot.y.shown else 8)
    rows = len(plot.y.order)
    inner = rows * row_height(plot.y) if rows else plot.height
    bottom = top + inner
    y = _scale(plot, "y", (bottom, top) if not rows else (top, bottom), 6)
    left = 8.0 if high or not plot.y.shown else 14 + max((text_width(text) for _, text in y.ticks), default=0.0)
    right = width - EDGE
    x = _scale(plot, "x", (left, right), max(3, int((right - left) / 90)))
    return Frame(width, bottom + (FOOT if plot.x.shown else 8), left, right, top, bottom, x, y, keys, high)


def _keys(names: Sequence[str], width: float) -> Iterator[tuple[float, float, str]]:
    x, y = 4.0, 14.0
    for name in names:
        long = text_width(name) + 30
        if x > 4.0 and x + long > width:
            x, y = 4.0, y + KEY
        yield x, y, name
        x += long


def span_of(plot: Plot, channel: str) -> tuple[float, float]:
    """The lowest and highest number of an axis: of its marks, as its `zero`, `low` and `high` say."""
    axis: Axis = getattr(plot, channel)
    found = [float(value) for layer in plot.layers for name in (channel, channel + "2") if name in layer.columns
             for value in layer.columns[name].values if not isinstance(value, str) and math.isfinite(value)]
    found = [value for value in found if value > 0] if axis.log else found
    low, high = (min(found), max(found)) if found else (1.0, 2.0) if axis.log else (0.0, 1.0)
    if any(layer.mark == "point" for layer in plot.layers):     # which would stick out
        low, high = _wider(low, high, axis)
    if axis.zero and not axis.log:
        low, high = min(low, 0.0), max(high, 0.0)
    low, high = low if axis.low is None else axis.low, high if axis.high is None else axis.high
    if low >= high:
        low, high = (low / 2, low * 2) if axis.log else (low - 0.5, low + 0.5) if low else (0.0, 1.0)
    return low, high


def _wider(low: float, high: float, axis: Axis) -> tuple[float, float]:
    if axis.log:
        factor = (high / low) ** RIM
        return low / factor, high * factor
    margin = RIM * (high - (min(low, 0.0) if axis.zero else low))
    return low - margin if low < 0 or not axis.zero else low, high + margin


def _scale(plot: Plot, channel: str, ends: tuple[float, float], most: int) -> Scale:
    axis: Axis = getattr(plot, channel)
    if axis.order:
        return _bands(axis.order, ends)
    low, high = span_of(plot, channel)
    first, last = (math.log(low), math.log(high)) if axis.log else (low, high)

    def at(value: float | str) -> float:
        number = float(value)
        share = ((math.log(number) if axis.log else number) - first) / (last - first)
        return ends[0] + min(max(share, -0.01), 1.01) * (ends[1] - ends[0])

    if axis.labels:
        return Scale(at, tuple((at(value), text) for value, text in axis.labels.items()))
    if axis.log:
        one = one_unit(axis.quantity)
        return Scale(at, tuple((at(value), tick_text(value, unit_of(value, axis.quantity), named=not one))
                               for value in ticks(low, high, log=True, most=most)), one)
    unit = axis_unit((low, high), axis.quantity)
    return Scale(at, tuple((at(value), tick_text(value, unit))
                           for value in ticks(low, high, log=False, base=unit[0], most=most)), unit[1])


def _bands(order: Sequence[str], ends: tuple[float, float]) -> Scale:
    band = (ends[1] - ends[0]) / len(order)
    places = {name: ends[0] + band * (index + 0.5) for index, name in enumerate(order)}
    return Scale(lambda value: places[str(value)], tuple((place, name) for name, place in places.items()), band=band)
