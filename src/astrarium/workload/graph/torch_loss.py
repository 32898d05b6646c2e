"""Cross entropy over a vocabulary that tp shards, in eager PyTorch (torch.distributed.tensor.parallel.loss_parallel).

Forward: the maximum, the difference to it, exp, its sum, the difference to the sum's logarithm. Backward, in one
function: zeros with -1 at the targets, exp of the log softmax, their sum, and its product with the loss's gradient. It
holds four tensors in fp32 at once, with the log softmax that forward kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from astrarium.workload.graph.ir import Op, Use
from astrarium.workload.graph.torch_rotary import WIDE, Kernels, kernel

__all__ = ["BACKWARD", "FORWARD", "SHARDED"]

SHARDED = "log_softmax"


def _forward(op: Op) -> tuple[Op, ...]:
    wide, out = op.inputs[0], op.outputs[0]
    shifted, raised = (Use(f"{op.name}.{name}{WIDE}", wide.dims) for name in ("shifted", "exp"))
    return (kernel(op, "sub", (wide,), (shifted,), "mul"), kernel(op, "exp", (shifted,), (raised,), "mul"),
            kernel(op, "sub", (shifted, *op.inputs[1:]), (out,), "mul"))


def _backward(op: Op) -> tuple[Op, ...]:
    updates, kept, out = op.inputs[0], op.inputs[1], op.outputs[0]
    raised, added = (Use(f"{op.name}.{name}{WIDE}", out.dims) for name in ("exp", "sum"))
    return (kernel(op, "exp", (kept,), (raised,), "mul"), kernel(op, "add", (updates, raised), (added,), "add"),
            kernel(op, "mul", (added,), (out,), "mul"))


FORWARD: Mapping[str, Kernels] = MappingProxyType({SHARDED: _forward})
BACKWARD: Mapping[str, Kernels] = MappingProxyType({SHARDED: _backward})
