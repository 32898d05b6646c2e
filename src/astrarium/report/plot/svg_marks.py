"""The marks of a layer as SVG."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Callable, Iterator

from astrarium.report.plot.colours import LIGHT
from astrarium.report.plot.frame import Frame
from astrarium.report.plot.plot import Layer, Plot
from astrarium.report.plot.quantities import exact

__all__ = ["HALO", "ink", "marks"]

HOVERS = 300        # marks of a layer with hover texts; bars beyond are one path for each colour
SHAPES = {"circle": "M-{0} 0a{0} {0} 0 1 0 {1} 0a{0} {0} 0 1 0-{1} 0Z", "diamond": "M-{0} 0L0-{0}L{0} 0L0 {0}Z",
          "square": "M-{0}-{0}H{0}V{0}H-{0}Z", "triangle-left": "M-{0} 0L{0}-{0}V{0}Z",
          "triangle-right": "M{0} 0L-{0}-{0}V{0}Z"}
Drawn = tuple[str, str]     # attributes that neighbours share, and the element


def ink(colour: str) -> str:
    """A colour for SVG: a role is a variable of the page, with the light one where the page has none."""
    return f"var(--plot-{colour},{LIGHT[colour]})" if colour in LIGHT else colour


HALO = f' stroke="{ink("paper")}" stroke-width="5" stroke-linejoin="round" paint-order="stroke"'      # over lines


def marks(plot: Plot, layer: Layer, frame: Frame) -> Iterator[str]:
    """All marks of a layer; neighbours of one colour share a group."""
    for shared, group in itertools.groupby(DRAW[layer.mark](plot, layer, frame), key=lambda each: each[0]):
        yield f"<g {shared}>"
        yield from (element for _, element in group)
        yield "</g>"


def _element(name: str, places: str, hover: str) -> str:
    title = f"><title>{html.escape(hover)}</title></{name}>" if hover else "/>"
    return f"<{name} {places}{title}"


def _value(layer: Layer, name: str, row: int) -> float | str:
    return layer.columns[name].values[row]


def _rows(layer: Layer) -> range:
    return range(len(next(iter(layer.columns.values())).values) if layer.columns else 0)


def _paint(plot: Plot, layer: Layer, row: int) -> str:
    return ink(plot.colours[str(_value(layer, "colour", row))] if "colour" in layer.columns else layer.colour)


def _opacity(layer: Layer, row: int) -> float:
    return float(_value(layer, "opacity", row)) if "opacity" in layer.columns else layer.opacity


def _hover(layer: Layer, row: int) -> str:
    if len(_rows(layer)) > HOVERS:
        return ""
    return "\n".join(f"{each.title}: {exact(each.values[row], each.quantity)}" for each in layer.columns.values()
                     if each.title)


def _good(layer: Layer, row: int) -> bool:
    return all(isinstance(value, str) or math.isfinite(value) for value in
               (_value(layer, name, row) for name in ("x", "x2", "y", "y2") if name in layer.columns))


def _bars(plot: Plot, layer: Layer, frame: Frame) -> Iterator[Drawn]:
    """An element each, or where they are many one thick line for all of a colour, which pauses between them."""
    high = layer.share * (frame.y.band - (16 if frame.above else 0))
    many: dict[str, _Dashes] = {}
    for row in _rows(layer):
        if not _good(layer, row):
            continue
        left, right = sorted(frame.x.at(_value(layer, name, row)) for name in ("x", "x2"))
        middle = _middle(frame, frame.y.at(_value(layer, "y", row))) + layer.down
        colour, faint, wide = _paint(plot, layer, row), _faint(_opacity(layer, row)), max(right - left, 0.3)
        if len(_rows(layer)) > HOVERS:
            paint = f'fill="none" stroke="{colour}" stroke-width="{high:.1f}"{faint}'
            many.setdefault(paint, _Dashes()).add(left, middle, wide)
        else:
            shape = f'x="{left:.2f}" y="{middle - high / 2:.1f}" width="{wide:.2f}" height="{high:.1f}"'
            yield f'fill="{colour}"{faint}', _element("rect", shape, _hover(layer, row))
    for paint, dashes in many.items():
        yield paint, f'<path d="{"".join(dashes.path)}"/>'


class _Dashes:
    """Level dashes as the shortest path: from one to the next, in tenths of a px of places that are rounded once."""

    def __init__(self) -> None:
        self.path: list[str] = []
        self.pen, self.y = 0, -1.0

    def add(self, left: float, y: float, wide: float) -> None:
        """Draw from `left` to the right."""
        start, end = round(10 * left), max(round(10 * (left + wide)), round(10 * left) + 1)
        self.path.append(f"M{start / 10:g} {y:.4g}" if y != self.y else f"m{(start - self.pen) / 10:g} 0")
        self.path.append(f"h{(end - start) / 10:g}")
        self.pen, self.y = end, y


def _middle(frame: Frame, at: float) -> float:
    """The middle of a row's marks: below its name, where that stands above."""
    return at + 8 if frame.above else at


