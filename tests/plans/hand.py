"""Small Plans by hand: nodes, and collectives by algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from astrarium.collective.algorithms import Options, build
from astrarium.engine.plan import (
    Algorithm,
    Chunk,
    CollectivePlan,
    Kind,
    Lane,
    NetworkPlan,
    Phase,
    Pick,
    Plan,
    Policy,
    Program,
    Remote,
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
    made: dict[tuple[object, ...], Program] = {}    # programs differ by all but the arguments of their nodes
    shapes = [tuple((n.kind, n.duration, n.size, n.after, n.lane) for n in nodes) for nodes in ranks]
    for shape, nodes in zip(shapes, ranks, strict=True):
        if shape not in made:
            made[shape] = program(nodes)
    return Plan(npus=count, programs=tuple(made[shape] for shape in shapes),
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
              active: int) -> CollectivePlan:
    """all_reduce over two dims: reduce_scatter inside, all_reduce outside, all_gather inside."""
    inner, outer = sizes
    each = size // chunks
    phases = (schedule_phase(algorithms[0], CommOp.REDUCE_SCATTER, inner, each, 0),
              schedule_phase(algorithms[1], CommOp.ALL_REDUCE, outer, each // inner, 1, inner),
              schedule_phase(algorithms[0], CommOp.ALL_GATHER, inner, each, 0))
    return CollectivePlan(op, size, (Chunk(chunks, phases),), active)


def astra_ring(op: CommOp, n: int, size: int, *, chunks: int = 1, dim: int = 0, local: bool = False) -> CollectivePlan:
    """ASTRA-sim's ring over one dim, or (dim -1) a flat group."""
    phase = Phase(dim, op, Algorithm.RING, size // chunks, n, 1, Pick.ANY, local=local)
    return CollectivePlan(op, size, (Chunk(chunks, (phase,)),))
