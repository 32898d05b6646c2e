"""What PyTorch launches for the operators of a model, eager or in blocks that `torch.compile` compiled.

`in_torch` rewrites a block where PyTorch's operators keep other tensors for backward, and names the operator of PyTorch
that runs each (`Op.stream`); `launched` gives the kernels of an operator that is not one of them. From PyTorch 2.11
(derivatives.yaml; CUDA kernels of aten/src/ATen/native), and checked against the kernels of a recorded step:

| operator | forward | backward | kept |
|---|---|---|---|
| linear | product (a bias in its epilogue) | two products; a bias: sum over rows | input |
| q, k, v of one weight (`fused_qkv`), gate and up (`fused_gate`) | one product; its parts are views | cat | input |
| rms_norm, layer_norm | one (or see `torch_norm`) | grad_input, gamma and beta: one step here, as measured | input |
| rotary position | see `torch_rotary` | | - |
| scaled_dot_product_attention | one; behind rotary positions a copy | one | q, k, v, result, statistics; the copy |
| silu(gate) * up | silu, mul | mul, mul, silu_backward | gate, silu(gate), up |
| a row of the cache (inference) | copy | - | - |
| gelu | one | gelu_backward | input |
| residual add | add | - | - |
| a tensor that several operators read | - | an add for every one but the first | - |
| embedding | one | fill, sort, sums, scatter: one step here, as it is measured; tied: add | indexes |
| cross entropy in fp32 | to_fp32; log_softmax and nll_loss | fill and softmax backward; to_bf16 | log softmax |

A compiled block has one kernel for a rotary position, for silu and mul, and for a norm with its elementwise neighbours
(Inductor fuses pointwise operators and reductions, not products). Sums of gradients are part of what reads them, and
silu(gate) is computed again: the partitioner keeps what products read and computes pointwise operators again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

from msgspec.structs import replace

from astrarium.workload.graph import torch_loss, torch_norm, torch_rotary
from astrarium.workload.graph.autocast import autocast
from astrarium.workload.graph.ir import Block, Op, Use, base
from astrarium.workload.graph.layout import Size
from astrarium.workload.graph.torch_rotary import HALF, STRIDED, kernel
from astrarium.workload.pieces import Torch

__all__ = ["halves", "in_torch", "joined_axes", "joined_sizes", "launched"]

QKV = "heads.qkv"       # heads of queries, keys and values together
GATED = "ffn.gate_up"   # columns of gate and up together
TIED = "tied"           # marks a look-up whose table has another gradient
BACK: Mapping[str, str] = MappingProxyType({
    "rms_norm": "rms_norm_backward", "layer_norm": "layer_norm_backward", "silu": "silu_backward",
    "gelu": "gelu_backward", "logits_to_fp32": "to_bf16", "to_fp32": "to_bf16", "to_bf16": "to_fp32"})
"""Operator -> that of its gradient, which is one kernel, or one step."""


def in_torch(block: Block, form: Torch, *, compiled: bool, fused_qkv: bool, whole_loss: bool, fused_gate: bool = False,
             tied: Collection[str] = ()) -> Block:
    """The block in operators of PyTorch, of the forms that the program has. `whole_loss`: the vocabulary is on one
    rank; `tied`: its tables that a later block uses, too, and makes a gradient of."""
    if fused_qkv:
        block = _with_one_weight(block, ("q", "k", "v"), QKV)
    apart = block
    if fused_gate:
        block = _with_one_weight(block, ("up", "gate"), GATED)
    views = block is not apart
    if form.autocast:
        block = autocast(block)
    ops: list[Op] = []
    tokens: dict[str, str] = {}
    copied = form.rotary == "halves" and any(_turns(op) for op in block.ops)
    for op in (_renamed(each, tokens) for each in block.ops):
        if op.kind == "attention" and copied:
            ops += _with_copy(op)
            tokens[op.outputs[0].tensor] = ops[-1].outputs[0].tensor
        elif op.name.endswith("activation") and len(op.inputs) == 2 and not compiled:
            ops += _with_gate(op, views=views)
        elif op.name == "widen" and whole_loss:
            return block.with_ops([*ops, op._replace(stream="logits_to_fp32"), _entropy(op, block.ops[-1])])
        elif form.rms_norm == "operators" and not compiled and _stream(op, form) == "rms_norm":
            ops += torch_norm.in_operators(op, form.autocast)
        else:
            stream = op.stream or ("" if compiled else _stream(op, form))
            ops.append(op._replace(stream=stream, fused=TIED if op.inputs[-1].tensor in tied else op.fused))
    return block.with_ops(ops)


def _stream(op: Op, form: Torch) -> str:
    """The operator of PyTorch that runs one of the model's."""
    if _turns(op):
        return form.rotary
    if op.kind == "point" and "norm" in op.name:
        return "layer_norm" if sum(len(use.dims) == 1 for use in op.inputs) > 1 else "rms_norm"
    if op.kind == "point" and op.name.endswith("activation"):
        return "gelu"
    if op.name == torch_loss.SHARDED:
        return op.name
    return {"add": "add", "gather": "embedding", "views": "cat", "append": STRIDED}.get(op.kind, "")


