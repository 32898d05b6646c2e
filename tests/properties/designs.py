"""Random small systems with random programs that they run: the generator behind the property tests."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import astrarium as ar
from astrarium.collective.algorithms import supporting
from astrarium.config import Config
from astrarium.trace import IOInfo, TraceBuilder, Traces, traces_of_bytes
from astrarium.units import Bandwidth, Time
from astrarium.vocab import CommOp, NodeKind

OPS = [op for op in CommOp if op != CommOp.REDUCE_SCATTER_BLOCK]
SIZES = [0, 1, 1000, 65_536, 1_000_003]
SHAPES = {2: "rsfmh", 3: "rsfm", 4: "rsfmh"}
MAKERS = {"r": ar.Ring, "s": ar.Switch, "f": ar.FullyConnected, "m": ar.Mesh, "h": ar.Hypercube}


@dataclass(frozen=True)
class Case:
    """A design and the traces that it runs; groups come from the traces themselves."""

    design: ar.Design
    traces: Traces


@st.composite
def networks(draw: st.DrawFn, *, backends: tuple[str, ...] = ("closed_form", "contention"),
             npus: int = 12) -> ar.Network:
    """One to three dims of any shape."""
    dims: list[Config] = []
    total = 1
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.sampled_from([n for n in (2, 3, 4) if total * n <= npus] or [1]))
        total *= count
        values = {"bandwidth": Bandwidth.of(draw(st.sampled_from([1.0, 12.5, 50.0, 62.5]))),
                  "latency": Time.of(draw(st.sampled_from([0.0, 0.5, 20.0, 500.0])))}
        shape = draw(st.sampled_from(SHAPES.get(count, "s")))
        more = {"one_way": draw(st.booleans())} if shape == "r" else {}
        dims.append(MAKERS[shape](count, **values, **more))
    return ar.Network(dims, backend=draw(st.sampled_from(backends)))


@st.composite
def collectives(draw: st.DrawFn, network: ar.Network) -> ar.Collective:
    """Algorithms per operation and dim, chunking and composition."""
    entries = {}
    for op in OPS:
        able = [*supporting(op), "direct:2"]
        dims = draw(st.sampled_from([0, 1, len(network.flat)]))
        entries[op.name.lower()] = [draw(st.sampled_from(able)) for _ in range(dims)]
    composition = draw(st.sampled_from(["baseline", "blueconnect", "themis"]))
    return ar.Collective(
        **entries, chunks=draw(st.sampled_from([1, 2, 3])), pipeline=draw(st.sampled_from([1, 3])),
        composition=composition, active_chunks=draw(st.sampled_from([0, 1, 1 if composition == "themis" else 2])),
        scheduling=draw(st.sampled_from(["lifo", "fifo", "priority"])),
        endpoint_delay=Time.of(draw(st.sampled_from([0.0, 0.333, 10.0]))))


@st.composite
def cases(draw: st.DrawFn, *, backends: tuple[str, ...] = ("closed_form", "contention"), npus: int = 12) -> Case:
    """A whole system and its program. Ranks do alike but for durations, placement and who talks to whom."""
    network = draw(networks(backends=backends, npus=npus))
    ranks = network.npus
    placement = draw(st.one_of(st.just("identity"), st.permutations(range(ranks))))
    streams = {name: draw(st.sampled_from([1, 2, 3])) for name in
               ("compute_streams", "comm_streams", "p2p_streams", "copy_streams", "cpu_threads")}
    kind = draw(st.sampled_from(["per_npu", "per_npu", "per_node", "pool"]))
    remote = ar.Remote(kind, bandwidth="3.7 GB/s", latency=Time.of(draw(st.sampled_from([0.0, 100.0]))),
                       npus_per_node=2 if kind == "per_node" else None)
    memory = ar.Memory(bandwidth=draw(st.sampled_from([None, "2 TB/s", "3 GB/s"])), remote=remote)
    other = ar.Memory(bandwidth=draw(st.sampled_from([None, "2 TB/s", "3 GB/s"])), remote=remote)
    kinds = [ar.NpuType(npus=f"0:{draw(st.integers(1, ranks))}", memory=other)] if draw(st.booleans()) else []
    design = ar.Design(workload=ar.Trace("in memory"), network=network, collective=draw(collectives(network)),
                       memory=memory, npu_types=kinds, system=ar.System(placement=placement, **streams))
    return Case(design, draw(programs(ranks)))


@st.composite
def programs(draw: st.DrawFn, ranks: int) -> Traces:
    """Traces of `ranks` ranks: compute, host nodes, collectives on several groups, messages, remote memory."""
    groups = draw(_families(ranks))
    chained = draw(st.sampled_from([True, True, True, False]))
    builders = [TraceBuilder() for _ in range(ranks)]
    for builder in builders:
        _define_groups(builder, groups)
    last: list[list[int]] = [[] for _ in range(ranks)]       # ids of each rank's last collective
    for step in range(draw(st.integers(1, 7))):
        _step(draw, step, builders, groups, last, chained)
    return traces_of_bytes([builder.encode() for builder in builders])


def _define_groups(builder: TraceBuilder, groups: list[list[list[int]]]) -> None:
    flat = [{"pg_name": str(family * 100 + number + 1), "ranks": members}
            for family, lists in enumerate(groups) for number, members in enumerate(lists)]
    builder.node(NodeKind.METADATA, "## process_group:init ##", inputs=IOInfo(values=str([json.dumps(flat)])))


@st.composite
def _families(draw: st.DrawFn, ranks: int) -> list[list[list[int]]]:
    """Families of disjoint groups: neighbours, strides, and one list in any order."""
    width = draw(st.sampled_from([n for n in range(1, ranks + 1) if ranks % n == 0]))
    order = np.arange(ranks).reshape(-1, width)
    anyone = draw(st.permutations(range(ranks)))[:draw(st.integers(1, ranks))]
    return [order.tolist(), order.T.tolist(), [list(anyone)]]


def _step(draw: st.DrawFn, step: int, builders: list[TraceBuilder], groups: list[list[list[int]]],
          last: list[list[int]], chained: bool) -> None:
    """One step of every rank; most wait for the rank's previous node."""
    kinds = ["compute", "collective", "collective", "shift", "remote", "host"]
    ranks, kind = len(builders), draw(st.sampled_from(kinds))
    same, linked, size = draw(st.booleans()), draw(st.booleans()), draw(st.sampled_from(SIZES))
    after = [[len(b.nodes) - 1] if linked or kind == "shift" else [] for b in builders]
    micros = draw(st.sampled_from([1, 2, 50]))
    if kind == "collective":
        _collective(draw, builders, groups, last, after, chained)
        return
    shift = draw(st.integers(1, max(1, ranks - 1)))
    for rank, builder in enumerate(builders):
        duration = micros if same else micros + rank % 3
        if kind in ("compute", "host"):
            builder.comp(f"{kind}{step}", duration, cpu=kind == "host", after=after[rank])
        elif kind == "remote":
            builder.memory(f"load{step}", size, after=after[rank])
        elif ranks > 1:
            builder.send(f"send{step}", (rank + shift) % ranks, size, step, after=after[rank])
            builder.recv(f"recv{step}", (rank - shift) % ranks, size, step, after=after[rank])


def _collective(draw: st.DrawFn, builders: list[TraceBuilder], groups: list[list[list[int]]], last: list[list[int]],
                after: list[list[int]], chained: bool) -> None:
    op, size = draw(st.sampled_from(OPS)), draw(st.sampled_from(SIZES))
    family, priority = draw(st.sampled_from([None, 0, 1, 2])), draw(st.sampled_from([0, 5]))
    lists = [list(range(len(builders)))] if family is None else groups[family]
    for number, members in enumerate(lists):
        for rank in members:
            name = None if family is None else family * 100 + number + 1
            wait = sorted({*after[rank], *(last[rank] if chained else [])})
            last[rank] = [builders[rank].coll(op.name, op, size, group=name, after=wait, comm_priority=priority)]
