"""A graph's picture as SVG without Graphviz: boxes in layers, dependencies downward where they close no cycle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape

__all__ = ["Shape", "svg_text"]

LETTER, LINE, PAD = 7.2, 16.0, 10.0        # px: width of a letter, height of a line of text, room around it
BESIDE, BELOW = 24.0, 56.0                 # px between boxes of a layer, between layers
SWEEPS = 4                                 # of ordering boxes by what they are connected to
WIDEST = 60                                # letters of a line

Pair = tuple[int, int]
Edge = Literal["data", "control"]


@dataclass(frozen=True)
class Shape:
    """A box: its lines of text and its colour (#rrggbb)."""

    lines: tuple[str, ...]
    colour: str

    @property
    def width(self) -> float:
        return 2 * PAD + LETTER * max(min(len(line), WIDEST) for line in self.lines)

    @property
    def height(self) -> float:
        return 2 * PAD + LINE * len(self.lines)


def svg_text(shapes: Sequence[Shape], edges: Mapping[tuple[int, int, Edge], int]) -> Iterator[str]:
    """The picture, line by line. `edges` are (from, to, kind) -> how many; control dependencies are dashed."""
    pairs = [(a, b) for a, b, _ in edges if a != b]
    places, width, height = _places(shapes, _ordered(_layers(len(shapes), pairs), pairs))
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
           f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="12">')
    yield ('  <defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
           'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#555"/></marker></defs>')
    for (a, b, kind), count in edges.items():
        yield f"  {_line(shapes, places, (a, b), kind, count)}"
    for shape, (x, y) in zip(shapes, places, strict=True):
        yield (f'  <rect x="{x:.1f}" y="{y:.1f}" width="{shape.width:.1f}" height="{shape.height:.1f}" rx="6" '
               f'fill="{shape.colour}" stroke="#333"/>')
        for place, line in enumerate(shape.lines):
            shown = line if len(line) <= WIDEST else f"{line[:WIDEST - 1]}…"
            yield (f'  <text x="{x + shape.width / 2:.1f}" y="{y + PAD + LINE * (place + 0.75):.1f}" '
                   f'text-anchor="middle">{_xml(shown)}</text>')
    yield "</svg>"


def _layers(count: int, pairs: Sequence[Pair]) -> list[list[int]]:
    """Boxes by the longest way that leads to them; an edge that would close a cycle does not count."""
    after: list[list[int]] = [[] for _ in range(count)]
    waits = [0] * count
    for a, b in dict.fromkeys(pairs):
        after[a].append(b)
        waits[b] += 1
    layer, done = [0] * count, [False] * count
    ready = [box for box in range(count) if not waits[box]][::-1]
    first = 0
    for _ in range(count):
        if not ready:       # a cycle: its first box goes before those that it waits for
            while done[first]:
                first += 1
            ready.append(first)
        box = ready.pop()
        done[box] = True
        for other in after[box]:
            if not done[other]:
                layer[other] = max(layer[other], layer[box] + 1)
                waits[other] -= 1
                if waits[other] == 0:
                    ready.append(other)
    rows: list[list[int]] = [[] for _ in range(max(layer, default=0) + 1)]
    for box, at in enumerate(layer):
        rows[at].append(box)
    return rows


def _ordered(rows: list[list[int]], pairs: Sequence[Pair]) -> list[list[int]]:
    """Every row in the order of the mean places of what its boxes are connected to, down and up a few times."""
    near: dict[int, list[int]] = {}
    for a, b in pairs:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    place = {box: at / max(len(row) - 1, 1) for row in rows for at, box in enumerate(row)}
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            mean = {box: sum(place[other] for other in near.get(box, [box])) / len(near.get(box, [box])) for box in row}
            row.sort(key=lambda box: (mean[box], place[box], box))
            place.update({box: at / max(len(row) - 1, 1) for at, box in enumerate(row)})
    return rows


def _places(shapes: Sequence[Shape], rows: Sequence[Sequence[int]]) -> tuple[list[tuple[float, float]], float, float]:
    """The upper left corner of every box; width and height of the picture (px)."""
    widths = [sum(shapes[box].width for box in row) + BESIDE * (len(row) - 1) for row in rows]
    whole, y = max(widths, default=0.0), BESIDE
    places = [(0.0, 0.0)] * len(shapes)
    for row, width in zip(rows, widths, strict=True):
        x = BESIDE + (whole - width) / 2
        for box in row:
            places[box] = (x, y)
            x += shapes[box].width + BESIDE
        y += max((shapes[box].height for box in row), default=0.0) + BELOW
    return places, whole + 2 * BESIDE, y - BELOW + BESIDE if shapes else 2 * BESIDE


def _line(shapes: Sequence[Shape], places: Sequence[tuple[float, float]], pair: Pair, kind: Edge, count: int) -> str:
    """From the middle of a box's lower side to that of another's upper side; a loop beside a box that waits for
    itself."""
    a, b = pair
    x0, y0 = places[a][0] + shapes[a].width / 2, places[a][1] + shapes[a].height
    x1, y1 = places[b][0] + shapes[b].width / 2, places[b][1]
    bend = BELOW * 0.6
    if a == b:
        edge = places[a][0] + shapes[a].width
        path = (f"M{edge:.1f} {y0 - PAD:.1f} C{edge + bend:.1f} {y0:.1f} {edge + bend:.1f} {y1:.1f} "
                f"{edge:.1f} {y1 + PAD:.1f}")
    else:
        path = f"M{x0:.1f} {y0:.1f} C{x0:.1f} {y0 + bend:.1f} {x1:.1f} {y1 - bend:.1f} {x1:.1f} {y1:.1f}"
    dashes = ' stroke-dasharray="5 3"' if kind == "control" else ""
    title = f"<title>{count:,} dependencies</title>" if count > 1 else ""
    return (f'<path d="{path}" fill="none" stroke="#555" stroke-opacity="0.7"{dashes} marker-end="url(#head)">'
            f"{title}</path>")


def _xml(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return escape("".join(c if c >= " " else "?" for c in text).encode("utf-8", "replace").decode())
