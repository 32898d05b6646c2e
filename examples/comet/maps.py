"""Heat maps with lines of equal value, and stacked bars, as SVG text (see `svg`)."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Sequence

from astrarium.report.plot.colours import PALETTE

__all__ = ["contour", "heat_map", "stacked_bars", "text"]

Cells = Sequence[Sequence[float | None]]
Shown = Callable[[float], str]
LEFT, TOP, CELL, LINE, GAP = 130, 54, (64, 30), 20, 10
LIGHT, DARK, NONE = (246, 249, 252), (33, 84, 138), "#e8e8e8"
BAR = 430


def text(x: float, y: float, words: str, anchor: str = "middle", extra: str = "") -> str:
    """Words at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{html.escape(words)}</text>'


def _chart(body: Sequence[str], width: float, height: float) -> str:
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" role="img" font-family="sans-serif" font-size="11">'
            f'<rect width="100%" height="100%" fill="#fff"/>{"".join(body)}</svg>\n')


def heat_map(title: str, rows: tuple[str, Sequence[str]], columns: tuple[str, Sequence[str]], cells: Cells,
             shown: Shown, levels: Sequence[float] = ()) -> str:
    """`cells` [rows][columns] as colours (dark: large, on a logarithmic scale) and numbers; None: an empty cell. `rows`
    and `columns`: the axis' name and its labels. A line runs where interpolated values have each of `levels`."""
    known = [value for row in cells for value in row if value is not None and value > 0]
    low, high = min(known, default=1.0), max(known, default=1.0)
    width, height = CELL
    right, bottom = LEFT + width * len(columns[1]), TOP + height * len(rows[1])
    body = [text(LEFT, 16, title, "start", ' font-size="13" font-weight="bold"'),
            text((LEFT + right) / 2, TOP - 22, columns[0], extra=' fill="#444"'),
            text(14, (TOP + bottom) / 2, rows[0], extra=f' fill="#444" transform="rotate(-90 14 '
                  f'{(TOP + bottom) / 2:.1f})"')]
    body += [text(LEFT + width * (at + 0.5), TOP - 7, label) for at, label in enumerate(columns[1])]
    words = []
    for down, label in enumerate(rows[1]):
        body.append(text(LEFT - 8, TOP + height * (down + 0.5) + 4, label, "end"))
        for along, value in enumerate(cells[down]):
            share = 0.0 if value is None or high <= low else math.log(value / low) / math.log(high / low)
            x, y, colour = LEFT + width * along, TOP + height * down, NONE if value is None else _shade(share)
            body.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{colour}" stroke="#fff"/>')
            if value is not None:
                words.append(text(x + width / 2, y + height / 2 + 4, shown(value),
                                   extra=' fill="#fff"' if share > 0.55 else ""))
    for level in levels:
        body += _line(cells, level, shown(level))
    return _chart([*body, *words], right + 20, bottom + 16)


def _shade(share: float) -> str:
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in zip(LIGHT, DARK))


def _line(cells: Cells, level: float, name: str) -> Iterator[str]:
    ways = contour(cells, level)
    for (x0, y0), (x1, y1) in ways:
        yield (f'<path d="M{_x(x0):.1f} {_y(y0):.1f}L{_x(x1):.1f} {_y(y1):.1f}" stroke="{PALETTE[1]}" '
               'stroke-width="2" fill="none"/>')
    if ways:
        x, y = max((end for way in ways for end in way), key=lambda end: (end[0], -end[1]))
        yield text(_x(x) + 3, _y(y) - 4, name, "start", f' fill="{PALETTE[1]}" font-weight="bold" stroke="#fff" '
                    'stroke-width="3" paint-order="stroke"')


def _x(column: float) -> float:
    return LEFT + CELL[0] * (column + 0.5)


def _y(row: float) -> float:
    return TOP + CELL[1] * (row + 0.5)


Place = tuple[float, float]


def contour(cells: Cells, level: float) -> list[tuple[Place, Place]]:
    """Pieces of the line where the values are `level`, ends as (column, row), by marching squares on the logarithms.

    A square with an empty corner has none. Where a square's corners alternate, opposite ones are taken as apart.
    """
    found = []
    for row in range(len(cells) - 1):
        for column in range(len(cells[row]) - 1):
            corners = [(column, row), (column + 1, row), (column + 1, row + 1), (column, row + 1)]
            values = [cells[y][x] for x, y in corners]
            if any(value is None or value <= 0 for value in values):
                continue
            logs = [math.log(value / level) for value in values if value is not None]
            ends = [_crossing(corners[at], corners[(at + 1) % 4], logs[at], logs[(at + 1) % 4]) for at in range(4)
                    if (logs[at] > 0) != (logs[(at + 1) % 4] > 0)]
            found += list(zip(ends[::2], ends[1::2]))
    return found


def _crossing(one: Place, other: Place, first: float, second: float) -> Place:
    share = first / (first - second)
    return one[0] + share * (other[0] - one[0]), one[1] + share * (other[1] - one[1])


def stacked_bars(title: str, parts: Sequence[tuple[str, str]], bars: Sequence[tuple[str, Sequence[float]]],
                 shown: Shown) -> str:
    """Horizontal bars, each of as many pieces as there are `parts` (name, colour); the total follows."""
    most = max((sum(values) for _, values in bars), default=1.0) or 1.0
    top = 38 + LINE * math.ceil(len(parts) / 3)
    body = [text(GAP, 16, title, "start", ' font-size="13" font-weight="bold"')]
    for at, (name, colour) in enumerate(parts):
        body += _sign(GAP + 200 * (at % 3), 34 + LINE * (at // 3), name, colour)
    for at, (name, values) in enumerate(bars):
        x, y = float(LEFT), float(top + LINE * at)
        body.append(text(x - 8, y + 12, name, "end"))
        for (part, colour), value in zip(parts, values, strict=True):
            if value > 0:
                size = value / most * BAR
                body.append(f'<rect x="{x:.1f}" y="{y:g}" width="{size:.1f}" height="15" fill="{colour}">'
                            f"<title>{html.escape(f'{name}, {part}: {shown(value)}')}</title></rect>")
                x += size
        body.append(text(x + 6, y + 12, shown(sum(values)), "start"))
    return _chart(body, LEFT + BAR + 80, top + LINE * len(bars) + GAP)


def _sign(x: float, y: float, name: str, colour: str) -> tuple[str, str]:
    """An entry of a legend."""
    return (f'<rect x="{x:g}" y="{y - 9:g}" width="11" height="11" fill="{colour}"/>', text(x + 16, y, name, "start"))
