"""Whether a model gives back what it learned from: the least that can be asked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from astrarium.errors import InputError
from astrarium.trace.synthesise.examples import VALUES, Example, examples_of_generated
from astrarium.trace.synthesise.learn import Model
from astrarium.trace.synthesise.sample import sample
from astrarium.vocab import CommOp, NodeKind

__all__ = ["Reproduction", "reproduced"]

TRIED = 12
SMALL = 0.001       # share of all of a value below which a kind of node does not count


@dataclass(frozen=True)
class Reproduction:
    """Of `tried` traces that were drawn at conditions that were learned, how far totals are from the example's (0.1:
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
        made = examples_of_generated(sample(model, conditions), conditions)
    except InputError as error:
        return float("inf"), str(error)
    found = [(0.0, "nodes")]
    for each in made:
        real = stages.get(each.conditions["stage"])
        if real is not None:
            ours, theirs = _totals(each), _totals(real)
            most = {value: max(abs(total) for (_, of), total in theirs.items() if of == value) for _, value in theirs}
            found += [(abs(ours.get(key, 0.0) - total) / abs(total), f"{key[1]} of {key[0]}")
                      for key, total in theirs.items() if abs(total) > SMALL * most[key[1]]]
    return max(found)


def _totals(trace: Example) -> dict[tuple[str, str], float]:
    """(kind of node, "nodes" or a value) -> the sum; collectives by operation."""
    found: dict[tuple[str, str], float] = {}
    for token in np.unique(trace.token).tolist():
        told = trace.tokens[token]
        coll = told.kind == NodeKind.COMM_COLL
        kind = CommOp(told.op).name.lower() if coll and told.op in set(CommOp) else _kind(told.kind)
        rows = trace.values[trace.token == token]
        for name, total in (("nodes", float(len(rows))), *zip(VALUES, np.nansum(rows, axis=0).tolist(), strict=True)):
            found[kind, name] = found.get((kind, name), 0.0) + total
    return {key: total for key, total in found.items() if total}


def _kind(number: int) -> str:
    return NodeKind(number).name.lower() if number in set(NodeKind) else f"type {number}"
