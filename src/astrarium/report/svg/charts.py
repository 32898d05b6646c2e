"""Small charts as SVG text: lines with bands, points, bars, parallel coordinates, strips. No script, nothing to load.

Strips are as wide as their place on the page, with dots and letters of the same size at any width.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

__all__ = ["COLOURS", "Area", "Band", "Mark", "Ruler", "Scale", "Span", "Thresholds", "against", "bars", "lines",
           "over_time", "parallel", "points", "ranges", "roofline", "ruler_line", "scale", "sign", "strip", "text"]

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#000000", "#ee8866", "#44bb99")
"""Paul Tol's bright scheme, which colour-blind readers can tell apart, and three more."""

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 320, 80, 140, 14, 44
RIM = 20           # right of a chart without a legend
Scale = Callable[[float], float]
Shown = Callable[[float], str]
Thresholds = Mapping[str, float]      # what a line is called -> where it is
Span = tuple[float, float, float]      # a value and the interval around it: value, low, high


class Band(Struct, frozen=True):
    """One line of a chart with a band around it."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def text(x: float, y: float, words: str, anchor: str = "middle", extra: str = "") -> str:
    """Words at a place of a chart."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{html.escape(words)}</text>'


def _chart(body: Sequence[str], width: int = WIDTH, height: int = HEIGHT, size: int = 11) -> str:
    return (f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            f'font-family="sans-serif" font-size="{size}">{"".join(body)}</svg>')


