"""Random SPMD programs on random systems, under both rule books, for properties that every program must have.

A program is drawn from one seed, and small: 2 to 16 ranks, a dozen steps. Times are chosen so that many things happen
at the same instant (round bandwidths, durations of a few ns), because that is where equal ranks could part.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import astrarium as ar
from astrarium.engine.plan import Backend, Plan, RemoteKind
from astrarium.engine.plan import Remote as RemotePlan
from astrarium.lower import lower
from astrarium.lower.astra_files import AstraInputs, lower_inputs, workload_of
from astrarium.lower.astra_sim import AstraDim, AstraSystem
from astrarium.network.config import LinkDim
from astrarium.trace import Traces, traces_of_bytes
from astrarium.trace.build import TraceBuilder
from astrarium.trace.node import IOInfo
from astrarium.vocab import CommOp, NodeKind

__all__ = ["RandomProgram", "random_program"]

SIZES: Sequence[tuple[int, ...]] = ((2,), (3,), (4,), (6,), (8,), (16,), (2, 2), (4, 2), (2, 4), (3, 2), (4, 4), (8, 2),
                                    (2, 2, 2), (2, 3, 2), (2, 2, 2, 2))
BYTES = (1, 1000, 4000, 8192, 64_000, 100_003, 1 << 20)
NS = (0, 1, 2, 5, 10, 20, 64, 100, 1000, 4321, 20_000)
OPS = (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL)
RARE = {True: (CommOp.BROADCAST,),
        False: (CommOp.BROADCAST, CommOp.REDUCE, CommOp.GATHER, CommOp.SCATTER, CommOp.BARRIER)}
LINKS = 0.25     # share of programs on links that messages share
Partition = list[list[int]]
Place = Callable[[int], int]


@dataclass(frozen=True, eq=False)
class RandomProgram:
    """`plan` is ready to run; `text` says what it is, so that a failure can be read without running it again."""

    seed: int
    plan: Plan
    text: str


class _Writer:
    """The traces of all ranks, written step by step; `text` collects one line per step.

    `compat`: for ASTRA-sim's rule book. `world`: collectives of all ranks only, and no messages.
    """

    def __init__(self, rng: random.Random, partitions: list[Partition], compat: bool, world: bool) -> None:
        self.rng, self.partitions, self.compat, self.world = rng, partitions, compat, world
        self.since = 0      # steps before are not waited for any more
        self.layer = 0      # steps of a layer, while layers are written
        everyone = partitions[0][0]
        self.builders = [TraceBuilder() for _ in everyone]
        self.names = {str(number): tuple(group) for number, group in
                      enumerate((group for partition in partitions[1:] for group in partition), 1)}
        self.steps: list[list[list[int]]] = [[] for _ in everyone]   # per rank and step: node ids
        self.text: list[str] = []
        listed = [{"pg_name": name, "ranks": list(members)} for name, members in self.names.items()]
        for builder in self.builders if listed and not compat else ():
            builder.node(NodeKind.METADATA, "## process_group:init ##", inputs=IOInfo(values=str([json.dumps(listed)])))

    def begin(self, line: str) -> None:
        """Open a step."""
        self.text.append(line)
        for row in self.steps:
            row.append([])

    def add(self, rank: int, node: int) -> None:
        """Note a node of the open step."""
        self.steps[rank][-1].append(node)

    def after(self, rank: int, waits: Sequence[int]) -> list[int]:
        """Nodes of the named steps; where a rank did nothing in one, of its last step before."""
        found: set[int] = set()
        for wanted in waits:
            found.update(next((nodes for nodes in self.steps[rank][wanted::-1] if nodes), ()))
        return sorted(found)

    def traces(self) -> Traces:
        """What was written."""
        return traces_of_bytes([builder.encode() for builder in self.builders])


def random_program(seed: int, compat: bool, layers: int = 0) -> RandomProgram:
    """A program of one rule book. Now and then it cannot end, as ranks wait for each other: that must be found, too.
    With `layers` a few steps come again and again, so often; at the end something waits for one step of most layers.

    Raises InputError where the draw named an algorithm that has no such operation.
    """
    rng = random.Random(f"{seed} {compat}")
    sizes = rng.choice(SIZES)
    links = rng.random() < LINKS
    writer = _Writer(rng, _partitions(rng, sizes), compat, links and rng.random() < 0.8)
    for _ in range(rng.randint(1, 10) if not layers else rng.randint(0, 2)):
        _step(writer)
    if layers:
        _layers(writer, layers, rng.randint(1, 5))
    system, plan = (_astra if compat else _native)(rng, sizes, writer, links)
    groups = " ".join(f"{name}:{list(members)}" for name, members in writer.names.items())
    text = [f"seed {seed} compat {compat}", system, f"groups {groups}", *writer.text]
    return RandomProgram(seed, plan, "\n".join(text))


def _partitions(rng: random.Random, sizes: tuple[int, ...]) -> list[Partition]:
    """Partition 0 is all ranks (no group); the others are contiguous, strided, two runs, along dims, irregular, or one
    again."""
    count = math.prod(sizes)
    ranks = list(range(count))
    found: list[Partition] = [[ranks]]
    for _ in range(rng.randint(0, 3)):
        part = rng.choice([n for n in range(1, count + 1) if count % n == 0])
        kind = rng.choice(["contiguous", "strided", "runs", "dim", "shuffled", "one", "reversed", "again"])
        if kind == "again":
            found.append(rng.choice(found))
        elif kind == "dim":
            dim = rng.randrange(len(sizes))
            stride, n = math.prod(sizes[:dim]), sizes[dim]
            found.append([[r + k * stride for k in range(n)] for r in ranks if r // stride % n == 0])
        elif kind == "strided":
            found.append([ranks[i::count // part] for i in range(count // part)])
        elif kind == "runs":
            half = max(count // 2, 1)
            run = rng.choice([n for n in range(1, half + 1) if half % n == 0])
            found.append([[*ranks[i:i + run], *ranks[i + half:i + half + run]] for i in range(0, half, run)])
        elif kind == "one":
            found.append([sorted(rng.sample(ranks, rng.randint(1, count)))])
        else:
            order = {"contiguous": ranks, "reversed": ranks[::-1], "shuffled": rng.sample(ranks, count)}[kind]
            found.append([order[i:i + part] for i in range(0, count, part)])
    return found


def _layers(writer: _Writer, layers: int, period: int) -> None:
    """Equal layers; the first step of each waits for all of the layer before, or for its last step."""
    rng, seed, first, whole = writer.rng, writer.rng.random(), len(writer.text), writer.rng.random() < 0.6
    writer.layer = period
    for _ in range(layers):
        writer.rng = random.Random(seed)
        begin = len(writer.text)
        for step in range(begin, begin + period):
            writer.since = max(0, begin - period)
            _step(writer, None if step > begin else list(range(writer.since if whole else max(0, begin - 1), begin)))
    writer.rng, writer.since, writer.layer = rng, 0, 0
    which, since = rng.randrange(period), rng.randrange(layers)
    _compute(writer, [first + layer * period + which for layer in range(since, layers)])


def _step(writer: _Writer, waits: list[int] | None = None) -> None:
    """One step of all ranks, after some earlier ones."""
    rng, done = writer.rng, len(writer.text)
    if waits is None:
        recent = range(writer.since, done)
        least = int(writer.since > 0)
        waits = sorted(rng.sample(recent, min(len(recent), max(least, rng.choice([0, 1, 1, 1, 2])))))
        if done and rng.random() < (0.5 if writer.compat else 0.7):
            waits = [done - 1]
    kinds = [_compute] * 4 + [_collective] * 4 + ([] if writer.world else [_move] * 2) + [_memory, _odd]
    rng.choice(kinds)(writer, waits)


def _compute(writer: _Writer, waits: list[int]) -> None:
    rng, count = writer.rng, len(writer.builders)
    ns, mode = rng.choice(NS), rng.choice(["same"] * 6 + ["half", "parity", "one", "rank", "group"])
    extra, host, group = rng.choice([0, 1, 7, 1000]), rng.random() < 0.1, rng.choice(writer.partitions)[0]
    more: Place = {"same": lambda _: 0, "half": lambda r: r // max(1, count // 2), "parity": lambda r: r % 2,
            "one": lambda r: int(r == count // 2), "rank": lambda r: r, "group": lambda r: int(r in group)}[mode]
    writer.begin(f"compute {ns} ns + {extra} x {mode}, host {host}, after {waits}")
    for rank, builder in enumerate(writer.builders):
        time = ns + extra * more(rank)
        given = {"duration": max(1, time % 4)} if host else {"num_ops": 1000 * time, "tensor_size": 1}
        writer.add(rank, builder.comp("compute", cpu=host, after=writer.after(rank, waits), **given))


def _collective(writer: _Writer, waits: list[int]) -> None:
    rng = writer.rng
    which = 0 if writer.world else rng.randrange(len(writer.partitions))
    op, size, priority = rng.choice(OPS * 3 + RARE[writer.compat]), rng.choice(BYTES), rng.randrange(3)
    more: dict[str, Any] = {}
    if writer.compat and which == 0 and rng.random() < 0.15:
        more["involved_dim"] = [rng.random() < 0.7 for _ in range(4)]
    writer.begin(f"{op.name} {size} bytes, partition {which}, priority {priority}, {more}, after {waits}")
    first = 1 + sum(map(len, writer.partitions[1:which]))
    previous = [s for s, line in enumerate(writer.text[:-1]) if line.split()[0] in CommOp.__members__]
    if previous and rng.random() < 0.7:      # else ranks may issue collectives in different orders, and stall
        waits = sorted({*waits, previous[-1]})
    for number, group in enumerate(writer.partitions[which], first):
        name = None if which == 0 else str(number)
        for rank in group:
            after = writer.after(rank, waits)
            writer.add(rank, writer.builders[rank].coll("coll", op, size, group=name, after=after,
                                                        comm_priority=priority, duration=2, **more))


def _move(writer: _Writer, waits: list[int]) -> None:
    """Messages: a shift, a pipeline, an exchange, or one pair, among all ranks or within the groups of a partition."""
    rng, which = writer.rng, writer.rng.randrange(len(writer.partitions))
    least = min(len(group) for group in writer.partitions[which])
    if least < 2:
        which, least = 0, len(writer.builders)
    kind, by = rng.choice(["shift", "shift", "pipeline", "exchange", "pair"]), rng.randrange(1, least)
    own = len(writer.text) % (writer.layer or 2**20)    # layers share tags
    size, tag = rng.choice(BYTES), rng.choice([own, own, 7])
    chained, first = rng.random() < 0.5, rng.random() < 0.5
    writer.begin(f"{kind} by {by}, {size} bytes, partition {which}, tag {tag}, chained {chained}, "
                 f"receives first {first}, after {waits}")
    for group in writer.partitions[which]:
        to = _targets(kind, by, len(group))
        source = {t: p for p, t in enumerate(to) if t >= 0}
        for p, rank in enumerate(group):
            after, builder = writer.after(rank, waits), writer.builders[rank]
            if first and p in source:
                writer.add(rank, builder.recv("recv", group[source[p]], size, tag, after=after))
            if to[p] >= 0:
                node = builder.send("send", group[to[p]], size, tag, after=after)
                writer.add(rank, node)
                after = [node] if chained else after
            if not first and p in source:
                writer.add(rank, builder.recv("recv", group[source[p]], size, tag, after=after))


def _targets(kind: str, by: int, n: int) -> list[int]:
    """Whom each of `n` sends to, by position; -1 nobody."""
    wish: Place = {"shift": lambda p: (p + by) % n, "pipeline": lambda p: p + by, "exchange": lambda p: p ^ by,
            "pair": lambda p: -1 if p else by}[kind]
    return [wish(p) if 0 <= wish(p) < n and wish(p) != p else -1 for p in range(n)]


def _memory(writer: _Writer, waits: list[int]) -> None:
    size, differs = writer.rng.choice(BYTES), writer.rng.random() < 0.2
    writer.begin(f"memory {size} bytes, differs {differs}, after {waits}")
    for rank, builder in enumerate(writer.builders):
        writer.add(rank, builder.memory("load", size * (1 + differs * rank), after=writer.after(rank, waits)))


def _odd(writer: _Writer, waits: list[int]) -> None:
    """Some ranks do more than the others."""
    some, ns = writer.rng.choice(writer.rng.choice(writer.partitions)), writer.rng.choice(NS)
    writer.begin(f"compute {ns} ns on {some} only, after {waits}")
    for rank in some:
        node = writer.builders[rank].comp("more", num_ops=1000 * ns, tensor_size=1, after=writer.after(rank, waits))
        writer.add(rank, node)


# --- systems

ROUND, LATENCY = (1.0, 10.0, 50.0, 100.0, 37.3), (0.0, 1.0, 10.0, 20.0, 500.0)


def _astra(rng: random.Random, sizes: tuple[int, ...], writer: _Writer, links: bool) -> tuple[str, Plan]:
    """A system under ASTRA-sim's rule book; its "GB/s" are 2^30 bytes, so whole bytes per ns are odd numbers."""
    sizes = (math.prod(sizes),) if links else sizes
    dims = tuple(AstraDim(rng.choice(["Ring", "FullyConnected", "Switch"]), n, rng.choice(ROUND) * 1e9 / 2**30,
                          rng.choice(LATENCY)) for n in sizes)
    entries = {op: tuple(_astra_entry(rng, op, n) for n in sizes) for op in OPS}
    system = AstraSystem(
        splits=rng.choice([1, 1, 2, 3, 4, 8]), implementations=entries,
        scheduling=rng.choice(["LIFO", "FIFO", "EXPLICIT"]), optimization=rng.choice(["baseline", "localBWAware"]),
        endpoint_delay=rng.choice([0, 1, 10, 10, 10, 64]), active_chunks=rng.choice([1, 1, 2, 3, 8]),
        queues_per_dim=rng.choice([1] * 15 + [2]),
        local_mem_bw=rng.choice([50.0, 1000.0, 1e6]), peak_perf=1.0, roofline=True, rendezvous=rng.random() < 0.03)
    kind = rng.choice([RemoteKind.PER_NPU] * 8 + [RemoteKind.PER_NODE, RemoteKind.POOL])
    inputs = AstraInputs("random", system, dims, RemotePlan(kind, rng.choice([0, 10, 100]), 1.0, 2), writer.names,
                         Backend.LINKS if links else Backend.UNSHARED)
    plan = lower_inputs(inputs, workload_of(inputs, writer.traces()))
    return f"{dims}\n{system}\n{inputs.backend} {inputs.remote}", plan


