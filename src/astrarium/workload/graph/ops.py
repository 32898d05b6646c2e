"""Operator kinds: what each costs, what it keeps for backward, and its gradients as operators again."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from msgspec import Struct

from astrarium.errors import InternalError
from astrarium.workload.graph.amount import largest
from astrarium.workload.graph.ir import Cost, Costs, Measures, Op, Use

__all__ = ["KINDS", "Kind", "gradient", "looked_up"]

SOFTMAX = 5.0       # FLOPs per score: scale, subtract the maximum, exponential, sum, divide


def gradient(tensor: str) -> str:
    """Name of the gradient of a tensor."""
    return "d." + tensor


def _d(use: Use) -> Use:
    return Use(gradient(use.tensor), use.dims)


def _gemm_cost(op: Op, layout: Measures) -> Cost:
    union = [dim for dim in dict.fromkeys(op.inputs[0].dims + op.inputs[1].dims) if dim not in op.along]
    product = 2.0 * math.prod(layout.local(dim) for dim in union) * op.work
    biased = op.outputs[0].dims if len(op.inputs) > 2 else op.inputs[1].dims if len(op.outputs) > 1 else ()
    return Cost(product + (layout.elements(biased) if biased else 0.0), product)


def _gemm_gradients(op: Op, wanted: Collection[str]) -> list[Op]:
    """dX = dY W^T and dW = X^T dY, with a bias's gradient, a sum over dY, in the second's kernel."""
    left, right, *bias = op.inputs
    dy = _d(op.outputs[0])
    found = []
    if left.tensor in wanted and not op.stops:
        found.append(op._replace(name=f"{op.name}.d_{left.tensor}", inputs=(right, dy), outputs=(_d(left),)))
    if right.tensor in wanted:
        offsets = tuple(_d(each) for each in bias)
        found.append(op._replace(name=f"{op.name}.d_{right.tensor}", inputs=(left, dy), outputs=(_d(right), *offsets)))
    return found


def _point_cost(op: Op, layout: Measures) -> Cost:
    uses = [use for use in (*op.inputs, *op.outputs) if op.per in ("", use.tensor)]
    return Cost(op.factor * largest(*[layout.elements(use.dims) for use in uses]))


def _point_gradients(op: Op, wanted: Collection[str]) -> list[Op]:
    """One pass over what was kept and dY, at twice the FLOPs of forward (value and derivative)."""
    kept = {"inputs": op.inputs, "outputs": op.outputs}.get(op.saves, ())
    weights = tuple(use for use in op.inputs if use not in kept and use.tensor in wanted and len(use.dims) == 1)
    targets = tuple(_d(use) for use in op.inputs if use.tensor in wanted)
    if not targets:
        return []
    reads = (*(_d(use) for use in op.outputs), *dict.fromkeys((*kept, *weights)))
    return [op._replace(name=f"{op.name}.d", inputs=reads, outputs=targets, factor=2 * op.factor)]


def _view_gradients(op: Op, wanted: Collection[str]) -> list[Op]:
    """The gradient of a copy into another order is a view of that of the copy."""
    del wanted
    return [op._replace(name=f"{op.name}.d", kind="views", inputs=(_d(op.outputs[0]),), outputs=(_d(op.inputs[0]),))]


def _cat_gradients(op: Op, wanted: Collection[str]) -> list[Op]:
    """The gradient of parts that are views: one copy of all."""
    del wanted
    return [op._replace(name=f"{op.name}.d", kind="point", factor=0.0, inputs=tuple(_d(use) for use in op.outputs),
                        outputs=(_d(op.inputs[0]),))]


def _attention_cost(op: Op, layout: Measures) -> Cost:
    """QK^T and AV (2 FLOPs a multiply-add) and the softmax; a ring sees the keys of all its ranks."""
    q, k, v = op.inputs[:3]
    scores = layout.elements(q.dims[:3]) * layout.local(k.dims[1]) * op.work
    if op.ring:
        scores *= layout.degree((op.ring,))
    product = 2.0 * scores * (layout.local(q.dims[3]) + layout.local(v.dims[3]))
    return Cost(product + (SOFTMAX + len(op.inputs) - 3) * scores, product)


def _attention_gradients(op: Op, wanted: Collection[str]) -> list[Op]:
    """One kernel: scores again, then dV, dP, dQ, dK: five products for forward's two (FlashAttention-2, section 3)."""
    reads = (*op.inputs, op.outputs[0], _d(op.outputs[0]))
    return [op._replace(name=f"{op.name}.d", kind="attention_backward", inputs=reads,
                    outputs=tuple(_d(use) for use in op.inputs if use.tensor in wanted))]


