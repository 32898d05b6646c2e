"""What PyTorch launches for the operators of a model, eager or in blocks that `torch.compile` compiled.

`in_torch` rewrites a block where PyTorch's operators keep other tensors for backward, `launched` gives the kernels of
an operator that is not one kernel. From PyTorch 2.11 (derivatives.yaml; CUDA kernels of aten/src/ATen/native), and
checked against the kernels of a recorded step:

| operator | forward | backward | kept |
|---|---|---|---|
| linear | product (a bias in its epilogue) | two products; a bias: sum over rows | input |
| q, k, v of one weight (`fused_qkv`) | one product; its parts are views | cat | input |
| rms_norm, layer_norm | one | grad_input; gamma and beta | input, statistics |
| rotary position, of halves | mul, mul, sub, mul, mul, add, cat | mul, mul, neg, mul, add, mul, add, cat, copy | - |
| scaled_dot_product_attention | one; behind rotary positions a copy | one | q, k, v, result, statistics; the copy |
| silu(gate) * up | silu, mul | mul, mul, silu_backward | gate, silu(gate), up |
| gelu | one | gelu_backward | input |
| residual add | add | - | - |
| a tensor that several operators read | - | an add for every one but the first | - |
| embedding | gather | fill, sort of indexes, sums of segments, scatter; tied: add | indexes |
| cross entropy in fp32 | see `parts.loss` (`cross_entropy: eager`) | | log softmax |

A compiled block has one kernel for a rotary position, for silu and mul, and for a norm with its elementwise neighbours
(Inductor fuses pointwise operators and reductions, not products). Sums of gradients are part of what reads them, and
silu(gate) is computed again: the partitioner keeps what products read and computes pointwise operators again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

from msgspec.structs import replace

from astrarium.workload.graph.ir import Block, Op, Use, base
from astrarium.workload.graph.layout import Size

__all__ = ["HALF", "halves", "in_torch", "joined_axes", "joined_sizes", "launched"]

HALF = ".half"          # the dim of half a head that rotary positions turn
QKV = "heads.qkv"       # heads of queries, keys and values together
TIED = "tied"           # marks a look-up whose table has another gradient
SORTS = 20              # kernels that sort indexes and find their segments (embedding_dense_backward, radix sort)


def in_torch(block: Block, *, compiled: bool, fused_qkv: bool, tied: Collection[str] = ()) -> Block:
    """The block in operators of PyTorch. `tied`: its tables that a later block uses, too, and makes a gradient of."""
    if fused_qkv:
        block = _with_one_weight(block)
    ops: list[Op] = []
    tokens: dict[str, str] = {}
    for op in (_renamed(each, tokens) for each in block.ops):
        if op.kind == "attention" and any(_turns(each) for each in block.ops):
            ops += _with_copy(op)
            tokens[op.outputs[0].tensor] = ops[-1].outputs[0].tensor
        elif op.name.endswith("activation") and len(op.inputs) == 2 and not compiled:
            ops += _with_gate(op)
        else:
            ops.append(op._replace(fused=TIED) if op.kind == "gather" and op.inputs[1].tensor in tied else op)
    return block.with_ops(ops)


def _renamed(op: Op, names: Mapping[str, str]) -> Op:
    """The operator, which reads tensors by their new names."""
    return op._replace(inputs=tuple(use._replace(tensor=names.get(use.tensor, use.tensor)) for use in op.inputs))


def _with_copy(op: Op) -> list[Op]:
    """Attention's result lies as its queries do, and `cat` leaves these by heads, then tokens; what follows reads
    tokens, then heads. Queries as a product gives them need no copy."""
    out = op.outputs[0]
    return [op, Op(f"{op.name}_tokens", "copy", (out,), (Use(f"{out.tensor}_tokens", out.dims),), saves="nothing")]


def _with_gate(op: Op) -> list[Op]:
    """silu(gate), and its product with the other half."""
    gate, up = op.inputs
    turned = Use(f"{gate.tensor}_active", gate.dims)
    return [op._replace(inputs=(gate,), outputs=(turned,), factor=op.factor - 1),
            op._replace(name=f"{op.name}_mul", inputs=(turned, up), factor=1.0)]


def _with_one_weight(block: Block) -> Block:
    """Queries, keys and values made by one product, of which they are views; as before where their heads differ."""
    made = {op.name: op for op in block.ops if op.name in ("q", "k", "v") and op.kind == "gemm"}
    if len(made) != 3 or len({(op.inputs[0], len(op.inputs), op.outputs[0].dims[-1]) for op in made.values()}) > 1:
        return block
    first = made["q"]
    size = first.outputs[0].dims[-1]
    uses = [Use("wqkv", (first.inputs[1].dims[0], QKV, size))]
    uses += [Use("bqkv", (QKV, size))] if len(first.inputs) > 2 else []
    out = Use("qkv", (*first.outputs[0].dims[:2], QKV, size))
    product = first._replace(name="qkv", inputs=(first.inputs[0], *uses), outputs=(out,))
    parts = Op("qkv_parts", "views", (out,), tuple(made[name].outputs[0] for name in made), saves="nothing")
    ops = [each for op in block.ops for each in (
        [product, parts] if op.name == "q" else [] if op.name in made else [op])]
    gone = {use.tensor for op in made.values() for use in op.inputs[1:]}
    weights = {**{use.tensor: use.dims for use in uses},
               **{name: dims for name, dims in block.weights.items() if name not in gone}}
    return replace(block, ops=tuple(ops), weights=MappingProxyType(weights),
                   attention=block.attention - gone | {use.tensor for use in uses} if block.attention else frozenset())


def halves(blocks: Sequence[Block], sizes: Mapping[str, Size]) -> dict[str, Size]:
    """Sizes of the halves of heads that rotary positions of some blocks turn."""
    found: dict[str, Size] = {}
    for op in (op for block in blocks for op in block.ops if _turns(op)):
        dim = op.outputs[0].dims[-1]
        whole = sizes[dim] if dim in sizes else sizes[base(dim)]
        found[dim + HALF] = whole / 2 if isinstance(whole, float) else Fraction(whole) / 2
    return found


def joined_sizes(blocks: Sequence[Block], sizes: Mapping[str, Size]) -> dict[str, Size]:
    """The size of `QKV` in blocks that have it."""
    parts = next((op for block in blocks for op in block.ops if op.kind == "views"), None)
    return {} if parts is None else {QKV: sum(sizes[use.dims[2]] for use in parts.outputs)}


def joined_axes(axes: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Axes of `QKV`: as of heads."""
    return {QKV: axes.get("heads", ())}


