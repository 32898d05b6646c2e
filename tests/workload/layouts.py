"""Layouts of training drawn with a seed: model, parallelisation, schedule, ZeRO, network, streams and scheduling."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import astrarium as ar
from astrarium.errors import InputError

__all__ = ["drawn"]


def drawn(seed: int, count: int, ranks: int = 64) -> Iterator[ar.Design]:
    """`count` legal designs of 4 to `ranks` ranks."""
    rng, found = random.Random(seed), 0
    while found < count:
        try:
            design = _design(rng, 2 ** rng.randint(2, ranks.bit_length() - 1))
        except InputError:      # a schedule that the layout does not have
            continue
        found += 1
        yield design


def _design(rng: random.Random, ranks: int) -> ar.Design:
    work = _layout(rng, ranks)
    return ar.Design(
        workload=ar.Transformer(**work), compute=ar.Roofline(peak="989 TFLOP/s"),
        memory=ar.Memory(bandwidth="3.35 TB/s"),
        network=ar.Network([_dim(rng, npus) for npus in _dims(rng, ranks)],
                           backend=rng.choice(["closed_form"] * 9 + ["contention"])),
        system=ar.System(comm_streams=rng.choice([1, 1, 1, 2, 3]), p2p_streams=rng.choice([1, 1, 2])),
        collective=ar.Collective(scheduling=rng.choice(["lifo", "fifo", "priority"]), chunks=rng.choice([1, 1, 4]),
                                 composition=rng.choice(["baseline", "blueconnect"])))


def _layout(rng: random.Random, ranks: int) -> dict[str, Any]:
    degrees = {"pp": min(2 ** rng.randint(0, 3), ranks)}
    left = ranks // degrees["pp"]
    for axis in rng.sample(["tp", "cp", "dp", "sp"], 4):
        most = {"dp": left, "sp": min(left, 2)}.get(axis, min(left, 4))
        degrees[axis] = 2 ** rng.randint(0, most.bit_length() - 1)
        left //= degrees[axis]
    degrees["dp"] *= left
    schedule = rng.choice(["gpipe", "1f1b", "1f1b", "interleaved", "zero_bubble", "dualpipe"])
    virtual = rng.choice([2, 2, 4]) if schedule == "interleaved" else 1
    experts = rng.random() < 0.2
    layers = max(1, min(48, degrees["pp"] * virtual * rng.randint(1, 3) + rng.choice([-2, -1, 0, 0, 1])))
    large = rng.random() < 0.2
    experts = experts and not large
    batches = {"interleaved": degrees["pp"] * rng.choice([1, 2]),
               "dualpipe": 2 * (degrees["pp"] + rng.randint(0, 2))}.get(schedule, rng.choice([1, 2, 3, 4, 8]))
    size = rng.choice([1, 1, 2])
    return {
        **degrees, "model": "llama3-8b" if large else _small(layers, experts),
        "ep": 2 ** rng.randint(0, min(3, degrees["dp"].bit_length() - 1)) if experts else 1,
        "schedule": schedule, "virtual_stages": virtual, "micro_batch": size,
        "global_batch": size * batches * degrees["dp"], "seq": rng.choice([2048, 4096]), "zero": rng.randint(0, 3),
        "tp_sequence": rng.random() < 0.5, "sp_attention": rng.choice(["gather", "all_to_all"]),
        "cp_attention": rng.choice(["ring", "ring", "gather"]), "overlap": rng.random() < 0.8,
        "scatter_gather": rng.random() < 0.8, "stage_balance": rng.choice(["layers", "layers", "cost"]),
        "recompute": rng.choice(["none", "none", "selective", "full"]),
        "order": rng.choice(["megatron", "megatron", "stage"]), "bucket": rng.choice([None, "10 MB", "100 MB"])}


def _small(layers: int, experts: bool) -> ar.Decoder:
    return ar.Decoder(layers=layers, d_model=1024, heads=16, kv_heads=8, ffn=1408 if experts else 2816, vocab=32_000,
                      seq=4096, moe=ar.Experts(experts=8, top_k=2) if experts else None)


def _dims(rng: random.Random, ranks: int) -> list[int]:
    """One to three sizes, whose product is `ranks`."""
    sizes = []
    while ranks > 1 and len(sizes) < 2 and rng.random() < 0.7:
        sizes.append(rng.choice([size for size in (2, 4, 8, 16) if ranks % size == 0]))
        ranks //= sizes[-1]
    return [*sizes, ranks] if ranks > 1 else sizes


def _dim(rng: random.Random, npus: int) -> Any:
    return rng.choice([ar.Ring, ar.Switch, ar.FullyConnected])(
        npus, bandwidth=rng.choice(["450 GB/s", "97 GB/s", "50 GB/s", "12.5 GB/s"]),
        latency=rng.choice(["500 ns", "2 us", "20 ns"]))