def _faint(opacity: float) -> str:
    return "" if opacity >= 1 else f' opacity="{opacity:.2f}"'


def _point(layer: Layer, frame: Frame, row: int) -> tuple[float, float]:
    y = frame.y.at(_value(layer, "y", row))
    return frame.x.at(_value(layer, "x", row)), (_middle(frame, y) if frame.y.band else y) + layer.down


def _points(plot: Plot, layer: Layer, frame: Frame) -> Iterator[Drawn]:
    radius = math.sqrt((layer.size or 50) / math.pi)
    path = SHAPES[layer.shape].format(f"{radius:.2g}", f"{2 * radius:.3g}")
    for row in _rows(layer):
        if _good(layer, row):
            x, y = _point(layer, frame, row)
            yield (f'fill="{_paint(plot, layer, row)}"{_faint(_opacity(layer, row))}',
                   _element("path", f'transform="translate({x:.1f} {y:.1f})" d="{path}"', _hover(layer, row)))


def _paths(layer: Layer) -> Iterator[list[int]]:
    """Rows of each line, in their order."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for row in _rows(layer):
        key = tuple(_value(layer, name, row) for name in ("colour", "detail") if name in layer.columns)
        if _good(layer, row):
            groups.setdefault(key, []).append(row)
    yield from groups.values()


def _lines(plot: Plot, layer: Layer, frame: Frame) -> Iterator[Drawn]:
    dash = ' stroke-dasharray="5 4"' if layer.dash else ""
    for rows in _paths(layer):
        places = [_point(layer, frame, row) for row in rows]
        way = "".join(f"H{x:.1f}V{y:.1f}" if layer.step and place else f"{'L' if place else 'M'}{x:.1f} {y:.1f}"
                      for place, (x, y) in enumerate(places))
        named = [f"{layer.columns[name].values[rows[0]]}" for name in ("colour", "detail") if name in layer.columns
                 and layer.columns[name].title]
        yield (f'fill="none" stroke="{_paint(plot, layer, rows[0])}" stroke-width="{layer.size or 2:g}"{dash}'
               f' stroke-linejoin="round"{_faint(_opacity(layer, rows[0]))}',
               _element("path", f'd="{way}"', ", ".join(named)))


def _areas(plot: Plot, layer: Layer, frame: Frame) -> Iterator[Drawn]:
    for rows in _paths(layer):
        over = [_point(layer, frame, row) for row in rows]
        low = [(x, frame.y.at(_value(layer, "y2", row) if "y2" in layer.columns else 0.0))
               for row, (x, _) in zip(rows, over)]
        way = "L".join(f"{x:.1f} {y:.1f}" for x, y in (*over, *reversed(low)))
        yield f'fill="{_paint(plot, layer, rows[0])}"{_faint(_opacity(layer, rows[0]))}', f'<path d="M{way}Z"/>'


def _rules(plot: Plot, layer: Layer, frame: Frame) -> Iterator[Drawn]:
    dash = ' stroke-dasharray="5 4"' if layer.dash else ""
    for row in _rows(layer):
        if not _good(layer, row):
            continue
        x1, x2, y1, y2 = frame.left, frame.right, frame.top, frame.bottom
        if "x" in layer.columns:
            x1 = x2 = frame.x.at(_value(layer, "x", row))
        if "x2" in layer.columns:
            x2 = frame.x.at(_value(layer, "x2", row))
        if "y" in layer.columns:
            y1 = y2 = (_middle(frame, frame.y.at(_value(layer, "y", row))) if frame.y.band
                       else frame.y.at(_value(layer, "y", row))) + layer.down
        if "y2" in layer.columns:
            y2 = frame.y.at(_value(layer, "y2", row))
        yield (f'stroke="{_paint(plot, layer, row)}" stroke-width="{layer.size or 1.5:g}"{dash}'
               f"{_faint(_opacity(layer, row))}",
               _element("path", f'd="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"', _hover(layer, row)))


def _texts(plot: Plot, layer: Layer, frame: Frame) -> Iterator[Drawn]:
    anchor = {"left": "start", "center": "middle", "right": "end"}[layer.align]
    for row in _rows(layer):
        if _good(layer, row):
            x, y = _point(layer, frame, row)
            words = html.escape(str(_value(layer, "text", row)))
            yield (f'fill="{_paint(plot, layer, row)}" text-anchor="{anchor}"{HALO}',
                   f'<text x="{x:.1f}" y="{y + 4:.1f}">{words}</text>')


DRAW: dict[str, Callable[[Plot, Layer, Frame], Iterator[Drawn]]] = {
    "bar": _bars, "line": _lines, "area": _areas, "point": _points, "rule": _rules, "text": _texts}
