"""Number formats per role, and what an optimizer keeps and moves per parameter."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from msgspec import Struct

from astrarium.config import Config, Knob
from astrarium.workload.assemble.recipe import Sizes
from astrarium.workload.pieces import Numbers

__all__ = ["BYTES", "OPTIMIZERS", "Precision", "numbers_of", "sizes_of", "widths_of"]

Format = Literal["fp32", "fp16", "bf16", "fp8", "fp4"]

BYTES: Mapping[str, float] = MappingProxyType({"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "fp4": 0.5})
"""Bytes of one number; the scales of block formats (1 byte for 32 numbers in OCP MX) are left out."""


class Precision(Config, frozen=True, kw_only=True):
    """Number formats of the tensors and messages of a training step. The defaults are 16 bytes per parameter: 2 + 2 +
    12.

    (Rajbhandari et al., ZeRO, arXiv 1910.02054, section 3.1: 16-bit weights and gradients, fp32 master copy, momentum
    and variance. Megatron-LM keeps and reduces gradients in fp32: `gradients: fp32`.)
    """

    weights: Annotated[Format, Knob("Weights as they are used and gathered.")] = "bf16"
    activations: Annotated[Format, Knob("Activations, and their gradients, in memory and in messages.")] = "bf16"
    shards: Annotated[Literal["copied", "master"],
                      Knob("What ZeRO 3 gathers weights from: shards of a copy in their format, or the optimizer's own "
                           "copy, which is cast (FSDP).")] = "copied"
    gradients: Annotated[Format, Knob("Gradients of weights as they are accumulated.")] = "bf16"
    reduction: Annotated[Format | None, Knob("Gradients of weights in collectives; left out: as they are kept.")] = None
    master: Annotated[Literal["fp32", "fp16", "bf16", "fp8", "fp4", "none"] | None,
                      Knob("The optimizer's own copy of the weights; none or null: none.")] = "fp32"
    moments: Annotated[Format, Knob("Each of the optimizer's moments.")] = "fp32"
    products: Annotated[Format | None, Knob("Format in which products with weights are computed, forward and backward, "
                                            "but for logits (fp8 training: fp8); left out: the wider of weights and "
                                            "activations.")] = None


class Optimizer(Struct, frozen=True):
    """Moments per parameter and FLOPs of one step per parameter."""

    moments: int
    flops: float


OPTIMIZERS: Mapping[str, Optimizer] = MappingProxyType({
    "adam": Optimizer(2, 16),   # AdamW, arXiv 1711.05101, algorithm 2: lines 6 to 12 counted, a square root as one
    "sgd": Optimizer(1, 6),     # SGD with momentum and weight decay (the same paper, algorithm 1)
})


def numbers_of(precision: Precision) -> Numbers:
    """Formats in which kernels compute and memory holds weights."""
    weights, activations = precision.weights, precision.activations
    product = precision.products or (weights if BYTES[weights] > BYTES[activations] else activations)
    held = weights if BYTES[weights] < min(BYTES[product], BYTES["bf16"]) else ""
    return Numbers(product, product, activations, activations, held, held)


FOREACH = 20 / 7
"""Tensors that torch.optim.AdamW(foreach=True) reads and writes for the 7 of the fused step: mul_ 2, lerp_ 3, mul_ 2,
addcmul_ 3, sqrt 2, div_ 2, add_ 2, addcdiv_ 4 (torch/optim/adam.py, _multi_tensor_adam)."""


def sizes_of(precision: Precision, optimizer: str, step: str = "fused") -> Sizes:
    """Bytes per parameter. A step reads the gradient, reads and writes the states, and writes the weights; `step`: see
    Software."""
    kind, master = OPTIMIZERS[optimizer], BYTES.get(precision.master or "none", 0.0)
    apart = not (master and precision.shards == "master")
    weights, gradients = BYTES[precision.weights], BYTES[precision.gradients]
    states = master + kind.moments * BYTES[precision.moments]
    moved = gradients + 2 * states + weights * (1 if master else 2) * apart
    held = {"foreach": BYTES[precision.moments], "cast": BYTES["fp32"]}.get(step, 0.0)
    moved = moved * FOREACH if step == "foreach" else moved + 3 * held + gradients if step == "cast" else moved
    return Sizes(weights=weights, shards=weights * apart, gradients=gradients, states=states, step_flops=kind.flops,
                 step_bytes=moved, step_held=held, sent=BYTES[precision.reduction or precision.gradients])


def widths_of(precision: Precision) -> Mapping[str, float]:
    """Bytes per element by the graph's roles; softmax statistics and losses are fp32, masks a byte, indexes 8.
    `product`: operands of products with weights, as backward keeps them."""
    activations = BYTES[precision.activations]
    return MappingProxyType({"weights": BYTES[precision.weights], "activations": activations,
                             "gradients": BYTES[precision.gradients], "state": activations, "stats": 4.0, "mask": 1.0,
                             "index": 8.0, "product": BYTES[numbers_of(precision).product]})
