"""How training software runs the operators of a model: which share kernels, what it overlaps, what its host costs."""

from __future__ import annotations

from typing import Annotated, Literal

from astrarium.config import Config, Knob, default
from astrarium.units import Time

__all__ = ["Software"]


class Software(Config, frozen=True, kw_only=True):
    """Settings of the software stack; the defaults are an ideal one."""

    operators: Annotated[Literal["fused", "eager", "compiled"],
                         Knob("What runs the operators of a layer: kernels that an ideal compiler or a library fuses; "
                              "eager: what PyTorch launches one by one, and keeps for backward; compiled: what it "
                              "launches for layers that torch.compile compiled, each alone. Embedding and head are "
                              "eager in both.")] = "fused"
    rms_norm: Annotated[Literal["kernel", "operators"],
                        Knob("RMSNorm of eager operators: one kernel (torch.nn.functional.rms_norm), or operators in "
                             "fp32, whose input in fp32 is kept (Hugging Face, torchtitan of 2024).")] = "kernel"
    rotary: Annotated[Literal["halves", "whole", "complex"],
                      Knob("Rotary positions of eager operators: of the halves of a head; of whole heads and their "
                           "rotated halves (Hugging Face); or complex, in fp32 (Meta's Llama, torchtitan).")
                      ] = "halves"
    autocast: Annotated[bool, Knob("torch.autocast over weights in fp32 (precision.weights; products: bf16): each "
                                   "weight is cast in each pass, and the copy kept for backward unless the block runs "
                                   "again; gradients are cast back; the residual stream stays in fp32.")] = False
    step: Annotated[Literal["fused", "foreach", "cast"],
                    Knob("The optimizer's step. fused: one pass over gradients, weights and moments; foreach: a pass "
                         "for every operation, with a tensor as large as a moment (PyTorch's default); cast: gradients "
                         "in 16 bits are cast to fp32 and unscaled first (DeepSpeed).")] = "fused"
    clip: Annotated[Literal["norm", "scaled"],
                    Knob("Gradient clipping after the norm: none that counts, or all gradients are multiplied in "
                         "each step (PyTorch's clip_grad_norm_).")] = "norm"
    fused_norms: Annotated[bool, Knob("Normalisation and softmax share kernels with their elementwise neighbours "
                                      "(fusion).")] = True
    fused_qkv: Annotated[bool, Knob("Queries, keys and values have one weight: their gradients are one product, too.")
                         ] = False
    accumulation: Annotated[Literal["write", "fused", "separate"],
                            Knob("Gradients of weights: written once; added to what earlier micro-batches left by the "
                                 "product's own kernel (fused), which reads it; or by a kernel behind it.")] = "write"
    casts: Annotated[bool, Knob("Products in formats of 8 or 4 bits have their activations and gradients cast by a "
                                "kernel in front, but for what a norm gives, which it casts itself; casts of weights, "
                                "once per step, are not counted.")] = False
    tp_async: Annotated[bool, Knob("Collectives of tp run at the same time as kernels that do not need them; else "
                                   "everything waits for them, and they for everything.")] = True
    tp_overlap: Annotated[float, Knob("Share of the collectives of tp next to products that run at the same time as "
                                      "these (the products are cut into pieces); the rest is waited for.", ge=0,
                                      lt=1.0000001)] = 0.0
    host: Annotated[Time, Knob("Host time to issue one layer's kernels in one pass (forward, recomputation or "
                               "backward): the pass takes at least as long.", lt=2**42)] = default("0 ns")
    host_launch: Annotated[Time, Knob("Host time of an operator (Python, dispatch, autograd, launch), ahead of the "
                                      "NPU: an iteration takes at least as long as all operators of a rank's passes.",
                                      lt=2**42)] = default("0 ns")
    host_tp: Annotated[Time, Knob("More of it for every rank of tp.", lt=2**42)] = default("0 ns")