def _turns(op: Op) -> bool:
    return op.kind == "point" and op.name.startswith("rope_")


def launched(op: Op, compiled: bool) -> tuple[Op, ...]:
    """The kernels of an operator, in order. `compiled`: in a block that was compiled."""
    if op.kind == "gemm" and len(op.outputs) > 1:
        return _biased(op)
    if op.kind == "scatter":
        return _scattered(op)
    if op.name in ("target", "loss"):       # of the vocabulary one number a token
        token = op.outputs[0]
        return (op._replace(inputs=(Use("labels", token.dims), *(use for use in op.inputs if use.dims == token.dims))),)
    if op.kind == "point" and op.name.endswith(".d"):
        return next((make(op) for ends, make in _BACKWARD if ends(op.name) and not (compiled and make is _turned_back)),
                    (op,))
    return _turned(op) if _turns(op) and not compiled else (op,)


def _kernel(op: Op, name: str, inputs: Sequence[Use], outputs: Sequence[Use], flops: float = 1.0) -> Op:
    return op._replace(name=f"{op.name}.{name}", kind="point", inputs=tuple(inputs), outputs=tuple(outputs),
                       factor=flops, saves="nothing", per="")


def _half(use: Use, tensor: str = "") -> Use:
    return Use(tensor or use.tensor, (*use.dims[:-1], use.dims[-1] + HALF))


def _angles(use: Use, name: str) -> Use:
    return Use(name, (use.dims[1], use.dims[-1] + HALF))


