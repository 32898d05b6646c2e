"""Draws training jobs, where they run, and the fabric below them."""

from __future__ import annotations

import random
from typing import Any, NamedTuple


class Scale(NamedTuple):
    npus: int
    jobs: int
    sizes: tuple[int, ...]      # ranks of a job
    filled: int                 # NPUs that a set has at least
    inner: tuple[int, ...]      # of the second dim
    models: tuple[str, ...]


LARGE = Scale(4096, 16, (64, 128, 128, 256, 256, 256, 512, 1024), 3584, (8, 16, 32, 64),
              ("gpt2-xl", "llama3-8b", "llama2-13b", "gpt3-13b", "llama3-70b", "gpt3-175b"))
EVEN = LARGE._replace(sizes=(256,), filled=4096)
SMALL = Scale(256, 4, (32, 64, 64, 128), 192, (4, 8), ("gpt2-small", "gpt2-medium"))
SCHEDULES = ("1f1b", "gpipe", "interleaved")
PLACEMENTS = ("packed", "spread", "rail_aligned", "random")
BACKENDS = ("closed_form", "contention")

__all__ = ["EVEN", "LARGE", "SMALL", "draw"]


def draw(seed: int, scale: Scale = LARGE) -> tuple[dict[str, str], Any]:
    """(placement, back end, dims and sizes in words, the Design) of a seed.

    Drawn are: sizes of jobs (64 to 1,024 ranks, together 3,584 to 4,096), models, tp, pp (dp is the rest), schedules,
    1 to 8 micro-batches of one sequence, ZeRO, starts (half of them 0, others within a second), one rule of placement
    for all jobs, the dims (hosts of 8: switch, fully connected or ring; two dims of rings, switches or meshes), the
    back end.
    """
    import astrarium as ar

    rng = random.Random(seed)
    backend, placement = rng.choice(BACKENDS), rng.choice(PLACEMENTS)
    sizes = _sizes(rng, scale)
    jobs = [ar.Job(_work(rng, size, scale.models), placement=placement,
                   seed=rng.randrange(1000) if placement == "random" else None,
                   start=f"{rng.choice((0, rng.randrange(1000)))} ms") for size in sizes]
    host = rng.choice((ar.Switch, ar.FullyConnected, ar.Ring))
    inner = rng.choice(scale.inner)
    outer = [rng.choice((ar.Ring, ar.Ring, ar.Switch, ar.Mesh)) for _ in range(2)]
    link = {"bandwidth": "50 GB/s", "latency": "1 us"}
    dims = [host(8, bandwidth_per_npu="450 GB/s", latency="500 ns"), outer[0](inner, **link),
            outer[1](scale.npus // 8 // inner, **link)]
    design = ar.Design(workload=ar.Jobs(jobs), compute=ar.Roofline(peak="989 TFLOP/s"),
                       memory=ar.Memory(bandwidth="3.35 TB/s"), network=ar.Network(dims, backend=backend))
    shapes = " x ".join(f"{type(dim).__name__} {dim.npus}" for dim in dims)
    return {"backend": backend, "placement": placement, "dims": shapes, "ranks": str(sum(sizes))}, design


def _sizes(rng: random.Random, scale: Scale) -> list[int]:
    while True:
        sizes = [rng.choice(scale.sizes) for _ in range(scale.jobs)]
        if scale.filled <= sum(sizes) <= scale.npus:
            return sizes


def _work(rng: random.Random, ranks: int, models: tuple[str, ...]) -> Any:
    """A training step on that many ranks, drawn until it is a legal one."""
    import astrarium as ar

    while True:
        tp, pp, schedule = rng.choice((1, 2, 4, 8)), rng.choice((1, 1, 2, 4, 8)), rng.choice(SCHEDULES)
        if schedule == "interleaved" and pp == 1:
            continue
        dp = ranks // (tp * pp)
        try:
            return ar.Transformer(
                rng.choice(models), tp=tp, pp=pp, dp=dp, seq=1024 if models is SMALL.models else 2048,
                global_batch=dp * rng.randint(1, 8), micro_batch=1,
                schedule=schedule, virtual_stages=2 if schedule == "interleaved" else 1, zero=rng.choice((0, 1, 2, 3)))
        except ar.AstrariumError:
            continue        # such as micro-batches that the schedule cannot cut