def _renamed(op: Op, names: Mapping[str, str]) -> Op:
    """The operator, which reads tensors by their new names."""
    return op._replace(inputs=tuple(use._replace(tensor=names.get(use.tensor, use.tensor)) for use in op.inputs))


def _with_copy(op: Op) -> list[Op]:
    """Attention's result lies as its queries do, and `cat` leaves these by heads, then tokens; what follows reads
    tokens, then heads. Queries as a product gives them need no copy."""
    out = op.outputs[0]
    return [op, Op(f"{op.name}_tokens", "copy", (out,), (Use(f"{out.tensor}_tokens", out.dims),), saves="nothing",
                   stream="transpose_copy")]


def _with_gate(op: Op, *, views: bool) -> list[Op]:
    """silu(gate), and its product with the other half; of `views` of one product neither has rows without gaps."""
    gate, up = op.inputs
    turned = Use(f"{gate.tensor}_active", gate.dims)
    return [op._replace(inputs=(gate,), outputs=(turned,), factor=op.factor - 1, stream=STRIDED if views else "silu"),
            op._replace(name=f"{op.name}_mul", inputs=(turned, up), factor=1.0, stream=STRIDED if views else "mul")]


def _entropy(widen: Op, last: Op) -> Op:
    """The loss from logits in fp32: `log_softmax`, which is kept, and `nll_loss`."""
    wide = widen.outputs[0]
    return Op("cross_entropy", "point", (wide,), (last.outputs[0], wide._replace(tensor="log_probs")), 6.0, "outputs",
              stream="cross_entropy")


def _with_one_weight(block: Block, names: Sequence[str], joined: str) -> Block:
    """The block with one product, of which those of some names are views along its third dim, `joined`; as before
    where they differ otherwise."""
    made = {op.name: op for op in block.ops if op.name in names and op.kind == "gemm"}
    if len(made) != len(names) or len({(op.inputs[0], len(op.inputs), *op.outputs[0].dims[3:])
                                       for op in made.values()}) > 1:
        return block
    first, *_ = made.values()
    name, size = "qkv" if joined == QKV else "gate_up", first.outputs[0].dims[3:]
    uses = [Use(f"w{name}", (first.inputs[1].dims[0], joined, *size))]
    uses += [Use(f"b{name}", (joined, *size))] if len(first.inputs) > 2 else []
    out = Use(name, (*first.outputs[0].dims[:2], joined, *size))
    product = first._replace(name=name, inputs=(first.inputs[0], *uses), outputs=(out,))
    parts = Op(f"{name}_parts", "views", (out,), tuple(made[each].outputs[0] for each in names), saves="nothing")
    ops = [each for op in block.ops for each in (
        [product, parts] if op is first else [] if op.name in made else [op])]
    gone = {use.tensor for op in made.values() for use in op.inputs[1:]}
    weights = {**{use.tensor: use.dims for use in uses},
               **{name: dims for name, dims in block.weights.items() if name not in gone}}
    new = {use.tensor for use in uses} if joined == QKV else set[str]()
    return replace(block, ops=tuple(ops), weights=MappingProxyType(weights),
                   attention=block.attention - gone | new if block.attention else frozenset())


