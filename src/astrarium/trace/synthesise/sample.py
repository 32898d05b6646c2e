"""Drawing new traces from a model: an order, dependencies and sizes for conditions that no example had."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from astrarium.errors import InputError
from astrarium.trace.synthesise.examples import VALUES
from astrarium.trace.synthesise.learn import END, ORDER, Model, rest_of_run
from astrarium.trace.synthesise.regression import features, raw_features
from astrarium.trace.work import Generated, TraceClass
from astrarium.vocab import NodeKind

__all__ = ["sample", "sample_order"]

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
LONGER = 4096           # times the longest example: where an order that does not end is cut


def sample(model: Model, conditions: Mapping[str, float], *, seed: int = 0, jitter: bool = False) -> Generated:
    """A valid trace of `tp * dp` ranks for `conditions` (all that the model names, `ranks` aside).

    Every node waits for earlier ones only. `jitter` draws sizes from the residuals of the fit, else they are its
    centre. InputError for a condition that is missing.
    """
    ranks = int(conditions.get("tp", 1)) * int(conditions.get("dp", 1))
    known = {**conditions, "ranks": float(ranks)}
    missing = [name for name in model.names if name not in known]
    if missing:
        raise InputError("synthesise", f"no value for {missing[0]!r}", expected=", ".join(model.names))
    token = sample_order(model, known)
    rng = np.random.Generator(np.random.PCG64(seed)) if jitter else None
    values = _values(model, known, token, rng)
    ptr, parent = _parents(model, known, token)
    order = _soon(np.array([each.role == "dp" for each in model.tokens], np.bool_)[token], ptr, parent)
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    counts = np.diff(ptr)[order]
    edges = np.repeat(ptr[order], counts) + np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    fresh = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return _generated(model, known, token[order], values[order], fresh, place[parent[edges]], ranks)


def _soon(side: npt.NDArray[np.bool_], ptr: I64, parent: I64) -> I64:
    """The order in which nodes of `side`, learned as late as can be, come right after the last that they wait for:
    among ready nodes the lowest id goes first."""
    key = np.arange(side.size, dtype=np.float64)
    for node in np.flatnonzero(side).tolist():
        before = parent[ptr[node]:ptr[node + 1]]
        if before.size:
            key[node] = key[before].max() + 0.25
    return np.lexsort((np.arange(side.size), key)).astype(np.int64)


def sample_order(model: Model, conditions: Mapping[str, float]) -> I64:
    """[nodes] the tokens in order: at a branch every token is taken as often in a row as its run says, in turn."""
    x = raw_features([conditions], model.names)[0]
    plans = {state: _plan(branch.follow, [None if fit is None else round(float(x @ fit.weight)) for fit in branch.runs])
             for state, branch in model.branches.items()}
    numbers = {state: at for at, state in enumerate(plans)}
    listed = list(plans.values())
    onward = [{token: numbers.get((*state[-ORDER + 1:], token), -1) for token, _ in plan}
              for state, plan in plans.items()]
    place, left = [0] * len(listed), [plan[0][1] for plan in listed]
    out: list[int] = []
    at, most = numbers[()], LONGER * model.longest
    while len(out) < most:
        plan = listed[at]
        if len(plan) > 1:
            while not left[at]:
                place[at] = (place[at] + 1) % len(plan)
                left[at] = plan[place[at]][1]
            left[at] -= 1
        token = plan[place[at]][0]
        if token == END:
            break
        out.append(token)
        at = onward[at][token]
        if at < 0:
            break
    return np.array(out, np.int64)


def _plan(follow: tuple[int, ...], runs: list[int | None]) -> list[tuple[int, int]]:
    """(token, times in a row) in turn, without those of no run; never empty."""
    plan = [(token, max(0, 1 if run is None else run)) for token, run in zip(follow, runs, strict=True)]
    kept = [each for each in plan if each[1]]
    return kept or [(follow[0], 1)]


def _values(model: Model, conditions: Mapping[str, float], token: I64, rng: np.random.Generator | None) -> F64:
    """[nodes, VALUES], NaN where an attribute is absent."""
    x = features([conditions], model.names)[0]
    out, counts = np.full((token.size, len(VALUES)), np.nan), np.bincount(token, minlength=len(model.tokens))
    for column, name in enumerate(VALUES):
        centre = np.full(len(model.tokens), np.nan)
        for kind in range(len(model.tokens)):
            size = model.sizes.get((kind, name))
            if size is not None:
                centre[kind] = 0.0 if size.fit is None else np.exp(min(float(x @ size.fit.weight), 41.0))
                centre[kind] /= max(1, counts[kind]) if size.total else 1
        out[:, column] = centre[token]
        if rng is not None:
            table = np.stack([np.zeros(10) if (size := model.sizes.get((kind, name))) is None or size.fit is None
                              else size.fit.residual for kind in range(len(model.tokens))])
            out[:, column] *= np.exp(table[token, rng.integers(0, 10, token.size)])
    return out


def _parents(model: Model, conditions: Mapping[str, float], token: I64) -> tuple[I64, I64]:
    """CSR of who waits for whom, by motifs; distances that reach before the beginning are left out."""
    x, rest = raw_features([conditions], model.names)[0], rest_of_run(token)
    order = np.argsort(token, kind="stable")
    kinds, begin = np.unique(token[order], return_index=True)
    at = dict(zip(kinds.tolist(), np.split(order, begin[1:]), strict=True))
    child, parent = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for kind, nodes in at.items():
        for motif in model.motifs.get(kind, ()):
            known = at.get(motif.parent)
            if known is None:
                continue
            before = np.asarray(np.searchsorted(known, nodes), np.int64)
            far = 0.0 if motif.spread is None else max(0.0, float(x @ motif.spread.weight))
            for back in motif.back:
                steps = back + np.floor(far * rest[nodes]).astype(np.int64)
                good = before >= steps
                child.append(nodes[good])
                parent.append(known[before[good] - steps[good]])
    pairs = np.unique(np.concatenate(child) * max(1, token.size) + np.concatenate(parent))
    size = max(1, token.size)
    return np.concatenate([[0], np.cumsum(np.bincount(pairs // size, minlength=token.size))]).astype(np.int64), \
        pairs % size


def _generated(model: Model, conditions: Mapping[str, float], token: I64, values: F64, ptr: I64, parent: I64,
               ranks: int) -> Generated:
    kind = np.array([each.kind for each in model.tokens], np.uint8)[token]
    comm = np.flatnonzero(kind == NodeKind.COMM_COLL)
    tp = int(conditions.get("tp", 1))
    every = np.arange(ranks, dtype=np.int32)
    groups = [every[each:each + tp] for each in range(0, ranks, tp)] + [every[each::tp] for each in range(tp)]
    index = {"all": np.full(ranks, -1, np.int32), "tp": every // tp, "dp": ranks // tp + every % tp}
    roles = sorted({model.tokens[each].role for each in set(token[comm].tolist())})
    slots = np.array([roles.index(model.tokens[each].role) if each in set(token[comm].tolist()) else 0
                      for each in range(len(model.tokens))], np.int32)
    table = (np.stack([index[role] for role in roles], axis=1) if roles else np.zeros((ranks, 0), np.int32)).astype(
        np.int32)
    slot = np.arange(comm.size, dtype=np.int32)
    whole = np.nan_to_num(np.rint(values))
    trace = TraceClass(
        ranks=every, node_id=np.arange(token.size, dtype=np.uint64), type=kind,
        is_cpu=np.array([each.host for each in model.tokens], np.bool_)[token],
        duration_us=whole[:, 0].astype(np.uint64), num_ops=np.rint(values[:, 1]),
        tensor_size=whole[:, 2].astype(np.uint64),
        comm_type=np.array([each.op for each in model.tokens], np.int32)[token], comm_size=whole[:, 3].astype(np.int64),
        involved=np.full(token.size, -1, np.int32), priority=np.zeros(token.size, np.int32), parent_ptr=ptr,
        parent=parent.astype(np.int32), slot_a=np.full((ranks, comm.size), -1, np.int32),
        slot_b=table[:, slots[token[comm]]], slot=slot,
        names=lambda node: model.tokens[int(token[node])].name.replace("#", "0"))
    return Generated((trace,), tuple(groups), tuple(str(each) for each in range(1, len(groups) + 1)), (None,))
