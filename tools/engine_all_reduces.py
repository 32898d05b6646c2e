"""Points of engines' own all_reduces: rows of a table cleaned of single spikes, cut where an engine changes its kernel,
and thinned."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import log

__all__ = ["curve"]

Point = tuple[float, float]

SPIKE = 1.3         # a row so much above both its neighbours is a stall, not a kernel
JUMP = 1.3          # a row so much above the line through the two before it is another kernel
FALL = 0.9          # one kernel takes no less time for twice the bytes, but for noise
CLOSE = 0.02        # points that interpolation says so well are left out


def curve(rows: Mapping[float, float], lasts: Collection[float] = ()) -> list[Point]:
    """(bytes, ns) between which the logarithm of the time goes linearly with that of the bytes.

    `rows`: bytes -> ns, bytes doubling. Where the kernel changes the row is the first of the new one, but after a size
    in `lasts`, which is the last of the old one.
    """
    parts = _kernels(_without_spikes(sorted(rows.items())))
    found: list[Point] = []
    for place, part in enumerate(parts):
        first = [(found[-1][0] + 1, _below(part, found[-1][0]))] if place and found[-1][0] in lasts else []
        more = place + 1 < len(parts) and part[-1][0] not in lasts
        found += _thin([*first, *part, *([(parts[place + 1][0][0] - 1, _above(part))] if more else [])])
    return found


def _without_spikes(points: Sequence[Point]) -> list[Point]:
    """A spike becomes the geometric mean of its neighbours; the first row, which has one neighbour, that one."""
    found = list(points)
    for place, (size, ns) in enumerate(points):
        beside = [points[other][1] for other in (place - 1, place + 1) if 0 <= other < len(points)]
        if all(ns > SPIKE * other for other in beside) and place + 1 < len(points):
            found[place] = (size, float((beside[0] * beside[-1]) ** 0.5))
    return found


def _kernels(points: Sequence[Point]) -> list[list[Point]]:
    """The rows of each kernel."""
    parts = [[points[0]]]
    for point in points[1:]:
        if _is_new(parts[-1], point):
            parts.append([point])
        else:
            parts[-1].append(point)
    return parts


def _is_new(part: Sequence[Point], point: Point) -> bool:
    if point[1] < FALL * part[-1][1]:
        return True
    return len(part) > 1 and point[1] > JUMP * (part[-1][1] + 2 * (part[-1][1] - min(part[-2][1], part[-1][1])))


def _above(part: Sequence[Point]) -> float:
    """The time of a kernel at twice the size of its last row."""
    return part[-1][1] + 2 * max(0.0, part[-1][1] - part[-2][1]) if len(part) > 1 else part[-1][1]


def _below(part: Sequence[Point], size: float) -> float:
    """The time of a kernel at a size below its first row."""
    if len(part) == 1:
        return part[0][1]
    (first, ns), (second, more) = part[:2]
    return max(ns / 2, ns - (more - ns) * (first - size) / (second - first))


def _thin(points: Sequence[Point]) -> list[Point]:
    """The fewest points (by halving at the worst one) that say all the others within CLOSE."""
    (x0, y0), (x1, y1) = points[0], points[-1]
    worst, place = 0.0, 0
    for number, (x, y) in enumerate(points[1:-1], 1):
        said = y0 * (y1 / y0) ** (log(x / x0) / log(x1 / x0))
        if (off := abs(said / y - 1)) > worst:
            worst, place = off, number
    if worst <= CLOSE:
        return [points[0], points[-1]] if len(points) > 1 else list(points)
    return [*_thin(points[:place + 1])[:-1], *_thin(points[place:])]
