"""Random small systems under both rule books, for the programs of programs.py."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import astrarium as ar
from astrarium.astra_sim.files import AstraInputs
from astrarium.astra_sim.lowering import AstraDim, AstraSystem
from astrarium.collective.algorithms import supporting
from astrarium.engine.plan import Backend, Remote, RemoteKind
from astrarium.network.config import LinkDim
from astrarium.vocab import CommOp

from .programs import OPS

__all__ = ["SIZES", "astra_inputs", "native_design"]

SIZES: Sequence[tuple[int, ...]] = ((2,), (3,), (4,), (6,), (8,), (16,), (2, 2), (4, 2), (2, 4), (3, 2), (4, 4), (8, 2),
                                    (2, 2, 2), (2, 3, 2), (2, 2, 2, 2))
RATES, LATENCIES = (1.0, 10.0, 12.5, 50.0, 62.5, 100.0, 37.3), (0.0, 0.5, 1.0, 10.0, 20.0, 500.0)     # GB/s, ns
RARE = (CommOp.BROADCAST, CommOp.REDUCE, CommOp.GATHER, CommOp.SCATTER, CommOp.BARRIER)


def astra_inputs(rng: random.Random, sizes: tuple[int, ...], groups: dict[str, tuple[int, ...]], links: bool,
                 odd: float) -> AstraInputs:
    """A system under ASTRA-sim's rule book; its "GB/s" are 2^30 bytes, so whole bytes per ns are odd numbers."""
    sizes = (math.prod(sizes),) if links else sizes
    dims = tuple(AstraDim(rng.choice(["Ring", "FullyConnected", "Switch"]), n, rng.choice(RATES) * 1e9 / 2**30,
                          rng.choice(LATENCIES)) for n in sizes)
    bus = (rng.choice([0.0, 10.0]), 5.0, rng.choice([0.0, 30.0]), 0.25)
    system = AstraSystem(
        splits=rng.choice([1, 1, 2, 3, 4, 8]),
        implementations={op: tuple(_astra_entry(rng, op, n) for n in sizes) for op in OPS},
        scheduling=rng.choice(["LIFO", "FIFO", "EXPLICIT"]), optimization=rng.choice(["baseline", "localBWAware"]),
        endpoint_delay=rng.choice([0, 1, 10, 10, 10, 64]), active_chunks=rng.choice([1, 1, 2, 3, 5, 8]),
        queues_per_dim=1 + (rng.random() < odd), local_mem_bw=rng.choice([3.0, 50.0, 1000.0, 1e6]), peak_perf=1.0,
        roofline=True, rendezvous=rng.random() < odd, shared_bus=bus if rng.random() < odd else None,
        local_reduction_delay=rng.choice([1, 3]))
    kind = rng.choice([RemoteKind.PER_NODE, RemoteKind.POOL]) if rng.random() < 3 * odd else RemoteKind.PER_NPU
    remote = Remote(kind, rng.choice([0, 10, 100]), rng.choice([1.0, 3.7]), 2)
    return AstraInputs("random", system, dims, remote, groups, Backend.LINKS if links else Backend.UNSHARED)


def _astra_entry(rng: random.Random, op: CommOp, n: int) -> str:
    able = ["ring", "direct", "direct", f"direct{rng.randint(1, 8)}"]
    if op != CommOp.ALL_TO_ALL and n & (n - 1) == 0:
        able += ["halvingDoubling", "halvingDoubling"] + ["doubleBinaryTree"] * (rng.random() < 0.1)
    return rng.choice(able)


