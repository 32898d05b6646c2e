"""A fabric as SVG: boxes of equal nodes in layers, XPUs at the bottom, links by colour (fabric/sketch).

Hosts of several boxes have frames. A layer whose boxes are linked to each other is drawn as a grid where its first
links part it in equal rows, else as a circle.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from astrarium.fabric.numbers import Said
from astrarium.fabric.sketch import Box, Line, Sketch
from astrarium.report.plot.colours import LIGHT, PALETTE, plot_style
from astrarium.units import format_rate, format_time

__all__ = ["LinkWords", "fabric_svg", "link_words"]

KINDS: Mapping[str, str] = MappingProxyType({"xpu": "#dbe9f6", "nic": "#e2f0d9", "switch": "#fdebd0", "cpu": "#eee6f6",
                                             "memory": "#f6e3e8", "port": "#eeeeee", "device": "#eeeeee",
                                             "custom": "#eeeeee"})
LETTER, LINE, PAD, GAP, RIM = 6.3, 14.0, 8.0, 16.0, 20.0
LAYER = 62.0            # px between layers
INSIDE = 34.0           # px between the rows of a frame
ICON = 18.0
COLD, HOT = (136, 170, 204), (204, 51, 17)      # links that are never busy, and the busiest
PAPER, INK, MUTED, GRID = (f"var(--plot-{role},{LIGHT[role]})" for role in ("paper", "ink", "muted", "grid"))
LETTERS = "#222"        # in boxes, which are light on dark pages, too
SCALE = 6               # colours of the legend of busy links
Point = tuple[float, float]


class LinkWords(Struct, frozen=True):
    """A link's name, rate (empty if unknown; `free`), all that is known of it, and its width in px."""

    name: str
    rate: str
    all: str
    width: float

    @property
    def title(self) -> str:
        return f"{self.name} {self.rate}" if self.rate else self.name


def link_words(name: str, known: Said) -> LinkWords:
    """What the picture says of a link."""
    if known.free:
        return LinkWords(name, "free", "free", 1.0)
    rate = "" if known.bandwidth is None else format_rate(known.bandwidth)
    time = "latency not given" if known.latency is None else format_time(known.latency)
    tier = f", {known.tier}" if known.tier else ""
    wide = 1.5 if known.bandwidth is None else min(5.0, max(1.0, 1.0 + math.log10(max(known.bandwidth, 1.0)) * 1.1))
    return LinkWords(name, rate, f"{rate or 'bandwidth not given'}, {time}{tier}", wide)


class _Placed(Struct, frozen=True):
    x: float        # left
    y: float        # top
    width: float
    height: float

    @property
    def middle(self) -> Point:
        return self.x + self.width / 2, self.y + self.height / 2