def _ticks(low: float, high: float, logarithm: bool) -> list[float]:
    if logarithm:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        found = [base * 10.0**power for power in range(first, last + 1) for base in (1, 2, 5)]
        found = [value for value in found if low <= value <= high]
        return found if len(found) <= 8 else [value for value in found if f"{value:e}"[0] == "1"]
    span = high - low or 1.0
    step = 10.0 ** math.floor(math.log10(span / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 6)
    return [index * step for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


def scale(values: Sequence[float], start: float, end: float) -> tuple[Scale, list[float]]:
    """Where a value goes, and the ticks; logarithmic where values are above 0 and span more than a factor of 5."""
    good = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(good), max(good)
    logarithm = low > 0 and high / low > 5
    if low == high:
        low, high = (low - 0.5, high + 0.5) if not logarithm else (low / 2, high * 2)
    change: Scale = math.log if logarithm else float
    first, last = change(low), change(high)
    return (lambda value: start + (change(value) - first) / (last - first) * (end - start)), \
        _ticks(low, high, logarithm)


def _short(value: float) -> str:
    return f"{value:,.0f}" if 10_000 <= abs(value) < 1_000_000 else f"{value:.4g}"


def _axes(x: tuple[Scale, list[float]], y: tuple[Scale, list[float]], x_name: str, y_name: str,
          x_shown: Shown = _short, y_shown: Shown = _short) -> list[str]:
    bottom = HEIGHT - BOTTOM
    found = [f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{bottom - TOP}" fill="none" '
             'stroke="#888"/>']
    for tick in x[1]:
        found += [f'<path d="M{x[0](tick):.1f} {bottom}v4" stroke="#888"/>',
                  text(x[0](tick), bottom + 16, x_shown(tick))]
    for tick in y[1]:
        found += [f'<path d="M{LEFT} {y[0](tick):.1f}h-4" stroke="#888"/>',
                  text(LEFT - 7, y[0](tick) + 4, y_shown(tick), "end")]
    middle = (LEFT + WIDTH - RIGHT) / 2
    found.append(text(middle, HEIGHT - 8, x_name))
    return [*found, text(12, HEIGHT / 2, y_name, extra=f' transform="rotate(-90 12 {HEIGHT / 2})"')]


def _legend(names: Sequence[str]) -> list[str]:
    found = []
    for index, name in enumerate(names):
        y = TOP + 12 + 16 * index
        found += [f'<rect x="{WIDTH - RIGHT + 10}" y="{y - 8}" width="10" height="10" fill="{_colour(index)}"/>',
                  text(WIDTH - RIGHT + 25, y + 1, name, "start")]
    return found


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def lines(bands: Sequence[Band], x_name: str, y_name: str, y_shown: Shown = _short) -> str:
    """Lines with bands, a colour each; `y_shown` writes the ticks of y."""
    x = scale([value for band in bands for value in band.x], LEFT, WIDTH - RIGHT)
    y = scale([value for band in bands for each in (band.low, band.high) for value in each], HEIGHT - BOTTOM, TOP)
    body = _axes(x, y, x_name, y_name, y_shown=y_shown)
    for index, band in enumerate(bands):
        good = [place for place, value in enumerate(band.y) if math.isfinite(value)]
        top = [f"{x[0](band.x[place]):.1f},{y[0](band.high[place]):.1f}" for place in good]
        under = [f"{x[0](band.x[place]):.1f},{y[0](band.low[place]):.1f}" for place in reversed(good)]
        way = [f"{x[0](band.x[place]):.1f},{y[0](band.y[place]):.1f}" for place in good]
        body.append(f'<polygon points="{" ".join(top + under)}" fill="{_colour(index)}" fill-opacity="0.2"/>')
        body.append(f'<polyline points="{" ".join(way)}" fill="none" stroke="{_colour(index)}" stroke-width="2"/>')
    return _chart([*body, *_legend([band.name for band in bands])])


def points(groups: Sequence[tuple[str, Sequence[tuple[float, float]]]], x_name: str, y_name: str,
           x_shown: Shown = _short, y_shown: Shown = _short) -> str:
    """Groups of points, a colour each; later groups lie on top. `x_shown` and `y_shown` write the ticks."""
    every = [point for _, group in groups for point in group]
    x = scale([point[0] for point in every], LEFT, WIDTH - RIGHT)
    y = scale([point[1] for point in every], HEIGHT - BOTTOM, TOP)
    body = _axes(x, y, x_name, y_name, x_shown, y_shown)
    for index, (_, group) in enumerate(groups):
        body += [f'<circle cx="{x[0](a):.1f}" cy="{y[0](b):.1f}" r="{2 + index}" fill="{_colour(index)}" '
                 'fill-opacity="0.6"/>' for a, b in group]
    return _chart([*body, *_legend([name for name, _ in groups])])


def against(groups: Sequence[tuple[str, Sequence[tuple[float, float]]]], x_name: str, y_name: str,
            band: float) -> str:
    """Groups of points (x, y) on equal logarithmic axes, with the line x = y, and dashed ones `band` of it away."""
    every = [value for _, group in groups for point in group for value in point]
    middle = math.sqrt(min(every) * max(every))
    half = max(2.3, 1.2 * math.sqrt(max(every) / min(every)))       # more than a factor of 5 in all: logarithmic
    both = [middle / half, middle * half]
    x, y = scale(both, LEFT, WIDTH - RIGHT), scale(both, HEIGHT - BOTTOM, TOP)
    body = _axes(x, y, x_name, y_name)
    for share, dashes in ((1.0, ""), (1 - band, ' stroke-dasharray="4 3"'), (1 + band, ' stroke-dasharray="4 3"')):
        low, high = max(both[0], both[0] / share), min(both[1], both[1] / share)
        body.append(f'<path d="M{x[0](low):.1f} {y[0](low * share):.1f}L{x[0](high):.1f} {y[0](high * share):.1f}" '
                    f'stroke="#555"{dashes}/>')
    for index, (name, group) in enumerate(groups):
        body += [f'<circle cx="{x[0](a):.1f}" cy="{y[0](b):.1f}" r="3" fill="{_colour(index)}" fill-opacity="0.7">'
                 f'<title>{html.escape(name)}: {a:.4g}, {b:.4g}</title></circle>' for a, b in group]
    return _chart(body, WIDTH - RIGHT + RIM, size=13)


def over_time(series: Sequence[tuple[str, Sequence[float], Sequence[float]]], x_name: str, y_name: str,
              limits: Thresholds, spans: Sequence[Sequence[tuple[float, float]]] = ()) -> str:
    """(name, times, values) as steps from 0 upwards, with a red line at each limit; `spans` of time of each series
    as bars above them."""
    x = scale([0.0, *(value for _, time, _ in series for value in time)], LEFT, WIDTH - RIGHT)
    top = 1.05 * max([*(value for _, _, held in series for value in held), *limits.values()])
    high = top if top > 0 else 1.0
    y = scale([0.0, high], HEIGHT - BOTTOM, TOP + 4 * len(spans))
    body = _axes(x, y, x_name, y_name)
    for index, (_, time, held) in enumerate(series):
        way = "".join(f"{'H' if place else 'M'}{x[0](at):.1f}{'V' if place else ' '}{y[0](value):.1f}"
                      for place, (at, value) in enumerate(zip(time, held)))
        body.append(f'<path d="{way}" fill="none" stroke="{_colour(index)}" stroke-width="1.5"/>')
    for index, each in enumerate(spans):
        body += [f'<rect x="{x[0](start):.1f}" y="{TOP + 1 + 4 * index}" width="{x[0](end) - x[0](start):.2f}" '
                 f'height="3" fill="{_colour(index)}"/>' for start, end in each]
    for name, limit in limits.items():
        body.append(f'<path d="M{LEFT} {y[0](limit):.1f}H{WIDTH - RIGHT}" stroke="#c00" stroke-width="2"/>')
        at = y[0](limit) - 4 if y[0](limit) - 16 > TOP + 4 * len(spans) else y[0](limit) + 13
        body.append(text(WIDTH - RIGHT - 6, at, name, "end", ' fill="#c00"'))
    names = [name for name, _, _ in series]
    return _chart([*body, *_legend(names)], max(WIDTH, WIDTH - RIGHT + 30 + 6 * max(map(len, names))))


def roofline(found: Sequence[tuple[str, float, float]], peak: float, bandwidth: float) -> str:
    """(name, FLOPs per byte, TFLOP/s) as points under the lines of `peak` (TFLOP/s) and `bandwidth` (TB/s). The
    caller says which colour of COLOURS is whose."""
    ridge = peak / bandwidth
    least, most = min(ridge / 4, *(at / 2 for _, at, _ in found)), max(4 * ridge, *(2 * at for _, at, _ in found))
    low = min(bandwidth * least, *(reached / 2 for _, _, reached in found))
    x = scale([least, most], LEFT, WIDTH - RIGHT)
    y = scale([low, max(2 * peak, *(2 * reached for _, _, reached in found))], HEIGHT - BOTTOM, TOP)
    body = _axes(x, y, "FLOPs per byte", "TFLOP/s")
    body.append(f'<path d="M{x[0](least):.1f} {y[0](bandwidth * least):.1f}L{x[0](ridge):.1f} {y[0](peak):.1f}'
                f'H{x[0](most):.1f}" fill="none" stroke="#555" stroke-width="1.5"/>')
    for index, (name, at, reached) in enumerate(found):
        body.append(f'<circle cx="{x[0](at):.1f}" cy="{y[0](reached):.1f}" r="5" fill="{_colour(index)}">'
                    f"<title>{html.escape(name)}: {at:.4g}, {reached:.4g}</title></circle>")
    return _chart(body, WIDTH - RIGHT + RIM)


def bars(rows: Sequence[tuple[str, float]]) -> str:
    """Horizontal bars from 0, longest as wide as the chart."""
    most = max((value for _, value in rows), default=0.0) or 1.0
    height, left = 20 * len(rows) + 10, 240
    body = []
    for index, (name, value) in enumerate(rows):
        y, width = 20 * index + 5, value / most * (WIDTH - left - 60)
        body += [text(left - 8, y + 12, name, "end"),
                 f'<rect x="{left}" y="{y}" width="{width:.1f}" height="15" fill="{COLOURS[0]}"/>',
                 text(left + width + 6, y + 12, f"{value:.3f}", "start")]
    return _chart(body, height=height)


def ranges(names: Sequence[str], rows: Sequence[tuple[str, Sequence[Span | None]]], x_name: str, line: float) -> str:
    """Values with their intervals, horizontally: a row each, with a point per series of `names` (None: none), and an
    upright line at `line`."""
    left, step, top = 240, 12 * len(names) + 8, 30
    ends = [value for _, spans in rows for span in spans if span for value in span]
    x, ticks = scale([*ends, line], left, WIDTH - RIM)
    bottom = top + step * len(rows)
    body = [f'<path d="M{x(line):.1f} {top}V{bottom}" stroke="#555" stroke-dasharray="4 3"/>'
            f'<path d="M{left} {bottom}H{WIDTH - RIM}" stroke="#888"/>']
    body += [f'<path d="M{x(tick):.1f} {bottom}v4" stroke="#888"/>' + text(x(tick), bottom + 16, _short(tick))
             for tick in ticks]
    for row, (label, spans) in enumerate(rows):
        body.append(text(left - 8, top + step * (row + 0.5) + 4, label, "end"))
        for index, span in enumerate(spans):
            y = top + step * row + 10 + 12 * index
            if span:
                body.append(f'<path d="M{x(span[1]):.1f} {y}H{x(span[2]):.1f}" stroke="{_colour(index)}" '
                            f'stroke-width="2"/><circle cx="{x(span[0]):.1f}" cy="{y}" r="4" fill="{_colour(index)}">'
                            f"<title>{html.escape(f'{label}, {names[index]}: {span[0]:.3g}')}</title></circle>")
    for index, name in enumerate(names):
        start = left + (WIDTH - RIM - left) / len(names) * index
        body += [f'<circle cx="{start + 6:.1f}" cy="12" r="4" fill="{_colour(index)}"/>',
                 text(start + 15, 16, name, "start")]
    return _chart([*body, text((left + WIDTH - RIM) / 2, bottom + 34, x_name)], height=bottom + 42)


HALO = ' fill="#444" font-size="9" stroke="#fff" stroke-width="2.5" paint-order="stroke"'      # over lines


def parallel(names: Sequence[str], labels: Sequence[Sequence[str]], ways: Sequence[Sequence[float]],
             worth: Sequence[float]) -> str:
    """Parallel coordinates: one upright per knob with its `labels`, one line per design (`ways`: 0..1 per knob);
    `worth` 1 is drawn strong, 0 faint. The strongest lines come last."""
    step, height = 92, 300
    width = step * (len(names) - 1) + 120
    body = []
    for way, strength in sorted(zip(ways, worth), key=lambda each: each[1]):
        dots = " ".join(f"{60 + step * index:.1f},{height - 50 - value * (height - 90):.1f}"
                        for index, value in enumerate(way))
        body.append(f'<polyline points="{dots}" fill="none" stroke="{COLOURS[0] if strength < 0.9 else COLOURS[1]}" '
                    f'stroke-opacity="{0.15 + 0.75 * strength:.2f}"/>')
    for index, name in enumerate(names):
        x = 60 + step * index
        body.append(f'<path d="M{x} 40V{height - 50}" stroke="#888"/>')
        body.append(text(x, 22 if index % 2 else 34, name))
        marks = labels[index] if len(labels[index]) <= 8 else (labels[index][0], labels[index][-1])
        for place, label in enumerate(marks):
            share = place / (len(marks) - 1) if len(marks) > 1 else 0.5
            body.append(text(x + 4, height - 46 - share * (height - 90), label, "start", HALO))
    return _chart(body, width, height)


SHAPES = {"dot": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z", "diamond": "M-6 0L0-6L6 0L0 6Z", "square": "M-4-4H4V4H-4Z",
          "left": "M-6 0L3-5V5Z", "right": "M6 0L-3-5V5Z"}


class Ruler(Struct, frozen=True):
    """The values at the left and the right end of strips below each other."""

    low: float
    high: float

    def at(self, value: float) -> str:
        """Where a value goes, in % of the width; values outside go to the nearer end."""
        return f"{100 * (min(max(value, self.low), self.high) - self.low) / (self.high - self.low):.3f}%"


class Mark(Struct, frozen=True):
    """A point of a strip: its value, its shape (of SHAPES), filled or an outline, `down` px below the middle; `says` is
    shown when it is pointed at."""

    value: float
    shape: str
    colour: str
    filled: bool = True
    down: float = 0.0
    says: str = ""


class Area(Struct, frozen=True):
    """What lies between two values of a strip: a box `height` px high."""

    low: float
    high: float
    colour: str
    height: float


def strip(ruler: Ruler, label: str, height: float, areas: Sequence[Area], marks: Sequence[Mark],
          rules: Sequence[tuple[float, str, str]] = ()) -> str:
    """One row of values: areas, then `rules` (value, colour, dashes: upright lines), then marks, in the order given.
    `label` is what a screen reader says."""
    middle = height / 2
    body = [f'<rect x="0" y="{middle:.1f}" width="100%" height="0.5" fill="#888"/>']
    for area in areas:
        size = float(ruler.at(area.high)[:-1]) - float(ruler.at(area.low)[:-1])
        body.append(f'<rect x="{ruler.at(area.low)}" y="{middle - area.height / 2:.1f}" width="{size:.3f}%" '
                    f'height="{area.height:g}" fill="{area.colour}"/>')
    body += [f'<line x1="{ruler.at(value)}" x2="{ruler.at(value)}" y1="0" y2="{height:g}" stroke="{colour}" '
             f'stroke-width="1.5" stroke-dasharray="{dashes}"/>' for value, colour, dashes in rules]
    body += [f'<svg x="{ruler.at(mark.value)}" y="{middle + mark.down:.1f}" overflow="visible">{_shape(mark)}</svg>'
             for mark in marks]
    return (f'<svg width="100%" height="{height:g}" overflow="visible" role="img" aria-label="{html.escape(label)}">'
            f'{"".join(body)}</svg>')


def _shape(mark: Mark) -> str:
    paint = (f'fill="{mark.colour}" fill-opacity="0.75" stroke="#222" stroke-width="0.6"' if mark.filled else
             f'fill="#fff" stroke="{mark.colour}" stroke-width="1.5"')
    return (f'<path d="{SHAPES[mark.shape]}" {paint}>'
            + (f"<title>{html.escape(mark.says)}</title>" if mark.says else "") + "</path>")


def sign(mark: Mark) -> str:
    """A mark by itself, for a legend."""
    return f'<svg width="14" height="14" viewBox="-7 -7 14 14" role="presentation">{_shape(mark)}</svg>'


def ruler_line(ruler: Ruler, shown: Shown) -> str:
    """The ticks of a ruler, below its strips."""
    body = ['<rect x="0" y="0" width="100%" height="1" fill="#888"/>']
    for tick in _ticks(ruler.low, ruler.high, logarithm=False):
        share = ruler.at(tick)
        anchor = "start" if float(share[:-1]) < 5 else "end" if float(share[:-1]) > 95 else "middle"
        body.append(f'<line x1="{share}" x2="{share}" y1="0" y2="5" stroke="#888"/>'
                    f'<text x="{share}" y="17" text-anchor="{anchor}">{html.escape(shown(tick))}</text>')
    return ('<svg width="100%" height="22" overflow="visible" role="presentation" font-family="sans-serif" '
            f'font-size="12">{"".join(body)}</svg>')