def native_design(rng: random.Random, sizes: tuple[int, ...], backend: str, odd: float) -> ar.Design:
    """A system under our own rule book for `prod(sizes)` ranks."""
    ranks, spare = math.prod(sizes), rng.random() < 0.15       # spare: twice as many NPUs as ranks
    sizes = (*sizes, 2) if spare else sizes
    npus = range(math.prod(sizes))
    places = [tuple(npus[:ranks]), tuple(npus[::len(npus) // ranks]), tuple(rng.sample(npus, ranks))]
    placement: Any = "identity" if rng.random() < 0.8 and not spare else rng.choice(places)
    system = ar.System(compute_streams=rng.choice([1, 1, 2, 3]), comm_streams=rng.choice([1, 1, 1, 2, 3]),
                       p2p_streams=rng.choice([1, 2, 3]), copy_streams=rng.choice([1, 1, 2, 3]),
                       cpu_threads=rng.choice([1, 1, 2, 3]), placement=placement)
    own = ar.Remote("per_npu", bandwidth=rng.choice(["1 GB/s", "3.7 GB/s"]), latency=rng.choice(["0 ns", "10 ns"]))
    others = [ar.Remote("pool", bandwidth="1 GB/s"),
              ar.Remote("per_node", bandwidth="3.7 GB/s", latency="100 ns", npus_per_node=2)]
    remote = rng.choice(others if len(npus) % 2 == 0 else others[:1]) if rng.random() < 2 * odd else own
    memory = ar.Memory(bandwidth=rng.choice(["50 GB/s", "1 TB/s", "3 GB/s"]), remote=remote)
    other = ar.Memory(bandwidth=rng.choice(["20 GB/s", "1 TB/s"]), remote=remote)
    types = [ar.NpuType(npus=rng.choice(["0:1", f"0:{len(npus)}:2"]), memory=other)] if rng.random() < 2 * odd else []
    return ar.Design(workload=ar.Trace("random"), network=ar.Network(_dims(rng, sizes), backend=backend),
                     collective=_collective(rng, len(sizes), odd), memory=memory, system=system, npu_types=types,
                     compute=ar.Roofline(peak="1 TFLOP/s"))


def _dims(rng: random.Random, sizes: tuple[int, ...]) -> list[LinkDim]:
    kinds: list[type[LinkDim]] = [ar.Ring, ar.FullyConnected, ar.Switch, ar.Switch]
    kinds += [ar.Hypercube] * (rng.random() < 0.25) + [ar.Mesh] * (rng.random() < 0.1)
    dims = []
    for n in sizes:
        kind = rng.choice([shape for shape in kinds if shape is not ar.Hypercube or n & (n - 1) == 0])
        more: dict[str, Any] = {"one_way": rng.random() < 0.3} if kind is ar.Ring else {}
        dims.append(kind(n, bandwidth=f"{rng.choice(RATES)} GB/s", latency=f"{rng.choice(LATENCIES)} ns", **more))
    return dims


def _collective(rng: random.Random, dims: int, odd: float) -> ar.Collective:
    """Algorithms per operation and dim, composition and chunks."""
    chosen: dict[str, Any] = {op.name.lower(): _native_entries(rng, op, dims) for op in OPS}
    if rng.random() < odd:
        chosen |= {op.name.lower(): [rng.choice(supporting(op)) for _ in range(rng.choice([0, 1, dims]))]
                   for op in (*OPS, *RARE)}
    composition = rng.choice(["baseline", "blueconnect", "themis"])
    return ar.Collective(
        **chosen, composition=composition, active_chunks=rng.choice([0, 1, 1, 1 if composition == "themis" else 2]),
        chunks=rng.choice([1, 1, 2, 3, 8]), pipeline=rng.choice([1, 3, 8]),
        scheduling=rng.choice(["lifo", "fifo", "priority"]),
        endpoint_delay=rng.choice(["0 ns", "10 ns", "1 ns", "0.333 ns"]))


def _native_entries(rng: random.Random, op: CommOp, dims: int) -> tuple[str, ...]:
    able = ["ring", "direct", "direct:2", "ring_two_way", "halving_doubling"]
    able += {CommOp.ALL_REDUCE: ["double_binary_tree"]}.get(op, ["bruck"])
    return tuple(rng.choice(able) for _ in range(rng.choice([1, dims])))