class _Layout:
    """Places of boxes and frames, layer by layer from the hosts upwards; y grows downwards, from 0 at the hosts."""

    def __init__(self, drawing: Sketch, words: Mapping[int, LinkWords]) -> None:
        self.drawing, self.words = drawing, words
        self.text = [list(_lines_of(at, box, drawing, words)) for at, box in enumerate(drawing.boxes)]
        self.size = [(2 * PAD + max(LETTER * len(words) + ICON * (link >= 0) for words, link in lines),
                      2 * PAD + LINE * len(lines)) for lines in self.text]
        self.at: dict[int, _Placed] = {}
        self.frames: list[_Placed] = []

    def place(self) -> None:
        boxes = self.drawing.boxes
        hosts = [at for at, box in enumerate(boxes) if box.frame >= 0 or box.row <= 0]
        loose = [at for at in hosts if boxes[at].frame < 0]
        x = 0.0
        for frame in range(len(self.drawing.frames)):
            x = self._frame(frame, x) + GAP
        if loose:
            self._group(loose, x, 0.0)
        top = min([each.y for each in [*self.at.values(), *self.frames]], default=0.0)
        middle = self._wide() / 2
        for row in range(1, 1 + max([box.row for box in boxes if box.frame < 0], default=0)):
            layer = [at for at, box in enumerate(boxes) if box.frame < 0 and box.row == row and at not in self.at]
            if layer:
                self._group(sorted(layer, key=self._pull), middle, top - LAYER, centred=True)
                top = min(self.at[at].y for at in layer)

    def _wide(self) -> float:
        return max(each.x + each.width for each in [*self.at.values(), *self.frames])

    def _pull(self, at: int) -> float:
        """The mean place of the boxes below that a box is linked to."""
        near = [line.one if line.two == at else line.two for line in self.drawing.lines if at in (line.one, line.two)]
        found = [self.at[each].middle[0] for each in near if each in self.at]
        return sum(found) / len(found) if found else 0.0

    def _frame(self, frame: int, left: float) -> float:
        """Place the boxes of a frame; returns its right end."""
        boxes = self.drawing.boxes
        mine = [at for at, box in enumerate(boxes) if box.frame == frame]
        rows = [[at for at in mine if boxes[at].row == row] for row in sorted({boxes[at].row for at in mine})]
        widths = [sum(self.size[at][0] for at in row) + GAP * (len(row) - 1) for row in rows]
        title = self.frame_title(frame)
        width = max(*widths, LETTER * len(title)) + 2 * GAP
        bottom = 0.0
        for row, wide in zip(rows, widths, strict=True):
            row.sort(key=self._pull)
            x, high = left + (width - wide) / 2, max(self.size[at][1] for at in row)
            for at in row:
                self.at[at] = _Placed(x, bottom - high, *self.size[at])
                x += self.size[at][0] + GAP
            bottom -= high + INSIDE
        top = bottom + INSIDE - GAP
        self.frames.append(_Placed(left, top - LINE, width, -top + LINE + GAP))
        return left + width

    def frame_title(self, frame: int) -> str:
        """Whose host it is, and how many there are."""
        title, count = self.drawing.frames[frame]
        return title + (f" x {count:,}" if count > 1 else "")

    def _group(self, layer: Sequence[int], x: float, bottom: float, *, centred: bool = False) -> None:
        """Place boxes outside frames: a row; a grid or a circle where they are linked to each other."""
        inner = [line for line in self.drawing.lines
                 if line.one != line.two and line.one in layer and line.two in layer]
        wide, high = (max(self.size[at][side] for at in layer) for side in (0, 1))
        columns = _columns(layer, inner) if inner and len(layer) > 3 else 0
        if not columns and len(inner) >= len(layer) > 3:
            radius = max(len(layer) * (wide + GAP) / (2 * math.pi), 1.6 * high)
            left = x - (radius + wide / 2) if centred else x
            for place, at in enumerate(layer):
                angle = 2 * math.pi * place / len(layer)
                self._put(at, left + radius + wide / 2 + radius * math.sin(angle),
                          bottom - radius - high / 2 - radius * math.cos(angle))
            return
        columns = columns or len(layer)
        step = wide + (2.5 * GAP if inner else GAP)
        left = x - (columns * step - GAP) / 2 if centred else x
        down = -(-len(layer) // columns)
        for place, at in enumerate(layer):
            self._put(at, left + (place % columns) * step + wide / 2,
                      bottom - high / 2 - (down - 1 - place // columns) * (high + 3 * GAP))

    def _put(self, at: int, x: float, y: float) -> None:
        width, height = self.size[at]
        self.at[at] = _Placed(x - width / 2, y - height / 2, width, height)


def _columns(layer: Sequence[int], inner: Sequence[Line]) -> int:
    """How many boxes the parts have that the first links make of a layer, where all have equally many; else 0."""
    first = min(line.link for line in inner)
    part = {at: at for at in layer}
    for line in inner:
        if line.link == first:
            low, high = sorted((part[line.one], part[line.two]))
            part = {at: low if each == high else each for at, each in part.items()}
    sizes = {list(part.values()).count(each) for each in part.values()}
    size = sizes.pop()
    return size if not sizes and 1 < size < len(layer) else 0


def _lines_of(at: int, box: Box, drawing: Sketch, words: Mapping[int, LinkWords]) -> Iterator[tuple[str, int]]:
    """Lines of text of a box, and the link that each is of (-1: none)."""
    hosts = drawing.frames[box.frame][1] if box.frame >= 0 else 1
    many = box.count // hosts if box.count % hosts == 0 else box.count
    yield box.title + (f" x {many:,}" if many > 1 else ""), -1
    for line in drawing.lines:
        if line.one == line.two == at:
            yield f"{words[line.link].title}: {line.shape}", line.link


def fabric_svg(title: str, drawing: Sketch, words: Mapping[int, LinkWords],
               busy: Mapping[int, float] = MappingProxyType({})) -> str:
    """The picture. `words`: of every link that a line is of. `busy`: the busy share of links, which colours them: from
    blue to red, the busiest."""
    layout = _Layout(drawing, words)
    layout.place()
    colour = _colours(sorted({line.link for line in drawing.lines}), busy)
    every = [*layout.at.values(), *layout.frames]
    left, top = min(each.x for each in every), min(each.y for each in every)
    legend = [*_busy_legend(busy), *_legend(drawing, words, colour)]
    width = max(max(each.x + each.width for each in every) - left,
                LETTER * max(len(title), *(len(said) + 6 for _, said in legend))) + 2 * RIM
    bows = max([0.0, *(top - _bend(*_ends(layout, line)[:2])[1] for line in drawing.lines
                       if line.one != line.two and _ends(layout, line)[2])])
    high = max(each.y + each.height for each in every) - top + bows
    shift = (width - (max(each.x + each.width for each in every) - left)) / 2 - left
    height = high + 3 * RIM + LINE * (len(legend) + 1) + 10
    body = [_text(RIM, RIM + 4, title, "start", ' font-size="13" font-weight="bold"'),
            f'<g transform="translate({shift:.1f} {2 * RIM + bows - top:.1f})">', *_frames(layout),
            *_drawn_lines(layout, colour), *_boxes(layout, colour), *_labels(layout, colour, bool(busy)), "</g>"]
    for place, (sign, said) in enumerate(legend):
        y = high + 3 * RIM + LINE * (place + 0.5)
        body += [f'<g transform="translate({RIM} {y:.1f})">{sign}</g>', _text(RIM + 34, y + 4, said, "start")]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" role="img" aria-label="{html.escape(title)}" '
            f'font-family="Helvetica, Arial, sans-serif" font-size="11" fill="{INK}"><style>{plot_style()}</style>'
            f'<rect width="100%" height="100%" fill="{PAPER}"/>{"".join(body)}</svg>\n')


def _colours(links: Sequence[int], busy: Mapping[int, float]) -> dict[int, str]:
    most = max(busy.values(), default=0.0)
    if most <= 0:
        return {link: PALETTE[place % len(PALETTE)] for place, link in enumerate(links)}
    return {link: _heat(busy.get(link, 0.0) / most) for link in links}


def _text(x: float, y: float, words: str, anchor: str = "middle", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{html.escape(words)}</text>'


def _frames(layout: _Layout) -> Iterator[str]:
    for number, at in enumerate(layout.frames):
        count = layout.drawing.frames[number][1]
        for back in range(min(count - 1, 2), 0, -1):
            yield (f'<rect x="{at.x + 4 * back:.1f}" y="{at.y - 4 * back:.1f}" width="{at.width:.1f}" '
                   f'height="{at.height:.1f}" rx="6" fill="{PAPER}" stroke="{GRID}"/>')
        yield (f'<rect x="{at.x:.1f}" y="{at.y:.1f}" width="{at.width:.1f}" height="{at.height:.1f}" rx="6" '
               f'fill="{PAPER}" stroke="{MUTED}"/>')
        yield _text(at.x + 8, at.y + LINE, layout.frame_title(number), "start", ' font-weight="bold"')


def _boxes(layout: _Layout, colour: Mapping[int, str]) -> Iterator[str]:
    for at, box in enumerate(layout.drawing.boxes):
        place = layout.at[at]
        for back in range(min(box.count - 1, 2) if box.frame < 0 else 0, 0, -1):
            yield (f'<rect x="{place.x + 3 * back:.1f}" y="{place.y - 3 * back:.1f}" width="{place.width:.1f}" '
                   f'height="{place.height:.1f}" rx="3" fill="{KINDS[box.kind]}" stroke="#999"/>')
        yield (f'<rect x="{place.x:.1f}" y="{place.y:.1f}" width="{place.width:.1f}" height="{place.height:.1f}" '
               f'rx="3" fill="{KINDS[box.kind]}" stroke="#555"><title>{html.escape(box.title)}: {box.count:,} '
               f'{box.kind}</title></rect>')
        for line, (words, link) in enumerate(layout.text[at]):
            x, y = place.middle[0], place.y + PAD + LINE * (line + 0.75)
            if link < 0:
                yield _text(x, y, words, extra=f' fill="{LETTERS}"')
            else:
                yield _icon(words, x - LETTER * len(words) / 2, y - 4, colour[link])
                yield _text(x + ICON / 2, y, words, extra=f' fill="{colour[link]}"')


def _icon(words: str, x: float, y: float, colour: str) -> str:
    """What links among equal nodes look like: five dots as a ring, a line, a pair, all joined, or a hub."""
    dots = [(5 * math.sin(2 * math.pi * part / 5), -5 * math.cos(2 * math.pi * part / 5)) for part in range(5)]
    joined = [(a, b) for a in range(5) for b in range(a) if b == a - 1 or (a, b) == (4, 0) or "all-to-all" in words]
    if "line of" in words or words.endswith("pairs"):
        dots = [(3.0 * (part - 2), 0.0) for part in range(5)] if "line of" in words else [(-4.0, 0.0), (4.0, 0.0)]
        joined = [(part, part - 1) for part in range(1, len(dots))]
    elif "ring of" not in words and "all-to-all" not in words:
        dots, joined = [*dots, (0.0, 0.0)], [(part, 5) for part in range(5)]
    way = "".join(f"M{x + dots[a][0]:.1f} {y + dots[a][1]:.1f}L{x + dots[b][0]:.1f} {y + dots[b][1]:.1f}"
                  for a, b in joined)
    return f'<path d="{way}" stroke="{colour}" stroke-width="0.8"/>' + "".join(
        f'<circle cx="{x + a:.1f}" cy="{y + b:.1f}" r="1.3" fill="{colour}"/>' for a, b in dots)


def _ends(layout: _Layout, line: Line) -> tuple[Point, Point, bool]:
    """Where a line begins and ends, and whether it runs round what lies between."""
    one, two = layout.at[line.one], layout.at[line.two]
    (x1, y1), (x2, y2) = one.middle, two.middle
    if one.y + one.height < two.y or two.y + two.height < one.y:
        up, down = (one, two) if one.y < two.y else (two, one)
        if abs(x1 - x2) < 1.0 and [each for each in layout.at.values() if abs(each.middle[0] - x1) < 1.0
                                       and up.y < each.y < down.y]:
            return (up.x, up.middle[1]), (down.x, down.middle[1]), True
        return (up.middle[0], up.y + up.height), (down.middle[0], down.y), False
    low, high = sorted((x1, x2))
    between = any(low < each.middle[0] < high and abs(each.middle[1] - y1) < 1.0 for each in layout.at.values())
    return ((x1, one.y), (x2, two.y), True) if between else ((x1, y1), (x2, y2), False)


def _bend(one: Point, two: Point) -> Point:
    """Where a line between two places of a row or column is drawn to, around boxes between them."""
    (x1, y1), (x2, y2) = one, two
    if abs(x1 - x2) >= 1.0:
        return (x1 + x2) / 2, min(y1, y2) - min(LAYER, 0.2 * abs(x2 - x1) + GAP)
    return x1 - min(2.5 * GAP, 0.2 * abs(y2 - y1) + GAP), (y1 + y2) / 2


def _drawn_lines(layout: _Layout, colour: Mapping[int, str]) -> Iterator[str]:
    for line in layout.drawing.lines:
        if line.one == line.two:
            continue
        words = layout.words[line.link]
        (x1, y1), (x2, y2), bow = _ends(layout, line)
        way = f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"
        if bow:
            x, y = _bend((x1, y1), (x2, y2))
            way = f"M{x1:.1f} {y1:.1f}Q{x:.1f} {y:.1f} {x2:.1f} {y2:.1f}"
        dashes = ' stroke-dasharray="4 3"' if words.rate == "free" else ""
        said = html.escape(f"{words.name}, {words.all}: {line.count:,} links")
        yield (f'<path d="{way}" fill="none" stroke="{colour[line.link]}" stroke-width="{words.width:.1f}" '
               f'stroke-opacity="0.75"{dashes}><title>{said}</title></path>')


def _labels(layout: _Layout, colour: Mapping[int, str], busy: bool) -> Iterator[str]:
    """Rates on one line of each link name between two layers (of `busy` links without the name, which the legend has);
    beside boxes, how many links each node has upwards and downwards, where that is not one."""
    halo = f' stroke="{PAPER}" stroke-width="3" paint-order="stroke" font-size="10"'
    seen: set[tuple[int, ...]] = set()
    many: dict[tuple[int, bool], list[tuple[int, int]]] = {}
    for line in layout.drawing.lines:
        (x1, y1), (x2, y2), bow = _ends(layout, line)
        if line.one == line.two or abs(y1 - y2) < 1.0:
            continue
        first_up = layout.at[line.one].y < layout.at[line.two].y
        many.setdefault((line.one, not first_up), []).append(line.of_one)
        many.setdefault((line.two, first_up), []).append(line.of_two)
        ends = [layout.drawing.boxes[end] for end in (line.one, line.two)]
        key = (line.link, *(number for end in ends for number in (end.frame, end.row)))
        if key not in seen and not bow:
            seen.add(key)
            share = 0.38 + 0.12 * (list(colour).index(line.link) % 3)
            yield _text(x1 + share * (x2 - x1), y1 + share * (y2 - y1) + 3, layout.words[line.link].rate if busy
                        else layout.words[line.link].title, extra=f'{halo} fill="{INK if busy else colour[line.link]}"')
    for (at, upwards), each in many.items():
        least, most = (sum(part[side] for part in each) for side in (0, 1))
        if all(part[0] for part in each) and ((most > 1 and layout.drawing.boxes[at].count > 1) or most > len(each)):
            place = layout.at[at]
            yield _text(place.middle[0], place.y - 5 if upwards else place.y + place.height + 12,
                        f"x{least:,}" if least == most else f"x{least:,}-{most:,}", extra=f'{halo} fill="{MUTED}"')


def _busy_legend(busy: Mapping[int, float]) -> Iterator[tuple[str, str]]:
    """What the colours of busy links mean."""
    most = max(busy.values(), default=0.0)
    if most > 0:
        steps = [f'<rect x="{26 / SCALE * place:.2f}" y="-5" width="{26 / SCALE + 0.3:.2f}" height="10" fill="'
                 f'{_heat(place / (SCALE - 1))}"/>' for place in range(SCALE)]
        yield "".join(steps), f"busy share of the run: 0 % to {100 * most:.1f} %"


def _heat(share: float) -> str:
    return "#" + "".join(f"{round(cold + share * (hot - cold)):02x}" for cold, hot in zip(COLD, HOT))


def _legend(drawing: Sketch, words: Mapping[int, LinkWords], colour: Mapping[int, str]) -> Iterator[tuple[str, str]]:
    for link, paint in colour.items():
        count = sum(line.count for line in drawing.lines if line.link == link)
        yield (f'<path d="M0 0h26" stroke="{paint}" stroke-width="{words[link].width:.1f}"/>',
               f"{words[link].name}: {words[link].all}; {count:,} link{'s' * (count != 1)}, both ways")
    totals: dict[str, int] = {}
    for box in drawing.boxes:
        totals[box.kind] = totals.get(box.kind, 0) + box.count
    for kind, count in totals.items():
        yield f'<rect y="-6" width="26" height="12" rx="2" fill="{KINDS[kind]}" stroke="#555"/>', f"{count:,} {kind}"
    if any(line.of_one != (1, 1) or line.of_two != (1, 1) for line in drawing.lines if line.one != line.two):
        yield "", "x8 above or below a box: links of each of its nodes on that side"
    if drawing.left_out:
        yield "", "not drawn, on no way between XPUs: " + ", ".join(
            f"{n:,} {kind}" for kind, n in drawing.left_out.items())
    if not drawing.exact:
        yield "", "nodes of a box are of one kind, and may differ in what they are linked to"
