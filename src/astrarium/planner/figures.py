"""Users' units of a step: model FLOPs utilisation and tokens per second and NPU."""

from __future__ import annotations

from astrarium.planner.machine import Machine
from astrarium.workload.training import recipe_of
from astrarium.workload.transformer import Transformer

__all__ = ["mfu", "model_flops", "tokens_rate"]

PASSES = 3      # forward, and twice as much backward


def model_flops(workload: Transformer) -> float:
    """FLOPs of matrix products (attention's scores included) of a step over all ranks, without recomputation: three
    times those of the forward pass (Chowdhery et al., PaLM, arXiv 2204.02311, appendix B)."""
    recipe = recipe_of(workload)
    forward = [sum(step.gemm for step in kind.forward.steps) for kind in recipe.kinds]
    one = sum(forward[block] for part in recipe.parts for block in part)
    return PASSES * one * recipe.batches * workload.ranks / workload.pp


def mfu(workload: Transformer, machine: Machine, step: float) -> float:
    """Share of the peak of all NPUs, 0 to 1, of the model's FLOPs in a step of `step` ns."""
    peak = getattr(machine.compute, "peak", None)
    return model_flops(workload) / step / (float(peak) * workload.ranks) if peak else float("nan")


def tokens_rate(tokens: int, npus: int, step: float) -> float:
    """Tokens per second and NPU."""
    return tokens / (step * 1e-9) / npus
