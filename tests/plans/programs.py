"""Random SPMD programs as traces, written step by step for all ranks; draw.py puts systems under them.

A program is small: 2 to 16 ranks, a dozen steps. Times are chosen so that many things happen at the same instant (round
bandwidths, durations of a few ns), because that is where equal ranks could part.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from astrarium.trace import Traces, traces_of_bytes
from astrarium.trace.build import TraceBuilder
from astrarium.trace.node import IOInfo
from astrarium.vocab import CommOp, NodeKind

__all__ = ["NS", "OPS", "Writer", "partitions_of", "write"]

BYTES = (1, 1000, 4000, 8192, 64_000, 100_003, 1 << 20)
NS = (0, 1, 2, 5, 10, 20, 64, 100, 1000, 4321, 20_000)
OPS = (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL)
NOTHING = 0.05
RARE = {True: (CommOp.BROADCAST,),
        False: (CommOp.BROADCAST, CommOp.REDUCE, CommOp.GATHER, CommOp.SCATTER, CommOp.BARRIER)}
Partition = list[list[int]]
Place = Callable[[int], int]


class Writer:
    """The traces of all ranks, written step by step; `text` collects one line per step.

    `compat`: for ASTRA-sim's rule book. `world`: collectives of all ranks only, and no messages. `ordered`: the share
    of collectives that wait for the one before; else ranks may issue them in different orders, and stall.
    """

    def __init__(self, rng: random.Random, partitions: list[Partition], compat: bool, *, world: bool = False,
                 ordered: float = 0.7) -> None:
        self.rng, self.partitions, self.compat, self.world, self.ordered = rng, partitions, compat, world, ordered
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

    def size(self) -> int:
        """Bytes of a message, or of a collective's payload; now and then none, which ASTRA-sim does not know."""
        return 0 if not self.compat and self.rng.random() < NOTHING else self.rng.choice(BYTES)

    def traces(self) -> Traces:
        """What was written."""
        return traces_of_bytes([builder.encode() for builder in self.builders])


def write(writer: Writer, layers: int = 0) -> None:
    """A few steps. With `layers` some of them come again and again, so often; at the end something waits for one step
    of most layers."""
    rng = writer.rng
    for _ in range(rng.randint(1, 10) if not layers else rng.randint(0, 2)):
        _step(writer)
    if layers:
        _layers(writer, layers, rng.randint(1, 5))


def partitions_of(rng: random.Random, sizes: tuple[int, ...]) -> list[Partition]:
    """Partition 0 is all ranks (no group); the others are contiguous, strided, two runs, along dims, irregular, one
    list of some ranks, or one again."""
    count = math.prod(sizes)
    ranks = list(range(count))
    found: list[Partition] = [[ranks]]
    for _ in range(rng.randint(0, 3)):
        part = rng.choice([n for n in range(1, count + 1) if count % n == 0])
        kind = rng.choice(["contiguous", "strided", "runs", "dim", "shuffled", "one", "list", "reversed", "again"])
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
        elif kind in ("one", "list"):
            some = rng.sample(ranks, rng.randint(1, count))
            found.append([sorted(some) if kind == "one" else some])
        else:
            order = {"contiguous": ranks, "reversed": ranks[::-1], "shuffled": rng.sample(ranks, count)}[kind]
            found.append([order[i:i + part] for i in range(0, count, part)])
    return found


def _layers(writer: Writer, layers: int, period: int) -> None:
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


def _step(writer: Writer, waits: list[int] | None = None) -> None:
    """One step of all ranks, after some earlier ones."""
    rng, done = writer.rng, len(writer.text)
    if waits is None:
        recent = range(writer.since, done)
        least = int(writer.since > 0)
        waits = sorted(rng.sample(recent, min(len(recent), max(least, rng.choice([0, 1, 1, 1, 2])))))
        if done and rng.random() < (0.5 if writer.compat else 0.7):
            waits = [done - 1]
    kinds = [_compute] * 4 + [_collective] * 4 + ([] if writer.world else [_move] * 2) + [_memory, _odd, _note]
    rng.choice(kinds)(writer, waits)


def _compute(writer: Writer, waits: list[int]) -> None:
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


def _collective(writer: Writer, waits: list[int]) -> None:
    rng = writer.rng
    which = 0 if writer.world else rng.randrange(len(writer.partitions))
    op, size, priority = rng.choice(OPS * 3 + RARE[writer.compat]), writer.size(), rng.randrange(3)
    more: dict[str, Any] = {}
    if writer.compat and which == 0 and rng.random() < 0.15:
        more["involved_dim"] = [rng.random() < 0.7 for _ in range(4)]
    writer.begin(f"{op.name} {size} bytes, partition {which}, priority {priority}, {more}, after {waits}")
    first = 1 + sum(map(len, writer.partitions[1:which]))
    previous = [s for s, line in enumerate(writer.text[:-1]) if line.split()[0] in CommOp.__members__]
    if previous and rng.random() < writer.ordered:
        waits = sorted({*waits, previous[-1]})
    for number, group in enumerate(writer.partitions[which], first):
        name = None if which == 0 else str(number)
        for rank in group:
            after = writer.after(rank, waits)
            writer.add(rank, writer.builders[rank].coll("coll", op, size, group=name, after=after,
                                                        comm_priority=priority, duration=2, **more))


def _move(writer: Writer, waits: list[int]) -> None:
    """Messages: a shift, a pipeline, an exchange, or one pair, among all ranks or within the groups of a partition."""
    rng, which = writer.rng, writer.rng.randrange(len(writer.partitions))
    least = min(len(group) for group in writer.partitions[which])
    if least < 2:
        which, least = 0, len(writer.builders)
    kind, by = rng.choice(["shift", "shift", "pipeline", "exchange", "pair"]), rng.randrange(1, least)
    own = len(writer.text) % (writer.layer or 2**20)    # layers share tags
    size, tag = writer.size(), rng.choice([own, own, 7])
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


def _memory(writer: Writer, waits: list[int]) -> None:
    size, differs = writer.rng.choice(BYTES), writer.rng.random() < 0.2
    writer.begin(f"memory {size} bytes, differs {differs}, after {waits}")
    for rank, builder in enumerate(writer.builders):
        writer.add(rank, builder.memory("load", size * (1 + differs * rank), after=writer.after(rank, waits)))


def _odd(writer: Writer, waits: list[int]) -> None:
    """Some ranks do more than the others."""
    some, ns = writer.rng.choice(writer.rng.choice(writer.partitions)), writer.rng.choice(NS)
    writer.begin(f"compute {ns} ns on {some} only, after {waits}")
    for rank in some:
        node = writer.builders[rank].comp("more", num_ops=1000 * ns, tensor_size=1, after=writer.after(rank, waits))
        writer.add(rank, node)


def _note(writer: Writer, waits: list[int]) -> None:
    """Metadata that waits, and that others may wait for: it completes at once."""
    writer.begin(f"note after {waits}")
    for rank, builder in enumerate(writer.builders):
        writer.add(rank, builder.node(NodeKind.METADATA, "note", after=writer.after(rank, waits)))
