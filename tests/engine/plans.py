"""Small Plans for tests of the engine: nodes by hand, collectives by algorithm, seeded random programs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from astrarium.collective.algorithms import Options, build
from astrarium.engine.plan import (
    I32,
    Algorithm,
    Backend,
    Chunk,
    CollectivePlan,
    Dim,
    Kind,
    Lane,
    NetworkPlan,
    Order,
    Phase,
    Pick,
    Plan,
    Policy,
    Program,
    Remote,
    RemoteKind,
    Shape,
)
from astrarium.vocab import CommOp

COMM = (Kind.COLLECTIVE, Kind.SEND, Kind.RECV)
LANE_OF = {Kind.DELAY: Lane.COMPUTE, Kind.COLLECTIVE: Lane.COMM, Kind.SEND: Lane.COMM, Kind.RECV: -1,
           Kind.REMOTE: Lane.COMM, Kind.SKIP: Lane.COMM}


@dataclass(frozen=True)
class Node:
    """One node: `after` are indexes in its program; `args` are slot_a, slot_b, slot_c; lane None is the usual one."""

    kind: Kind
    duration: int = 0
    size: int = 0
    after: tuple[int, ...] = ()
    args: tuple[int, int, int] = (0, 0, 0)
    lane: int | None = None


def delay(ps: int, *after: int, lane: int | None = None) -> Node:
    return Node(Kind.DELAY, duration=ps, after=after, lane=lane)


def collective(number: int, *after: int, group: int = -1, priority: int = 0) -> Node:
    return Node(Kind.COLLECTIVE, after=after, args=(number, group, priority))


def send(to: int, size: int, *after: int, tag: int = 0) -> Node:
    return Node(Kind.SEND, size=size, after=after, args=(to, tag, 0))


def recv(source: int, size: int, *after: int, tag: int = 0) -> Node:
    return Node(Kind.RECV, size=size, after=after, args=(source, tag, 0))


def program(nodes: Sequence[Node]) -> Program:
    """The Program of a list of nodes, with ids 0, 1, 2…"""
    lanes = [LANE_OF[n.kind] if n.lane is None else n.lane for n in nodes]
    children: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        for parent in sorted(set(node.after)):
            children[parent].append(i)
    comm = [n.kind in COMM for n in nodes]
    busy = [n.duration if lane == Lane.COMPUTE else 0 for n, lane in zip(nodes, lanes)]
    return Program(
        node_id=np.arange(len(nodes), dtype=np.uint64), kind=np.array([n.kind for n in nodes], dtype=np.uint8),
        lane=np.array(lanes, dtype=np.int16), duration=np.array([n.duration for n in nodes], dtype=np.int64),
        busy=np.array(busy, dtype=np.int64), size=np.array([n.size for n in nodes], dtype=np.int64),
        slot=np.where(comm, np.cumsum(comm) - 1, -1).astype(np.int32).reshape(-1),
        parents=np.array([len(set(n.after)) for n in nodes], dtype=np.int32),
        child_ptr=np.cumsum([0] + [len(c) for c in children]).astype(np.int32),
        child=np.array([c for row in children for c in row], dtype=np.int32))


def plan_of(ranks: Sequence[Sequence[Node]], network: NetworkPlan, *, policy: Policy | None = None,
            collectives: Sequence[CollectivePlan] = (), groups: Sequence[Sequence[int]] = (),
            remote: Remote | None = None, lanes: tuple[int, ...] = (1, 1, 1, 1, 1),
            reduce_bandwidth: Sequence[float] = ()) -> Plan:
    """The Plan of one list of nodes per rank; rank r on NPU r."""
    comm = [[n for n in nodes if n.kind in COMM] for nodes in ranks]
    slots = np.array([n.args for nodes in comm for n in nodes], dtype=np.int32).reshape(-1, 3)
    count = int(np.prod([d.npus for d in network.dims]))
    return Plan(npus=count, programs=tuple(program(nodes) for nodes in ranks),
                program_of=np.arange(len(ranks), dtype=np.int32), npu_of=np.arange(len(ranks), dtype=np.int32),
                slot_ptr=np.cumsum([0] + [len(nodes) for nodes in comm]).astype(np.int64),
                slot_a=slots[:, 0].copy(), slot_b=slots[:, 1].copy(), slot_c=slots[:, 2].copy(),
                groups=tuple(np.array(g, dtype=np.int32) for g in groups), collectives=tuple(collectives),
                network=network, policy=policy or Policy(), remote=remote or Remote(), lanes=lanes,
                reduce_bandwidth=np.array(reduce_bandwidth, dtype=np.float64))


def schedule_phase(algorithm: str, op: CommOp, n: int, size: int, dim: int = 0, stride: int = 1) -> Phase:
    """One native phase: `size` is the whole payload (all_gather: the gathered one)."""
    schedule = build(algorithm, op, n, Options())
    block = -(-size // schedule.blocks)
    return Phase(dim, op, Algorithm.SCHEDULE, size, n, stride, schedule=schedule, block_size=block)


def native_collective(algorithm: str, op: CommOp, n: int, size: int, *, chunks: int = 1, active: int = 1,
                      dim: int = 0) -> CollectivePlan:
    """A collective over one dim or group, `chunks` equal chunks of `size // chunks` bytes."""
    phase = schedule_phase(algorithm, op, n, size // chunks, dim)
    return CollectivePlan(op, size, (Chunk(chunks, (phase,)),), active)


def two_level(op: CommOp, sizes: tuple[int, int], size: int, algorithms: tuple[str, str], chunks: int,
              active: int, turns: tuple[I32, ...] = ()) -> CollectivePlan:
    """all_reduce over two dims: reduce_scatter inside, all_reduce outside, all_gather inside."""
    inner, outer = sizes
    each = size // chunks
    phases = (schedule_phase(algorithms[0], CommOp.REDUCE_SCATTER, inner, each, 0),
              schedule_phase(algorithms[1], CommOp.ALL_REDUCE, outer, each // inner, 1, inner),
              schedule_phase(algorithms[0], CommOp.ALL_GATHER, inner, each, 0))
    return CollectivePlan(op, size, (Chunk(chunks, phases),), active, turns=turns)


def random_turns(rng: random.Random, chunks: int) -> tuple[I32, ...]:
    """Two lists, one per dim, of the visits of `two_level` in an order in which one run could go to its end."""
    left, lists = [0] * chunks, ([], [])
    while any(number < 3 for number in left):
        chunk = rng.choice([c for c in range(chunks) if left[c] < 3])
        lists[left[chunk] % 2].append(chunk * 3 + left[chunk])
        left[chunk] += 1
    return tuple(np.array(visits, np.int32) for visits in lists)


def astra_ring(op: CommOp, n: int, size: int, *, chunks: int = 1, dim: int = 0, local: bool = False) -> CollectivePlan:
    """ASTRA-sim's ring over one dim, or (dim -1) a flat group."""
    phase = Phase(dim, op, Algorithm.RING, size // chunks, n, 1, Pick.ANY, local=local)
    return CollectivePlan(op, size, (Chunk(chunks, (phase,)),))


SHAPES = {2: list(Shape), 3: [s for s in Shape if s != Shape.HYPERCUBE], 4: list(Shape)}


def random_native_plan(seed: int) -> Plan:
    """A small random SPMD-like program on a random native system.

    It cannot stall: every rank issues the collectives of a group in one order, and sends and receives come in pairs.
    """
    rng = random.Random(seed)
    sizes = rng.choice([(2,), (3,), (4,), (2, 2), (2, 3), (4, 2), (2, 2, 2)])
    dims = tuple(Dim(rng.choice(SHAPES[n]), n, rng.choice([1.0, 12.5, 50.0, 62.5]), rng.choice([0.0, 0.5, 20.0, 500.0]))
                 for n in sizes)
    count = int(np.prod(sizes))
    groups = [sorted(rng.sample(range(count), max(2, count // 2))), list(range(count))[::-1]]
    collectives, where = _native_collectives(rng, sizes, count, len(groups[0]))
    policy = Policy(order=Order.CANONICAL, lifo=rng.choice([-1, 0, 1]), endpoint_delay=rng.choice([0, 10_000, 333]),
                    reduce_bandwidth=rng.choice([0.0, 1.6e12, 3e9]))
    lanes = (rng.choice([1, 2]), rng.choice([1, 2, 3]), 1, 1, 1)
    network = NetworkPlan(rng.choice([Backend.PORTS, "contention", "fluid"]), dims)
    return plan_of(_random_ranks(rng, count, groups, where), network, policy=policy, collectives=collectives,
                   groups=groups, remote=_random_remote(rng), lanes=lanes, reduce_bandwidth=_random_rates(rng, count))


def random_astra_plan(seed: int) -> Plan:
    """The same kind of program under ASTRA-sim's rule book.

    It stalls now and then (one in a thousand): what a SKIP node frees waits for the rank's next event, and the rank may
    be in a collective that needs it. A small group's two chunks take each of at most two queues once: with three queues
    its members would afterwards pick other queues and directions than the rest, and ASTRA-sim would hang.
    """
    rng = random.Random(seed)
    sizes = rng.choice([(2,), (4,), (8,), (2, 2), (4, 2), (2, 2, 2)])
    shapes = [Shape.RING, Shape.SWITCH, Shape.FULLY_CONNECTED]
    dims = tuple(Dim(rng.choice(shapes), n, rng.choice([1.07, 12.5, 53.687]), rng.choice([0.0, 20.0, 500.5]))
                 for n in sizes)
    count = int(np.prod(sizes))
    groups = [rng.sample(range(count), max(2, count // 2))]
    collectives, where = _astra_collectives(rng, sizes, len(groups[0]))
    bus = (rng.choice([0.0, 10.0]), 5.0, rng.choice([0.0, 30.0]), 0.25, rng.choice([1, 3]))
    policy = Policy(order=Order.ASTRA_SIM, queues_per_dim=rng.choice([1, 2]), active_chunks=rng.choice([1, 2, 5]),
                    lifo=rng.choice([-1, 0, 1]), endpoint_delay=rng.choice([0, 10_000]),
                    reduce_bandwidth=rng.choice([0.0, 1.6e12, 3e9]), rendezvous=rng.random() < 0.3,
                    shared_bus=bus if rng.random() < 0.2 else None)
    backend = rng.choice([Backend.UNSHARED, Backend.LINKS]) if len(sizes) == 1 else Backend.UNSHARED
    return plan_of(_random_ranks(rng, count, groups, where), NetworkPlan(backend, dims, whole_ns=True), policy=policy,
                   collectives=collectives, groups=groups, remote=_random_remote(rng),
                   reduce_bandwidth=_random_rates(rng, count))


def _random_rates(rng: random.Random, count: int) -> list[float]:
    """None, as most often, or a bandwidth of reductions per NPU."""
    return [] if rng.random() < 0.7 else [rng.choice([0.0, 1.6e12, 3e9]) for _ in range(count)]


def _random_remote(rng: random.Random) -> Remote:
    kind = rng.choice([RemoteKind.PER_NPU, RemoteKind.PER_NODE, RemoteKind.POOL])
    return Remote(kind, rng.choice([0, 100]), 3.7, rng.choice([1, 2]))


def _random_ranks(rng: random.Random, count: int, groups: list[list[int]], where: list[int]) -> list[list[Node]]:
    ranks: list[list[Node]] = [[] for _ in range(count)]
    for tag in range(rng.randint(2, 9)):
        step = rng.choice(["delay", "collective", "shift", "remote", "skip", "pair"])
        _random_step(rng, step, tag, ranks, groups, where)
    return ranks


def _astra_collectives(rng: random.Random, sizes: tuple[int, ...], half: int) -> tuple[list[CollectivePlan], list[int]]:
    """(plans, group of each): one walk over all dims per operation, and one flat group."""
    machines = [Algorithm.RING, Algorithm.DIRECT, Algorithm.HALVING_DOUBLING, Algorithm.DOUBLE_BINARY_TREE]
    plans, where = [], []
    for op in (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL):
        usable = machines[:2] if op == CommOp.ALL_TO_ALL else machines
        size, chunks, stride, phases = rng.choice([1000, 65_536, 1_000_003]), rng.choice([1, 4]), 1, []
        for dim, n in enumerate(sizes):
            phases.append(Phase(dim, op, rng.choice(usable), size // chunks, n, stride, Pick.ANY,
                                rng.choice([-1, 1, 2])))
            stride *= n
        plans.append(CollectivePlan(op, size, (Chunk(chunks, tuple(phases)),)))
        where.append(-1)
    flat = Phase(-1, CommOp.ALL_REDUCE, rng.choice(machines[:2]), 5000, half, 1, local=True)
    return [*plans, CollectivePlan(CommOp.ALL_REDUCE, 10_000, (Chunk(2, (flat,)),))], [*where, 0]


def _native_collectives(rng: random.Random, sizes: tuple[int, ...], count: int,
                        half: int) -> tuple[list[CollectivePlan], list[int]]:
    """(plans, group of each)."""
    ops = {"ring": [CommOp.ALL_REDUCE, CommOp.ALL_TO_ALL, CommOp.BROADCAST],
           "direct": [CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER],
           "halving_doubling": [CommOp.ALL_REDUCE, CommOp.BARRIER], "double_binary_tree": [CommOp.ALL_REDUCE]}
    plans, where = [], []
    for group, n in ((-1, count), (0, half), (1, count), (0, half)):
        algorithm = rng.choice(list(ops))
        op = rng.choice(ops[algorithm])
        size = 0 if op == CommOp.BARRIER else rng.choice([1, 1000, 65_536, 1_000_003])
        plans.append(native_collective(algorithm, op, n, size, chunks=rng.choice([1, 3]), active=rng.choice([0, 1, 2]),
                                       dim=-1))
        where.append(group)
    if len(sizes) == 2:
        algorithms = (rng.choice(["ring", "direct"]), rng.choice(["ring", "halving_doubling"]))
        chunks = rng.choice([1, 4])
        plans.append(two_level(CommOp.ALL_REDUCE, (sizes[0], sizes[1]), 40_000, algorithms, chunks, rng.choice([1, 2]),
                               random_turns(rng, chunks) if rng.random() < 0.5 else ()))
        where.append(-1)
    return plans, where


def _random_step(rng: random.Random, step: str, tag: int, ranks: list[list[Node]], groups: list[list[int]],
                 where: list[int]) -> None:
    """Append one step to every rank. Every step waits for the previous one now and then."""
    count, linked, same = len(ranks), rng.random() < 0.5, rng.random() < 0.5
    number, shift, size = rng.randrange(len(where)), rng.randrange(1, count), rng.choice([1, 5000, 70_000])
    duration = rng.choice([0, 1000, 12_345, 7_000_000])
    for rank, nodes in enumerate(ranks):
        after = (len(nodes) - 1,) if nodes and (linked or step == "shift") else ()
        if step == "delay":
            nodes.append(Node(Kind.DELAY, duration if same else duration * (rank + 1), after=after))
        elif step == "collective":
            group = where[number]
            if group < 0 or rank in groups[group]:
                before = tuple(i for i, node in enumerate(nodes) if node.kind == Kind.COLLECTIVE)[-1:]
                nodes.append(Node(Kind.COLLECTIVE, after=after + before, args=(number, group, tag)))
        elif step == "shift":
            nodes.append(Node(Kind.SEND, size=size, after=after, args=((rank + shift) % count, tag, 0),
                              lane=int(Lane.P2P)))
            nodes.append(Node(Kind.RECV, size=size, after=after, args=((rank - shift) % count, tag, 0)))
        elif step == "pair" and rank < 2:
            make = Node(Kind.SEND if rank == 0 else Kind.RECV, size=size, args=(1 - rank, tag, 0), lane=-1)
            nodes.append(make)
        elif step == "remote":
            nodes.append(Node(Kind.REMOTE, size=size * (1 if same else rank + 1), after=after, lane=int(Lane.COPY)))
        elif step == "skip":
            nodes.append(Node(Kind.SKIP, after=after, lane=-1))
