"""Autocast over a model in fp32: which tensors stay in fp32, and the places of casts to 16 bits.

Under `torch.autocast` a table in fp32 gives rows in fp32, sums of the residual stream and norms stay there, and every
product casts its input for itself (aten/src/ATen/autocast_mode.cpp: linear is in the list of lower precision; only
weights are cached). `Side` casts the weights: once in a pass, kept for backward unless the block runs again.
"""

from __future__ import annotations

from types import MappingProxyType

from msgspec.structs import replace

from astrarium.workload.graph.ir import Block, Op

__all__ = ["autocast"]

FP32 = "stats"      # the role of numbers of 4 bytes


def autocast(block: Block) -> Block:
    """The block with casts in front of its products, and its stream in fp32."""
    wide = {block.input.tensor} - {""}
    ops: list[Op] = []
    for op in block.ops:
        if op.kind == "gemm" and op.inputs[1].tensor in block.weights and op.inputs[0].tensor in wide:
            given = op.inputs[0]
            cast = given._replace(tensor=f"{op.name}_in")
            ops.append(Op(f"{op.name}_to_bf16", "point", (given,), (cast,), 0.0, "nothing", stream="to_bf16"))
            ops.append(op._replace(inputs=(cast, *op.inputs[1:])))
        else:
            ops.append(op)
        if op.kind == "gather" or (_stays(op) and wide & {use.tensor for use in op.inputs}):
            wide |= {use.tensor for use in op.outputs}
    names = {name for tensor in wide for name in (tensor, f"d.{tensor}")}
    return replace(block.with_ops(ops), widths=MappingProxyType({**block.widths, **dict.fromkeys(names, FP32)}))


def _stays(op: Op) -> bool:
    """Whether an operator gives fp32 where its operands are: sums and norms."""
    return op.kind == "add" or (op.kind == "point" and "norm" in op.name)
