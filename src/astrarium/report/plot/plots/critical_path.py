"""The critical path of a run as a ribbon: which rank does what from the start to the end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from astrarium.arrays import I64
from astrarium.errors import InputError
from astrarium.report.plot.colours import PALETTE
from astrarium.report.plot.find import Drawing
from astrarium.report.plot.plot import MOST, Axis, Column, Layer, Plot
from astrarium.report.tables.summary import MOVED
from astrarium.result import Result
from astrarium.result.nodes import Work

__all__ = ["PLOT", "critical_path"]

SHOWN = 16          # ranks with a row of their own
COLOURS = dict(zip(MOVED.values(), (PALETTE[0], PALETTE[1], PALETTE[5], PALETTE[3], PALETTE[4], "#bbbbbb")))


def critical_path(result: Result) -> Plot:
    """The critical path: a row for each rank on it, a bar for each span of one kind of work.

    Args:
        result: a run with node times.

    Raises:
        InputError: of a run without node times.
    """
    path = result.path if result.recorded else None
    if path is None or not path.work.size:
        raise InputError("critical_path", "no node times were recorded", expected="a Result of simulate(design)")
    first, last = _spans(path.rank, path.work)
    start, end, work, rank = path.start[first] / 1000, path.end[last] / 1000, path.work[first], path.rank[first]
    lengths = np.zeros(int(rank.max()) + 1)
    np.add.at(lengths, rank, end - start)
    most = np.argsort(-lengths, kind="stable")[:SHOWN]
    own = sorted(int(each) for each in most if lengths[each] > 0)
    others = int((lengths > 0).sum()) - len(own)
    rows = [f"rank {result.first_rank + each}" for each in own] + ([f"{others:,} more ranks"] if others else [])
    place = dict(zip(own, rows))
    named = [place.get(each, rows[-1]) for each in rank.tolist()]
    kinds = [MOVED[Work(each).name.lower()] for each in work.tolist()]
    each = -(-len(start) // MOST)
    bars = list(_bars(list(zip(named, kinds, start.tolist(), end.tolist())), each))
    columns = {"y": Column("rank", [bar[0] for bar in bars]), "colour": Column("work", [bar[1] for bar in bars]),
               "x": Column("start", [bar[2] for bar in bars], "time"),
               "x2": Column("end", [bar[3] for bar in bars], "time"),
               "time": Column("time", [bar[3] - bar[2] for bar in bars], "time")}
    used = {name: COLOURS[name] for name in MOVED.values() if name in set(kinds)}
    shares = ", ".join(f"{MOVED[name]} {100 * share:.1f} %" for name, share in path.shares().items())
    left = f" Up to {each:,} neighbours on a rank are drawn as one, each work as wide as its time." if each > 1 else ""
    return Plot("Critical path", f"What the end of the run waited for: {shares}.{left}",
                (Layer("bar", columns, share=0.8),), Axis("time", "time"), Axis(order=tuple(rows)), used, zoom=True)


def _bars(spans: Sequence[tuple[str, str, float, float]], each: int) -> Iterator[tuple[str, str, float, float]]:
    """(rank, work, start, end); of every `each` neighbours those of one rank together, each work as wide as its
    time."""
    for at in range(0, len(spans), each):
        for name, some in itertools.groupby(spans[at:at + each], key=lambda span: span[0]):
            mine = list(some)
            start = mine[0][2]
            for kind in dict.fromkeys(span[1] for span in mine):
                end = start + sum(span[3] - span[2] for span in mine if span[1] == kind)
                yield name, kind, start, end
                start = end


def _spans(rank: I64, work: npt.NDArray[np.uint8]) -> tuple[I64, I64]:
    """(first, last) segment of each span of neighbours of one rank that do one kind of work."""
    fresh = np.ones(rank.size, np.bool_)
    fresh[1:] = (rank[1:] != rank[:-1]) | (work[1:] != work[:-1])
    first = np.flatnonzero(fresh)
    return first, np.append(first[1:], rank.size) - 1


PLOT = Drawing(("run",), lambda found: critical_path(found.result))
