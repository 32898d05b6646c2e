"""What runs a step on a GPU: the kind, precision and shape of every operator's kernel."""

from __future__ import annotations

from collections.abc import Sequence

from astrarium.workload.graph.amount import largest
from astrarium.workload.graph.ir import Block, Measures, Op, Use, base
from astrarium.workload.pieces import Numbers, Sketch

__all__ = ["kernel_of", "merged", "role_of"]

_KINDS = {"scan": "scan", "scan_backward": "scan", "gather": "embedding", "scatter": "embedding"}
_ROWS = ("norm", "softmax")     # an operator with one of these in its name reduces over rows
_ROWWISE = ("rms_norm", "layer_norm", "rms_norm_backward", "layer_norm_backward", "sum_rows", "embedding_backward")
_SPREAD = ("heads", "m_heads", "experts")
"""Dims that make a product a batch where fewer of the other operand ride along."""


_PLAIN = ("vocab", "experts.router", "gate", "mixes", "mixes.head")     # dims of matrices that no checkpoint quantises


def role_of(weight: str, block: Block) -> str:
    """What stores a weight of a block: `experts`, `attention` or `weights` (other matrices of products, which formats
    quantise), or `plain` (tables, heads, routers, norms and offsets)."""
    if weight in block.experts:
        return "experts"
    if weight not in block.matrices or set(_PLAIN).intersection(block.weights[weight]):
        return "plain"
    return "attention" if weight in block.attention else "weights"


def kernel_of(op: Op, block: Block, layout: Measures, numbers: Numbers) -> Sketch:
    """The kernel that runs one operator on a rank; sizes may be amounts."""
    if op.kind == "gemm" and not op.packed and base(op.outputs[0].dims[-1]) == "pairs":
        return _scored(op, layout, numbers)
    if op.kind == "gemm":
        return _packed(op, block, layout, numbers) if op.packed else _product(op, block, layout, numbers)
    if op.kind in ("attention", "attention_backward"):
        return _attention(op, block, layout, numbers)
    if op.kind == "scan" and op.costs is not None and op.costs.shape is not None:
        return Sketch("scan", numbers.vector, op.costs.shape(op, layout))
    kind = _KINDS.get(op.kind) or ("normalisation" if any(word in op.name for word in _ROWS) else "pointwise")
    return Sketch(kind, numbers.vector, _rows(op, layout), op=op.stream)


def _rows(op: Op, layout: Measures) -> tuple[float, ...]:
    """(rows, columns) of an operator of PyTorch whose time depends on them; else nothing."""
    if op.stream not in _ROWWISE:
        return ()
    dims = max((use.dims for use in op.inputs), key=len)
    columns = layout.elements(op.outputs[0].dims if op.stream == "sum_rows" else dims[-1:])
    return layout.elements(dims) / columns, columns


def _product(op: Op, block: Block, layout: Measures, numbers: Numbers) -> Sketch:
    """(batch, m, n, k), m along the result's leading dims; (groups, rows of all groups, n, k) where experts have
    matrices of their own."""
    left, right, out = op.inputs[0], op.inputs[1], op.outputs[0]
    spread = _SPREAD if op.along else ()
    batch = tuple(dim for dim in out.dims if (dim in left.dims and dim in right.dims)
                  or (dim in left.dims + right.dims and base(dim) in spread))
    inner = tuple(dim for dim in left.dims if dim in right.dims and dim not in batch)
    own = (_only(left, right, batch, op), _only(right, left, batch, op))
    leading = next((dim for dim in out.dims if dim not in batch), "")
    if leading in own[1]:
        left, right, own = right, left, own[::-1]
    groups, m, n, k = (layout.elements(dims) for dims in (batch, *own, inner))
    names = {use.tensor.removeprefix("d.") for use in (left, right, out)}
    precision, held = numbers.vector, ""
    roles = {role_of(name, block) for name in names & block.weights.keys()}     # `batch`: absorbed matrices, unpacked
    if "experts" in roles:
        precision, held = numbers.experts, numbers.expert_weights
    elif "attention" in roles and not batch:
        precision, held = numbers.attention or (numbers.product, numbers.weights)
    elif "weights" in roles and not batch and "stats" not in map(block.widths.get, names):
        precision, held = numbers.product, numbers.weights
    operands, held = (left.tensor, right.tensor, out.tensor), held if right.tensor in block.weights else ""
    if names & block.experts:
        return Sketch("grouped_gemm", precision, (groups, groups * m, n, k), op.work, operands=operands, held=held,
                      spread=op.spread, op=_pass_of(op, block))
    count = op.sequences
    if count > 1:       # packed into one: a product for each
        groups, m, n = groups * count, m / count, n / count
    return Sketch("gemm", precision, (groups, m, n, k), op.work * count, operands=operands, held=held,
                  op=_pass_of(op, block))