def _attention_backward_cost(op: Op, layout: Measures) -> Cost:
    q, k, v = op.inputs[:3]
    scores = layout.elements(q.dims[:3]) * layout.local(k.dims[1]) * op.work
    if op.ring:
        scores *= layout.degree((op.ring,))
    e, f = layout.local(q.dims[3]), layout.local(v.dims[3])
    product = 2.0 * scores * (3 * e + 2 * f)
    return Cost(product + 2 * SOFTMAX * scores, product)


def _add_cost(op: Op, layout: Measures) -> Cost:
    return Cost(layout.elements(op.outputs[0].dims) * (len(op.inputs) - 1))


def _scan_cost(op: Op, layout: Measures) -> Cost:
    return _costs(op).forward(op, layout)


def _scan_gradients(op: Op, wanted: Collection[str]) -> list[Op]:
    """One kernel."""
    return [op._replace(name=f"{op.name}.d", kind="scan_backward", inputs=(*op.inputs, _d(op.outputs[0])),
                    outputs=tuple(_d(use) for use in op.inputs if use.tensor in wanted))]


def _scan_backward_cost(op: Op, layout: Measures) -> Cost:
    return _costs(op).backward(op, layout)


def _costs(op: Op) -> Costs:
    if op.costs is None:
        raise InternalError(f"{op.name}: a scan without costs")
    return op.costs


def _append_cost(op: Op, layout: Measures) -> Cost:
    del op, layout
    return Cost(0.0)


def looked_up(index: Use, rows: Use, layout: Measures) -> float:
    """Rows that a look-up touches, over the rows that come out: above 1 where bags of rows are summed."""
    return layout.elements(index.dims) * layout.local(rows.dims[-1]) / layout.elements(rows.dims)


def _gather_cost(op: Op, layout: Measures) -> Cost:
    out = op.outputs[0]
    return Cost(layout.elements(out.dims) * (looked_up(op.inputs[0], out, layout) - 1.0))


def _gather_gradients(op: Op, wanted: Collection[str]) -> list[Op]:
    """Rows of dY added to rows of the table's gradient."""
    index, table = op.inputs
    if table.tensor not in wanted:
        return []
    return [op._replace(name=f"{op.name}.d_{table.tensor}", kind="scatter", inputs=(index, _d(op.outputs[0])),
                    outputs=(_d(table),))]


def _scatter_cost(op: Op, layout: Measures) -> Cost:
    return Cost(layout.elements(op.inputs[1].dims) * looked_up(op.inputs[0], op.inputs[1], layout))


def _no_gradients(op: Op, wanted: Collection[str]) -> list[Op]:
    del wanted
    raise InternalError(f"{op.kind} is not differentiated")


class Kind(Struct, frozen=True):
    """One kind of operator. `pointwise`: may share a kernel with its pointwise neighbours."""

    cost: Callable[[Op, Measures], Cost]
    gradients: Callable[[Op, Collection[str]], list[Op]]
    pointwise: bool = False


KINDS: Mapping[str, Kind] = MappingProxyType({
    "gemm": Kind(_gemm_cost, _gemm_gradients),
    "point": Kind(_point_cost, _point_gradients, pointwise=True),
    "add": Kind(_add_cost, _no_gradients, pointwise=True),      # its gradients are dY itself
    "copy": Kind(_add_cost, _view_gradients),
    "views": Kind(_append_cost, _cat_gradients),
    "attention": Kind(_attention_cost, _attention_gradients),
    "attention_backward": Kind(_attention_backward_cost, _no_gradients),
    "scan": Kind(_scan_cost, _scan_gradients),
    "scan_backward": Kind(_scan_backward_cost, _no_gradients),
    "append": Kind(_append_cost, _no_gradients, pointwise=True),
    "gather": Kind(_gather_cost, _gather_gradients),
    "scatter": Kind(_scatter_cost, _no_gradients),
})