def _turned(op: Op) -> tuple[Op, ...]:
    """(a cos - b sin, b cos + a sin) of halves a and b."""
    x, y = op.inputs[0], op.outputs[0]
    cos, sin, part = _angles(x, "cos"), _angles(x, "sin"), _half(x)
    a, b, c, d, low, high = (_half(x, f"{op.name}.{each}") for each in ("ac", "bs", "bc", "as", "low", "high"))
    return (_kernel(op, "mul", (part, cos), (a,)), _kernel(op, "mul", (part, sin), (b,)),
            _kernel(op, "sub", (a, b), (low,)), _kernel(op, "mul", (part, cos), (c,)),
            _kernel(op, "mul", (part, sin), (d,)), _kernel(op, "add", (c, d), (high,)),
            _kernel(op, "cat", (low, high), (y,), 0.0))


def _turned_back(op: Op) -> tuple[Op, ...]:
    dy, dx = op.inputs[0], op.outputs[0]
    cos, sin, part = _angles(dy, "cos"), _angles(dy, "sin"), _half(dy)
    b, a, n, s, c = (_half(dy, f"{op.name}.{each}") for each in ("as", "bc", "neg", "bs", "ac"))
    heads = Use(f"{op.name}.heads", dx.dims)
    return (_kernel(op, "mul", (part, sin), (b,)), _kernel(op, "mul", (part, cos), (a,)),
            _kernel(op, "neg", (part,), (n,)), _kernel(op, "mul", (n, sin), (s,)), _kernel(op, "add", (a, s), (a,)),
            _kernel(op, "mul", (part, cos), (c,)), _kernel(op, "add", (b, c), (b,)),
            _kernel(op, "cat", (a, b), (heads,), 0.0), _kernel(op, "copy", (heads,), (dx,), 0.0))


def _normed_back(op: Op) -> tuple[Op, ...]:
    """The gradient of the input; those of scale and offset, which read the same tensors again."""
    weights = tuple(use for use in op.outputs if len(use.dims) == 1)
    others = tuple(use for use in op.outputs if len(use.dims) > 1)
    if not weights or not others:
        return (op,)
    read = tuple(use for use in op.inputs if len(use.dims) > 1)
    return (_kernel(op, "input", op.inputs, others, op.factor), _kernel(op, "gamma", read, weights, op.factor / 2))


def _multiplied_back(op: Op) -> tuple[Op, ...]:
    dz, left, right = op.inputs
    return tuple(_kernel(op, "mul", (dz, other), (out,)) for other, out in zip((right, left), op.outputs, strict=True))


def _biased(op: Op) -> tuple[Op, ...]:
    """A weight's gradient, and the sum of dY over rows."""
    return (op._replace(outputs=op.outputs[:1]), _kernel(op, "sum", op.inputs[-1:], op.outputs[1:]))


def _scattered(op: Op) -> tuple[Op, ...]:
    """Zeros, sorted indexes, sums of the segments of one index, which go to its row."""
    index, dy = op.inputs
    order, sums = Use(f"{op.name}.order", index.dims), Use(f"{op.name}.sums", dy.dims)
    out = op.outputs[0]
    own = out._replace(tensor=f"{op.name}.own") if op.fused == TIED else out
    kernels = (_kernel(op, "fill", (index,), (own,), 0.0), *[_kernel(op, "sort", (index,), (order,), 0.0)] * SORTS,
               _kernel(op, "sums", (order, dy), (sums,)), op._replace(inputs=(order, sums), outputs=(own,)))
    return kernels if own == out else (*kernels, _kernel(op, "add", (own, out._replace(tensor="tied")), (out,)))


_BACKWARD: tuple[tuple[Callable[[str], bool], Callable[[Op], tuple[Op, ...]]], ...] = (
    (lambda name: name.startswith("rope_"), _turned_back),
    (lambda name: name.endswith("_mul.d"), _multiplied_back),
    (lambda name: "norm" in name, _normed_back))
"""Whether a gradient is of this table's operator, by its name -> its kernels."""
