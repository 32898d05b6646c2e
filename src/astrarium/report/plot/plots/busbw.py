"""Bus bandwidth (nccl-tests) of collectives against their size: of a run, and of measured rows beside predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from astrarium.arrays import I64
from astrarium.engine.plan import Dim, Plan, Shape
from astrarium.errors import InputError
from astrarium.report.plot.colours import ranked
from astrarium.report.plot.find import Drawing
from astrarium.report.plot.plot import Axis, Column, Layer, Plot, spread
from astrarium.result import Result
from astrarium.validate.collectives import busbw_of
from astrarium.validate.predict import Prediction, Value
from astrarium.validate.verdict import Validation
from astrarium.vocab import CommOp

__all__ = ["PLOT", "busbw", "busbw_limit"]

ROOM = 1.5      # by which a line of a limit is wider than the payloads
LIMITED = (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL)
LINKS: Mapping[Shape, Callable[[int], int]] = {
    Shape.RING: lambda npus: 2, Shape.RING_ONE_WAY: lambda npus: 1, Shape.SWITCH: lambda npus: 1,
    Shape.FULLY_CONNECTED: lambda npus: npus - 1}
"""Links out of an NPU of a dim."""


def busbw(answer: Validation | Result) -> Plot:
    """Bus bandwidth (nccl-tests) against payload: of collectives in a run, or of measured rows beside their prediction.

    Args:
        answer: a validation with rows of collectives, or a run with collectives.

    Raises:
        InputError: without a collective that takes time.
    """
    return _measured_busbw(answer) if isinstance(answer, Validation) else _run_busbw(answer)


def _run_busbw(result: Result) -> Plot:
    found = result.collectives
    good = [place for place in range(len(found.op)) if found.payload[place] > 0 and math.isfinite(found.busbw[place])]
    limits = {(int(found.op[place]), int(found.group[place])): 0.0 for place in good}
    limits = {key: busbw_limit(result.plan, CommOp(key[0]), key[1]) for key in limits}
    rows = sorted(dict.fromkeys((f"{CommOp(int(found.op[place])).name.lower()}, {int(found.ranks[place]):,} ranks",
                                 float(found.payload[place]), float(found.busbw[place]),
                                 float(found.end[place] - found.ready[place]) / 1000,
                                 limits[int(found.op[place]), int(found.group[place])]) for place in good))
    if not rows:
        raise InputError("busbw", "no collective takes time", expected="a run with collectives, with node times")
    shown, left = spread(rows)
    columns = {"colour": Column("collective", [row[0] for row in shown]),
               "x": Column("payload", [row[1] for row in shown], "bytes"),
               "y": Column("busbw", [row[2] for row in shown], "rate"),
               "time": Column("time", [row[3] for row in shown], "time"),
               "limit": Column("limit of the links", [row[4] for row in shown], "rate")}
    top = max(rows, key=lambda row: row[2])
    kinds = len({row[0] for row in rows})
    said = (f"{_counted(len(rows), 'different collective')} of {_counted(kinds, 'kind')}, simulated; the best is "
            f"{top[0]} with {top[2]:,.4g} GB/s.")
    lines = list(_limits(rows))
    said += " Dashed: the most that the links of its NPUs carry without latency." if lines else ""
    return Plot("Bus bandwidth of collectives", said + left, (*lines, Layer("point", columns, size=60, opacity=0.8)),
                Axis("payload", "bytes", log=True), Axis("busbw", "rate"), ranked(row[0] for row in rows), zoom=True)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _limits(rows: Sequence[tuple[str, float, float, float, float]]) -> Iterator[Layer]:
    """A dashed line for each kind of collective and limit, a little wider than its payloads."""
    sizes: dict[tuple[str, float], list[float]] = {}
    for name, size, _, _, limit in rows:
        if math.isfinite(limit):
            sizes.setdefault((name, limit), []).append(size)
    ends = [(name, limit, end) for (name, limit), found in sizes.items()
            for end in (min(found) / ROOM, max(found) * ROOM)]
    if ends:
        yield Layer("line", {"colour": Column("collective", [name for name, _, _ in ends]),
                             "detail": Column("", [f"{limit:g}" for _, limit, _ in ends]),
                             "x": Column("", [end for _, _, end in ends], "bytes"),
                             "y": Column("limit of the links", [limit for _, limit, _ in ends], "rate")},
                    dash=True, size=1.2)


def busbw_limit(plan: Plan, op: CommOp, group: int) -> float:
    """The most busbw (bytes/ns) of a collective of a group that its links allow, without latency: what must enter the
    smallest part of the group within inner dims, over the rates of its NPUs in the others. NaN where that is not known:
    of a graph, other operations, and where switches add.

    Args:
        plan: a lowered run.
        op: the operation; a limit is known of all_reduce, all_gather, reduce_scatter and all_to_all.
        group: a number of `plan.groups`; -1: all ranks.
    """
    dims = plan.network.dims
    adds = any(phase.in_switch for each in plan.collectives for chunk in each.chunks for phase in chunk.phases)
    if plan.network.graph is not None or adds or op not in LIMITED or not all(dim.shape in LINKS for dim in dims):
        return math.nan
    npus = np.unique(plan.npu_of if group < 0 else np.asarray(plan.npu_of)[plan.groups[group]]).astype(np.int64)
    rates = [dim.bandwidth * LINKS[dim.shape](dim.npus) for dim in dims]
    most, inner = math.inf, 1
    for place, dim in enumerate(dims):
        part = 1 if place == 0 else int(np.unique(npus // inner, return_counts=True)[1].min())
        outer = [rate for at, rate in enumerate(rates) if at >= place and _spans(npus, dims, at)]
        if part < npus.size and outer:
            way = 1 if op == CommOp.ALL_TO_ALL else part
            most = min(most, way * sum(outer) * (npus.size - 1) / (npus.size - part))
        inner *= dim.npus
    return most if math.isfinite(most) else math.nan


def _spans(npus: I64, dims: Sequence[Dim], place: int) -> bool:
    """Whether NPUs differ in their coordinate of a dim."""
    coordinate = npus // math.prod(dim.npus for dim in dims[:place]) % dims[place].npus
    return bool((coordinate != coordinate[0]).any())


def _measured_busbw(made: Validation) -> Plot:
    every = sorted({(_what(each), *_rates(each, value)) for each in made.found if isinstance(each, Prediction)
                    and each.row.kind == "collective" for value in each.values})
    rows, left = spread(every)
    if not rows:
        raise InputError("busbw", "no row is a collective", expected="rows with op, size and time or busbw")
    base = {"colour": Column("collective", [row[0] for row in rows]),
            "x": Column("payload", [row[1] for row in rows], "bytes")}
    both = {"measured": Column("measured", [row[2] for row in rows], "rate"),
            "predicted": Column("predicted", [row[3] for row in rows], "rate")}
    return Plot("Bus bandwidth, measured and predicted",
                f"{len(every):,} rows. Lines: predicted; points: measured.{left}",
                (Layer("line", base | {"y": both["predicted"], "measured": both["measured"]}),
                 Layer("point", base | {"y": both["measured"], "predicted": both["predicted"]}, size=45)),
                Axis("payload", "bytes", log=True), Axis("busbw", "rate"), ranked(row[0] for row in rows), zoom=True)


def _what(made: Prediction) -> str:
    return f"{made.row.text('op')}, {made.row.text('hw')}, {made.row.count('n_gpus') or 0:,} GPUs"


def _rates(made: Prediction, value: Value) -> tuple[float, float, float]:
    """(payload in bytes, measured, predicted busbw in bytes/ns) of a collective's row."""
    size = float(made.row.text("size_B"))
    if value.metric == "busbw_GBs":
        return size, value.measured, value.predicted
    return size, busbw_of(made.row, value.measured * 1e3), busbw_of(made.row, value.predicted * 1e3)


PLOT = Drawing(("run", "validate"), lambda found: busbw(found if isinstance(found, Validation) else found.result))
