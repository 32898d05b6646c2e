"""A graph's picture as SVG without Graphviz: boxes in layers, dependencies downward where they close no cycle.

Layers by the longest way, order within layers by barycentres, long edges led round the boxes of the layers between
(Sugiyama, Tagawa and Toda, IEEE Trans. SMC 11, 1981); edges to one box share their way there.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal
from xml.sax.saxutils import escape

from msgspec import Struct

from astrarium.report.plot.colours import LIGHT, plot_style

__all__ = ["Shape", "svg_text"]

LETTER, LINE, PAD = 7.2, 16.0, 10.0        # px: width of a letter, height of a line of text, room around it
WIDE, WIDEST_LETTER, NARROW = 11.5, 13.0, 4.2   # px of letters like W, of East Asian ones, of ones like i
BESIDE, BELOW, LANE = 24.0, 56.0, 6.0      # px between boxes of a layer, between layers, of an edge between boxes
SWEEPS = 4                                 # of ordering boxes by what they are connected to
LONGEST = 280.0                            # px of a line of text
ROW = 1_300.0                              # px of the boxes of a layer, which goes on in a next one
MOST = int(LONGEST / NARROW) + 1           # letters that no line has
CONTROL = dict.fromkeys(range(32), "?")    # characters that XML does not hold
MOST_BENDS = 4_000                         # of edges; beyond, they go straight, behind boxes
SWATCH = 12.0                              # px of a colour in the legend
LETTERS = "#222"                           # in boxes, which are light on dark pages, too
PAPER, INK = (f"var(--plot-{role},{LIGHT[role]})" for role in ("paper", "ink"))

DOWNWARD, UPWARD = 'stroke="#777" stroke-opacity="0.8"', 'stroke="#c33" stroke-opacity="0.4"'

Edge = Literal["data", "control"]
Edges = Mapping[tuple[int, int, Edge], int]
Point = tuple[float, float]


class Shape(Struct, frozen=True):
    """A box: its lines of text and its colour (#rrggbb)."""

    lines: tuple[str, ...]
    colour: str

    @property
    def width(self) -> float:
        return 2 * PAD + max(min(_length(line), LONGEST) for line in self.lines)

    @property
    def height(self) -> float:
        return 2 * PAD + LINE * len(self.lines)


class _Routes(Struct, frozen=True):
    """Boxes and bends by layer, bends numbered from the number of boxes up; the bends of every edge that has some."""

    rows: list[list[int]]
    bends: Mapping[tuple[int, int, Edge], Sequence[int]]


def svg_text(shapes: Sequence[Shape], edges: Edges, legend: Mapping[str, str] | None = None) -> Iterator[str]:
    """The picture, line by line. `edges` are (from, to, kind) -> how many; control dependencies are dashed. `legend`
    says what colours mean: colour -> words."""
    routes = _routed(_wrapped(shapes, _layers(len(shapes), edges)), edges)
    places, width, height = _places(shapes, _ordered(routes, edges))
    signs = [(f'<rect width="{SWATCH:.0f}" height="{SWATCH:.0f}" rx="2" fill="{colour}" stroke="#333"/>', word)
             for colour, word in (legend or {}).items()]
    if any(kind == "control" for _, _, kind in edges):
        signs.append((f'<path d="M-4 6 h{SWATCH + 8:.0f}" {DOWNWARD} stroke-dasharray="5 3"/>', "control dependency"))
    if any(a != b and places[b][1] <= places[a][1] for a, b, _ in edges):
        signs.append((f'<path d="M-4 6 h{SWATCH + 8:.0f}" {UPWARD}/>', "back up: these wait for each other"))
    width = max([width, *(2 * BESIDE + 2 * SWATCH + _length(word) for _, word in signs)])
    top, height = height, height + (LINE * len(signs) + BESIDE if signs else 0.0)
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
           f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="12" '
           f'fill="{INK}" style="background:{PAPER}"><style>{plot_style()}</style>')
    yield ('  <defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
           'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#777"/></marker></defs>')
    for key, count in edges.items():
        yield f"  {_line(shapes, places, key, routes.bends.get(key, ()), count)}"
    for shape, (x, y, _) in zip(shapes, places, strict=False):
        yield from _box(shape, x, y)
    for place, (sign, word) in enumerate(signs):
        yield f'  <g transform="translate({BESIDE:.0f} {top + LINE * place:.1f})">{sign}'
        yield f'    <text x="{2 * SWATCH:.0f}" y="{LINE * 0.65:.1f}">{_xml(word)}</text></g>'
    yield "</svg>"


def _box(shape: Shape, x: float, y: float) -> Iterator[str]:
    yield (f'  <rect x="{x:.1f}" y="{y:.1f}" width="{shape.width:.1f}" height="{shape.height:.1f}" rx="6" '
           f'fill="{shape.colour}" stroke="#333"/>')
    for place, line in enumerate(shape.lines):
        shown, whole = _cut(line), f"<title>{_xml(line)}</title>" if _cut(line) != line else ""
        yield (f'  <text x="{x + shape.width / 2:.1f}" y="{y + PAD + LINE * (place + 0.75):.1f}" '
               f'text-anchor="middle" fill="{LETTERS}">{_xml(shown)}{whole}</text>')


# ------------------------------------------------------------ text
def _length(text: str) -> float:
    """Its width in px, about: fonts differ. Of what is far longer than a line the beginning, which is, too."""
    return sum(WIDEST_LETTER if unicodedata.east_asian_width(c) in "WF" else WIDE if c in "WMmw@%" else
               NARROW if c in "ijlI.,:;|!'" else LETTER + 1.5 * c.isupper() for c in text[:MOST])


