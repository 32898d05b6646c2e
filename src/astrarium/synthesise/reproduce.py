"""Whether a model gives back what it learned from: the least that can be asked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64, I64
from astrarium.errors import InputError
from astrarium.synthesise.examples import VALUES, Example, values_of
from astrarium.synthesise.learn import Model
from astrarium.synthesise.sample import sample
from astrarium.trace.work import TraceClass
from astrarium.vocab import CommOp, NodeKind

__all__ = ["Reproduction", "reproduced"]

Totals = dict[tuple[str, str], float]
TRIED = 12
SMALL = 0.001       # share of all of a value below which a kind of node does not count


class Reproduction(Struct, frozen=True):
    """Errors of `tried` traces that were drawn at learned conditions: how far totals are from the example's (0.1:
    10 %; inf: nothing can be drawn): the `median` of the worst total of each, and the worst of all, `error`, of the
    total `what` at `conditions`."""

    tried: int
    median: float
    error: float
    what: str
    conditions: Mapping[str, float]


def reproduced(model: Model, examples: Sequence[Example]) -> Reproduction:
    """Draws up to TRIED of the examples' conditions, spread over all of them, and compares totals by kind of node."""
    stages: dict[tuple[tuple[str, float], ...], dict[float, Example]] = {}
    for each in examples:
        known = tuple((name, value) for name, value in each.conditions.items() if name != "stage")
        stages.setdefault(known, {})[each.conditions.get("stage", 0.0)] = each
    every = list(stages)
    chosen = [every[at] for at in np.unique(np.linspace(0, len(every) - 1, TRIED).astype(np.int64)).tolist()]
    found = [(*_worst(model, dict(key), stages[key]), dict(key)) for key in chosen]
    error, what, conditions = max(found, key=lambda each: each[0])
    return Reproduction(len(chosen), float(np.median([each[0] for each in found])), error, what, conditions)


def _worst(model: Model, conditions: Mapping[str, float], stages: Mapping[float, Example]) -> tuple[float, str]:
    try:
        made = sample(model, conditions)
    except InputError as error:
        return float("inf"), str(error)
    found = [(0.0, "nodes")]
    for stage, trace in enumerate(made.classes):        # one class per stage
        real = stages.get(float(stage))
        if real is not None:
            ours, theirs = _drawn_totals(trace), _totals(real)
            most = {value: max(abs(total) for (_, of), total in theirs.items() if of == value) for _, value in theirs}
            found += [(abs(ours.get(key, 0.0) - total) / abs(total), f"{key[1]} of {key[0]}")
                      for key, total in theirs.items() if abs(total) > SMALL * most[key[1]]]
    return max(found)


def _totals(trace: Example) -> Totals:
    kinds = np.array([each.kind for each in trace.tokens], np.int64)
    ops = np.array([each.op for each in trace.tokens], np.int64)
    return _added(kinds[trace.token], ops[trace.token], trace.values)


def _drawn_totals(trace: TraceClass) -> Totals:
    coll = trace.type == NodeKind.COMM_COLL
    return _added(trace.type.astype(np.int64), np.where(coll, trace.comm_type, -1), values_of(trace))


def _added(kinds: I64, ops: I64, values: F64) -> Totals:
    """(kind of node, "nodes" or a value) -> the sum; collectives by operation."""
    found: Totals = {}
    pairs = [(kind, op) for kind in np.unique(kinds).tolist() for op in np.unique(ops[kinds == kind]).tolist()]
    for kind, op in pairs:
        mine = (kinds == kind) & (ops == op)
        name = CommOp(op).name.lower() if kind == NodeKind.COMM_COLL and op in set(CommOp) else _kind(kind)
        for value, total in (("nodes", float(mine.sum())), *((value, float(np.nansum(values[mine, column])))
                                                             for column, value in enumerate(VALUES))):
            found[name, value] = found.get((name, value), 0.0) + total
    return {key: total for key, total in found.items() if total}


def _kind(number: int) -> str:
    return NodeKind(number).name.lower() if number in set(NodeKind) else f"type {number}"
