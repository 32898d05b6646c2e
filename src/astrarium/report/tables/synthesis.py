"""How close synthetic traces are to real ones: distances between traces, and between their simulated runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from astrarium.compute.config import Roofline
from astrarium.design import Design
from astrarium.memory.config import Memory
from astrarium.network.config import Network, Switch
from astrarium.result import Result
from astrarium.result.intervals import Intervals
from astrarium.result.nodes import Work
from astrarium.simulate import simulate
from astrarium.synthesise import Example, Fidelity, examples_of_generated, fidelity
from astrarium.trace.work import Generated
from astrarium.workload.config import Trace

__all__ = ["COLUMNS", "Comparison", "compare", "summary", "yardstick"]

KINDS = (Work.COMPUTE, Work.COLLECTIVE)      # a receive is as long as it waits
COLUMNS = ("nodes", "tokens", "pairs", "degrees", "values", "durations", "overlap", "makespan", "nearest")
"""Errors of one comparison, all 0 for equal traces (`nearest` apart, which is 0 for a copy of an example)."""


class Comparison(Struct, frozen=True):
    """One pair of traces, worst of all stages: see Fidelity; `values` is the largest Kolmogorov-Smirnov distance of
    any attribute; `durations` the largest error of the simulated time of any kind of node (of kinds that take at least
    1 % of the run); `overlap` the difference of the shares of communication that computation hides; `makespan` the
    relative error, signed."""

    conditions: Mapping[str, float]
    nodes: float
    tokens: float
    pairs: float
    degrees: float
    values: float
    durations: float
    overlap: float
    makespan: float
    nearest: float
    kinds: Mapping[str, float]


def yardstick(conditions: Mapping[str, float]) -> Design:
    """The system that traces are compared on: servers of tp A100s (NVLink), 200 Gb/s per GPU between them."""
    tp, rest = int(conditions.get("tp", 1)), int(conditions.get("dp", 1) * conditions.get("pp", 1))
    dims = [Switch(tp, bandwidth="300 GB/s", latency="500 ns")] if tp > 1 else []
    dims += [Switch(rest, bandwidth="25 GB/s", latency="2 us")] if rest > 1 or not dims else []
    return Design(workload=Trace("synthetic"), compute=Roofline(peak="312 TFLOP/s"),
                  memory=Memory(capacity="80 GB", bandwidth="2039 GB/s"), network=Network(dims))


def compare(synthetic: Generated, real: Generated, conditions: Mapping[str, float],
            examples: Sequence[Example] = ()) -> Comparison:
    """Compares a synthetic trace with the real one of the same conditions; `examples` are some that were learned."""
    ours, theirs = (examples_of_generated(made, conditions) for made in (synthetic, real))
    found = [fidelity(a, b, examples) for a, b in zip(ours, theirs, strict=True)]
    runs = [simulate(yardstick(conditions), traces=made) for made in (synthetic, real)]
    kinds = [_times(run) for run in runs]
    span = float(runs[1].makespan_ps)
    errors = {kind: kinds[0].get(kind, 0.0) / time - 1 for kind, time in kinds[1].items() if time > span / 100}

    return Comparison(
        dict(conditions), max(abs(each.nodes - 1) for each in found), max(each.tokens for each in found),
        max(each.pairs for each in found), max(each.degrees for each in found), max(map(_distance, found)),
        max((abs(each) for each in errors.values()), default=0.0), _hidden(runs[0]) - _hidden(runs[1]),
        runs[0].makespan_ps / span - 1, min(each.nearest for each in found), errors)


def _distance(found: Fidelity) -> float:
    return max(found.values.values(), default=0.0)


def _times(run: Result) -> dict[str, float]:
    """Kind of work -> simulated ps of its nodes on a rank, the mean of all rows."""
    nodes, rows = run.nodes, len(run.outcome.finish)
    return {work.name.lower(): float((nodes.end - nodes.start)[nodes.work == work].sum()) / rows for work in KINDS}


def _hidden(run: Result) -> float:
    """Share of the time of collectives in which there is computation too, over all rows; 0 without collectives."""
    nodes = run.nodes
    spans = Intervals(nodes.row, nodes.start, nodes.end, len(run.outcome.finish))
    coll, comp = nodes.work == Work.COLLECTIVE, nodes.work == Work.COMPUTE
    total = float(spans.union(coll).sum())
    both = total + float(spans.union(comp).sum()) - float(spans.union(coll | comp).sum())
    return both / total if total else 0.0


def summary(found: Sequence[Comparison]) -> dict[str, dict[str, float]]:
    """Column -> median and worst of the absolute values (of `nearest`: the smallest)."""
    out = {}
    for name in COLUMNS:
        values = np.abs([float(getattr(each, name)) for each in found])
        out[name] = {"median": float(np.median(values)), "worst": float(values.min() if name == "nearest" else
                                                                         values.max())}
    return out