def _cut(text: str) -> str:
    """What fits on a line."""
    if len(text) * WIDEST_LETTER <= LONGEST or _length(text) <= LONGEST:
        return text
    room = LONGEST - WIDEST_LETTER
    for at, letter in enumerate(text):
        room -= _length(letter)
        if room < 0:
            return f"{text[:at]}…"
    return text


def _xml(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return escape(text.translate(CONTROL).encode("utf-8", "replace").decode())


# ------------------------------------------------------------ layers
def _layers(count: int, edges: Edges) -> list[list[int]]:
    """Boxes by the longest way that leads to them; an edge that would close a cycle does not count."""
    after: list[list[int]] = [[] for _ in range(count)]
    waits = [0] * count
    for a, b in dict.fromkeys((a, b) for a, b, _ in edges if a != b):
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


def _wrapped(shapes: Sequence[Shape], rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Layers that are too wide as several."""
    found: list[list[int]] = []
    for row in rows:
        found.append([])
        width = 0.0
        for box in row:
            width += shapes[box].width + BESIDE
            if width > ROW and found[-1]:
                found.append([])
                width = shapes[box].width + BESIDE
            found[-1].append(box)
    return found


def _routed(rows: list[list[int]], edges: Edges) -> _Routes:
    """A bend in every layer that an edge passes; edges of one kind to one box share theirs."""
    layer = {box: at for at, row in enumerate(rows) for box in row}
    known: dict[tuple[int, Edge, int], int] = {}
    bends: dict[tuple[int, int, Edge], list[int]] = {}
    first = len(layer)
    for a, b, kind in edges:
        bends[a, b, kind] = [known.setdefault((b, kind, at), first + len(known))
                             for at in range(layer[a] + 1, layer[b])]
        if len(known) > MOST_BENDS:
            return _Routes(rows, {})
    for (_, _, at), bend in known.items():
        rows[at].append(bend)
    return _Routes(rows, bends)


def _ordered(routes: _Routes, edges: Edges) -> list[list[int]]:
    """Every row in the order of the mean places of what its boxes are connected to, down and up a few times."""
    near: dict[int, set[int]] = {}
    for key in edges:
        way = [key[0], *routes.bends.get(key, ()), key[1]]
        for a, b in pairwise(way):
            if a != b:
                near.setdefault(a, set()).add(b)
                near.setdefault(b, set()).add(a)
    rows = routes.rows
    place = {box: at / max(len(row) - 1, 1) for row in rows for at, box in enumerate(row)}
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            mean = {box: sum(place[other] for other in sorted(near.get(box, {box}))) / len(near.get(box, {box}))
                    for box in row}
            row.sort(key=lambda box: (mean[box], place[box], box))
            place.update({box: at / max(len(row) - 1, 1) for at, box in enumerate(row)})
    return rows


def _places(shapes: Sequence[Shape],
            rows: Sequence[Sequence[int]]) -> tuple[list[tuple[float, float, float]], float, float]:
    """The upper left corner of every box and bend, and the height of its row; width and height of the picture (px)."""
    def wide(box: int) -> float:
        return shapes[box].width + BESIDE if box < len(shapes) else 2 * LANE

    widths = [sum(wide(box) for box in row) for row in rows]
    whole, y = max(widths, default=0.0), BESIDE
    places = [(0.0, 0.0, 0.0)] * sum(map(len, rows))
    for row, width in zip(rows, widths, strict=True):
        x = BESIDE + (whole - width) / 2
        high = max((shapes[box].height for box in row if box < len(shapes)), default=0.0)
        for box in row:
            places[box] = (x, y, high)
            x += wide(box)
        y += high + BELOW
    return places, whole + 2 * BESIDE, y - BELOW + BESIDE if shapes else 2 * BESIDE


# ------------------------------------------------------------ edges
def _line(shapes: Sequence[Shape], places: Sequence[tuple[float, float, float]], key: tuple[int, int, Edge],
          bends: Sequence[int], count: int) -> str:
    """From the middle of a box's lower side, between other boxes, to that of another's upper side; a loop beside a box
    that waits for itself."""
    a, b, kind = key
    start = places[a][0] + shapes[a].width / 2, places[a][1] + shapes[a].height
    end = places[b][0] + shapes[b].width / 2, places[b][1]
    if a == b:
        edge, far = places[a][0] + shapes[a].width, places[a][0] + shapes[a].width + BELOW * 0.6
        path = (f"M{edge:.1f} {start[1] - PAD:.1f} C{far:.1f} {start[1]:.1f} {far:.1f} {end[1]:.1f} "
                f"{edge:.1f} {end[1] + PAD:.1f}")
    else:
        path, at = f"M{start[0]:.1f} {start[1]:.1f}", start
        for bend in bends:
            x, y, high = places[bend]
            path += f" {_curve(at, (x + LANE / 2, y))} V{y + high:.1f}"
            at = x + LANE / 2, y + high
        path += f" {_curve(at, end)}"
    dashes = ' stroke-dasharray="5 3"' if kind == "control" else ""
    title = f"<title>{count:,} dependencies</title>" if count > 1 else ""
    ink = UPWARD if end[1] < start[1] else DOWNWARD
    return (f'<path d="{path}" fill="none" {ink}{dashes} marker-end="url(#head)">'
            f"{title}</path>")


def _curve(start: Point, end: Point) -> str:
    bend = BELOW * 0.6
    return f"C{start[0]:.1f} {start[1] + bend:.1f} {end[0]:.1f} {end[1] - bend:.1f} {end[0]:.1f} {end[1]:.1f}"