def halves(blocks: Sequence[Block], sizes: Mapping[str, Size]) -> dict[str, Size]:
    """Sizes of the halves of heads that rotary positions of some blocks turn."""
    found: dict[str, Size] = {}
    for op in (op for block in blocks for op in block.ops if _turns(op)):
        dim = op.outputs[0].dims[-1]
        whole = sizes[dim] if dim in sizes else sizes[base(dim)]
        found[dim + HALF] = whole / 2 if isinstance(whole, float) else Fraction(whole) / 2
    return found


def joined_sizes(blocks: Sequence[Block], sizes: Mapping[str, Size]) -> dict[str, Size]:
    """Sizes of `QKV` and `GATED` in blocks that have them."""
    return {op.inputs[0].dims[2]: sum(sizes[use.dims[2]] for use in op.outputs)
            for block in blocks for op in block.ops if op.kind == "views"}


def joined_axes(axes: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Axes of `QKV`: as of heads; of `GATED`: as of an FFN."""
    return {QKV: axes.get("heads", ()), GATED: axes.get("ffn", ())}


def _turns(op: Op) -> bool:
    return op.kind == "point" and op.name.startswith("rope_")


def launched(op: Op) -> tuple[Op, ...]:
    """The kernels of an operator, or of an operator's gradient, in order."""
    if op.kind == "gemm" and len(op.outputs) > 1:
        return _biased(op)
    if not op.stream:
        return (op,)
    if op.kind == "scatter":
        return _scattered(op)
    if not op.name.endswith(".d"):
        return _FORWARD[op.stream](op) if op.stream in _FORWARD else (op,)
    if op.stream in _BACKWARD:
        return _BACKWARD[op.stream](op)
    return (op._replace(stream=BACK.get(op.stream, op.stream)),)


def _multiplied_back(op: Op) -> tuple[Op, ...]:
    dz, left, right = op.inputs
    return tuple(kernel(op, "mul", (dz, other), (out,), "mul")
                 for other, out in zip((right, left), op.outputs, strict=True))


def _biased(op: Op) -> tuple[Op, ...]:
    """A weight's gradient, and the sum of dY over rows."""
    return (op._replace(outputs=op.outputs[:1]), kernel(op, "sum", op.inputs[-1:], op.outputs[1:], "sum_rows"))


def _scattered(op: Op) -> tuple[Op, ...]:
    """A gradient of the whole table; where another block made one, their sum."""
    out = op.outputs[0]
    own = out._replace(tensor=f"{op.name}.own") if op.fused == TIED else out
    made = kernel(op, "dense", op.inputs, (own,), "embedding_backward")
    return (made,) if own == out else (made, kernel(op, "add", (own, out._replace(tensor=TIED)), (out,), "add"))


def _entropy_back(op: Op) -> tuple[Op, ...]:
    """Gradients of log softmax (zeros but for a number a token) and of the logits. Its bytes are those of the results,
    by which it was measured."""
    wide = op.outputs[0]
    loss = op.inputs[0]
    return (kernel(op, "softmax", (loss,), (wide._replace(tensor="d.log_probs"), wide), "cross_entropy_backward",
                    2 * op.factor),)


_BACKWARD: Mapping[str, Callable[[Op], tuple[Op, ...]]] = MappingProxyType({
    **torch_rotary.BACKWARD, **torch_norm.BACKWARD, **torch_loss.BACKWARD, "mul": _multiplied_back,
    "cross_entropy": _entropy_back})
"""Operator -> kernels of its gradient."""
_FORWARD: Mapping[str, Callable[[Op], tuple[Op, ...]]] = MappingProxyType({
    **torch_rotary.FORWARD, **torch_norm.FORWARD, **torch_loss.FORWARD})