def _pass_of(op: Op, block: Block) -> str:
    """What a product with a weight makes: the gradient of its activation or of the weight; "": neither."""
    gradients = [use.tensor.removeprefix("d.") for use in op.outputs if use.tensor.startswith("d.")]
    if gradients and gradients[0] in block.weights:
        return "wgrad"
    return "dgrad" if gradients and op.inputs[0].tensor in block.weights else ""


def _scored(op: Op, layout: Measures, numbers: Numbers) -> Sketch:
    """Scores of queries' heads with one key each, summed over the heads: attention without values."""
    q, k, count = op.inputs[0], op.inputs[1], op.sequences
    batch, queries, heads, size = (layout.local(dim) for dim in q.dims)
    shape = batch * count, heads, 1, queries / count, layout.local(k.dims[1]) / count, size, 0
    return Sketch("attention", numbers.vector, shape, op.work * count)


def _cached(use: Use, block: Block, numbers: Numbers) -> tuple[str, str]:
    """(format in which a kernel computes, format that memory holds) of scores with keys, or of values. Those of a new
    prompt are written to the cache first, and read there; latents are expanded."""
    cached = use.tensor in block.states or (block.states and any(base(dim) == "kv_heads" for dim in use.dims))
    return (numbers.cached, numbers.keys) if cached else (numbers.vector, "")


def _packed(op: Op, block: Block, layout: Measures, numbers: Numbers) -> Sketch:
    """Scores of sequences that are packed into one, or what they are mixed with: one product for each head and
    sequence, of the mean length."""
    left, right, out = op.inputs[0], op.inputs[1], op.outputs[0]
    scores = len(out.dims) < len(left.dims)     # pairs in the place of rows and sizes
    batch, rows, heads, size = (layout.local(dim) for dim in (left if scores else out).dims)
    keys, count = layout.local(right.dims[1]), op.sequences
    inner = (keys / count, size) if scores else (size, keys / count)
    precision, held = _cached(right, block, numbers)
    return Sketch("gemm", precision, (batch * heads * count, rows / count, *inner), op.packed * count, held=held)


def _only(use: Use, other: Use, batch: Sequence[str], op: Op) -> tuple[str, ...]:
    return tuple(dim for dim in use.dims if dim not in other.dims and dim not in batch and dim not in op.along)


def _attention(op: Op, block: Block, layout: Measures, numbers: Numbers) -> Sketch:
    """Sequences that are packed into one are a batch of their mean length. Latents that are keys and values at once
    make it `mla`."""
    q, k, v = op.inputs[:3]
    batch, queries, heads, size = (layout.local(dim) for dim in q.dims)
    count = op.sequences
    padded = largest(1.0, op.work * count)      # rows of a tile without queries of their own
    shape = (batch * count, heads, layout.local(k.dims[2]), queries / count * padded, layout.local(k.dims[1]) / count,
             size, layout.local(v.dims[3]))
    precision, held = _cached(k, block, numbers)
    return Sketch("mla" if k.tensor == v.tensor else op.kind, precision, shape, op.work * count / padded, held=held)


def merged(one: Sketch, other: Sketch, *, layer: bool = False) -> Sketch:
    """The kernel that does the work of two. Products of one operand become one product, both of a layer of experts
    (`layer`) the kernel of that; others stay two launches, under the shape of the first."""
    if not (one.operands and other.operands):
        chosen = one if one.operands or one.kind == "normalisation" else other
        return chosen._replace(launches=one.launches)
    batch, m, n, k = one.shape
    (left, right, out), (left2, right2, out2) = one.operands, other.operands
    if layer and left != left2:
        ranks, skew, most = one.spread      # a measured layer has the mean rows, and its time is the busiest rank's
        return one._replace(shape=(batch, m / most if most != 1 else m, n, k, other.shape[3], ranks, skew))
    if left == left2:
        shape = batch, m, n + other.shape[2], k
    elif right == right2:
        shape = batch, m + other.shape[1], n, k
    elif out == out2:
        shape = batch, m, n, k + other.shape[3]
    else:
        return one._replace(launches=one.launches + other.launches)
    return one._replace(shape=shape)
