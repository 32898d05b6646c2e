"""COSMIC's public code as it counts: memory, reward, and a design whose compute it would call the same.

Sources: formulas of the authors' public ArchGym code (test_memory_constraints.py, AstraSimEnv.py), which counts 2 bytes
a number in memory, the whole batch at once, no optimizer states and no gradients; in its simulator a compute node takes
(elements of its tensors) / (GB/s of local memory) ns, whatever the peak, for two factors of 1e9 are missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import astrarium as ar

__all__ = ["as_public_code", "memory", "reward"]


def memory(model: tuple[int, int, int, int, int, int], dp: int, pp: int, sp: int, mp: int, sharded: bool) -> float:
    """Bytes of an NPU. `model`: d_model, FFN, heads, batch, sequence, layers (din = dout = d_model)."""
    d, ffn, heads, batch, seq, layers = model
    ranks = dp * mp * sp
    attention = 3 * d * d / (mp if sharded else mp * dp * sp)      # as published: the branches look exchanged
    weights = attention + 2 * d * d / mp + 2 * d * ffn / mp
    acts = (6 * batch * seq * d + batch * seq**2 * heads) / ranks + (batch * seq * ffn + 3 * batch * seq * d) / ranks
    acts += 2 * batch * seq * d / (ranks if sharded else dp * sp)
    return (weights + acts) * 2 * layers / pp


def reward(observations: Sequence[float]) -> float:
    """What an agent is given: 1 / sqrt(1 + sum of (observation - 1)^2)."""
    return 1 / math.sqrt(1 + sum((each - 1) ** 2 for each in observations))


def as_public_code(design: ar.Design) -> ar.Design:
    """The same design read as the public code does: elements count as bytes, kernels are not fused, compute never
    waits for the peak, and between matrices everything is divided over tp."""
    one = {"weights": "fp8", "activations": "fp8", "gradients": "fp8", "master": None, "moments": "fp8"}
    return ar.replace_all(design, {
        "workload.precision": one, "workload.attention": "unfused", "workload.fusion": False, "workload.clip": False,
        "workload.optimizer": "sgd", "workload.mask": "full", "workload.tp_sequence": design.workload.tp > 1,
        "compute.peak": "1e9 TFLOP/s"})