def _astra_entry(rng: random.Random, op: CommOp, n: int) -> str:
    able = ["ring", "direct", "direct", f"direct{rng.randint(1, 8)}"]
    if op != CommOp.ALL_TO_ALL and n & (n - 1) == 0:
        able += ["halvingDoubling", "halvingDoubling"] + ["doubleBinaryTree"] * (rng.random() < 0.1)
    return rng.choice(able)


def _native(rng: random.Random, sizes: tuple[int, ...], writer: _Writer, links: bool) -> tuple[str, Plan]:
    """A system under our own rule book."""
    kinds: list[type[LinkDim]] = [ar.Ring, ar.FullyConnected, ar.Switch, ar.Switch]
    kinds += [ar.Hypercube] * (rng.random() < 0.25) + [ar.Mesh] * (rng.random() < 0.1)
    ranks, spare = math.prod(sizes), rng.random() < 0.15       # spare: twice as many NPUs as ranks
    sizes = (*sizes, 2) if spare else sizes
    dims = []
    for n in sizes:
        able = [shape for shape in kinds if shape is not ar.Hypercube or n & (n - 1) == 0]
        kind = rng.choice(able)
        more: dict[str, Any] = {"one_way": rng.random() < 0.3} if kind is ar.Ring else {}
        dims.append(kind(n, bandwidth=f"{rng.choice(ROUND)} GB/s", latency=f"{rng.choice(LATENCY)} ns", **more))
    chosen: dict[str, Any] = {op.name.lower(): _native_entries(rng, op, len(sizes)) for op in OPS}
    chosen["composition"] = rng.choice(["baseline", "blueconnect", "themis"])
    chosen["active_chunks"] = rng.choice([0, 1, 1, 1 if chosen["composition"] == "themis" else 2])
    collective = ar.Collective(
        **chosen, chunks=rng.choice([1, 1, 2, 3, 8]),
        scheduling=rng.choice(["lifo", "fifo", "priority"]), endpoint_delay=rng.choice(["0 ns", "10 ns", "1 ns"]))
    npus = range(math.prod(sizes))
    places = [tuple(npus[:ranks]), tuple(npus[::len(npus) // ranks]), tuple(rng.sample(npus, ranks))]
    placement: Any = "identity" if rng.random() < 0.8 and not spare else rng.choice(places)
    system = ar.System(compute_streams=rng.choice([1, 1, 2]), comm_streams=rng.choice([1, 1, 1, 2]),
                       p2p_streams=rng.choice([1, 2]), placement=placement)
    own, pool = ar.Remote("per_npu", bandwidth="1 GB/s", latency="10 ns"), ar.Remote("pool", bandwidth="1 GB/s")
    network = ar.Network(dims, backend="contention" if links else "closed_form")
    memory = ar.Memory(bandwidth=rng.choice(["50 GB/s", "1 TB/s"]), remote=rng.choice([own] * 8 + [pool]))
    other = ar.Memory(bandwidth=rng.choice(["20 GB/s", "1 TB/s"]), remote=memory.remote)
    types = [ar.NpuType(npus=rng.choice(["0:1", f"0:{len(npus)}:2"]), memory=other)] if rng.random() < 0.1 else []
    design = ar.Design(workload=ar.Trace("random"), network=network, collective=collective, memory=memory,
                       compute=ar.Roofline(peak="1 TFLOP/s"), system=system, npu_types=types)
    return str(design), lower(design, writer.traces())


def _native_entries(rng: random.Random, op: CommOp, dims: int) -> tuple[str, ...]:
    able = ["ring", "direct", "direct:2", "ring_two_way", "halving_doubling"]
    able += {CommOp.ALL_REDUCE: ["double_binary_tree"]}.get(op, ["bruck"])
    return tuple(rng.choice(able) for _ in range(rng.choice([1, dims])))

