"""Draws designs on which back ends are compared: a network of dims or a fabric, and collectives or messages of one or
two jobs."""

from __future__ import annotations

import random
from typing import Any

from _drawn_fabrics import LATENCIES, RATES, fabric_of

__all__ = ["draw"]

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter")
PATTERNS = ("ring", "pairs", "all_to_all", "incast", "outcast")
PAYLOADS = (1, 4096, 4097, 65_536, 1_000_000, 4 << 20, 16 << 20)      # bytes
SIDES = (2, 3, 4, 6, 8)


def draw(seed: int) -> tuple[str, Any]:
    """(network and jobs in words, the Design with back end packets) of a seed."""
    import astrarium as ar

    rng = random.Random(seed)
    words, network = _dims(rng) if rng.random() < 0.5 else fabric_of(rng, rng.choice((16, 32, 64, 128)))
    total, several = network.npus, rng.random() < 0.4
    jobs, said = [], []
    for _ in range(1 + several):
        npus = total // 2 if several else rng.choice((total, total, max(2, total // 2), max(2, total // 4)))
        text, work = _work(rng, npus)
        placement = rng.choice(("packed", "spread", "random"))
        jobs.append(ar.Job(work, npus=npus, placement=placement, seed=rng.randrange(1000) if placement == "random" else
                           None))
        said.append(f"{text} on {npus} {placement}")
    algorithms = {op: [name] for op in OPERATIONS if (name := _algorithm(rng, op))}
    collective = ar.Collective(choice=rng.choice(("auto", "none")), chunks=rng.choice((None, 1, 4)), **algorithms)
    used = [f"{work.op}: {algorithms[work.op][0]}" for work in (job.workload for job in jobs)
            if isinstance(work, ar.SingleCollective) and work.op in algorithms]
    design = ar.Design(workload=ar.Jobs(jobs), network=network, collective=collective)
    return f"{words}; {'; '.join(said)}; {', '.join(used) or collective.choice}, chunks {collective.chunks}", design


def _dims(rng: random.Random) -> tuple[str, Any]:
    import astrarium as ar

    shapes = {"ring": ar.Ring, "switch": ar.Switch, "fully_connected": ar.FullyConnected, "mesh": ar.Mesh,
              "hypercube": ar.Hypercube}
    count, most = rng.choice((1, 2, 2, 3)), 128
    dims: list[Any] = []
    said = []
    for _ in range(count):
        shape = rng.choice(sorted(shapes))
        legal = (2, 4, 8) if shape == "hypercube" else SIDES
        side = rng.choice([side for side in legal if side <= most] or [1])
        most //= side
        one_way = {"one_way": True} if shape == "ring" and rng.random() < 0.3 else {}
        rate, latency = rng.choice((*RATES, 450.0)), rng.choice(LATENCIES)
        dims.append(shapes[shape](side, bandwidth=f"{rate} GB/s", latency=f"{latency} ns", **one_way))
        said.append(f"{'one-way ' if one_way else ''}{shape} {side} ({rate:g} GB/s, {latency:g} ns)")
    return " x ".join(said), ar.Network(dims, backend="packets")


def _work(rng: random.Random, npus: int) -> tuple[str, Any]:
    import astrarium as ar

    payload = rng.choice(PAYLOADS)
    if rng.random() < 0.2 and npus % 2 == 0:
        pattern = rng.choice(PATTERNS)
        payload = min(payload, (4 << 20) // npus) or 1
        return f"messages {pattern} of {payload} B", ar.Micro(pattern=pattern, payload=f"{payload} B")
    op = rng.choice(OPERATIONS)
    return f"{op} of {payload} B", ar.SingleCollective(op, f"{payload} B")


def _algorithm(rng: random.Random, op: str) -> str:
    """An algorithm that has the operation, or none: then the design's choice."""
    from astrarium.collective.algorithms import supporting
    from astrarium.vocab import CommOp

    return rng.choice(("", "", *supporting(CommOp[op.upper()])))
