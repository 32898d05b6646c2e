"""ASTRA-sim's inputs to a Plan under `compat: astra_sim`: plain values and one column set per class of equal ranks in.

Every rule here is ASTRA-sim's (docs/background/astra_sim_compatibility.md); none of it serves the native semantics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.arrays import I32, I64
from astrarium.astra_sim.collectives import CollectiveTable, CustomCollective
from astrarium.astra_sim.programs import COMM_KIND, program_of_class
from astrarium.astra_sim.rules import ALL, AstraRules, in_ps
from astrarium.engine.plan import (
    Algorithm,
    Backend,
    CollectivePlan,
    Dim,
    Kind,
    NetworkPlan,
    Order,
    Phase,
    Plan,
    Policy,
    Program,
    Remote,
    RemoteKind,
    Shape,
)
from astrarium.errors import InputError, UnsupportedError
from astrarium.lower.members import member_test, refuse_strangers
from astrarium.lower.node_tables import COMM_TYPE
from astrarium.trace.work import TraceClass
from astrarium.vocab import CommOp

__all__ = ["AstraDim", "AstraSystem", "CustomCollective", "TraceClass", "lower_astra_sim", "wrapped_message"]

LIFO = {"LIFO": 1, "FIFO": -1, "EXPLICIT": 0}
COLLECTIVE, SEND, RECV, REMOTE = int(Kind.COLLECTIVE), int(Kind.SEND), int(Kind.RECV), int(Kind.REMOTE)
SHAPES = {"Ring": Shape.RING, "Switch": Shape.SWITCH, "FullyConnected": Shape.FULLY_CONNECTED}


class AstraDim(Struct, frozen=True):
    """One dim of network.yml: its block name, NPUs, "GB/s" (2^30 bytes) and ns."""

    topology: str
    npus: int
    bandwidth: float
    latency: float


class AstraSystem(Struct, frozen=True):
    """system.json and the command line's flags as values; a default is what ASTRA-sim does without the key.

    `implementations[op]` is the list per dim ("ring", "direct4"...); `custom[op]` and `custom_nodes[node id]` replace
    it. `shared_bus` is (L, o, g, G) where model-shared-bus is 1. `endpoint_delay` None: 10 ns, not scaled.
    `optimization` None: no such key, which ASTRA-sim answers with whatever its memory holds. `where` and `network`
    precede keys in messages.
    """

    splits: int
    implementations: Mapping[CommOp, tuple[str, ...]] = field(default_factory=dict)
    custom: Mapping[CommOp, CustomCollective] = field(default_factory=dict)
    custom_nodes: Mapping[int, CustomCollective] = field(default_factory=dict)
    scheduling: str = "LIFO"
    optimization: str | None = None
    endpoint_delay: int | None = None
    active_chunks: int = 1
    queues_per_dim: int = 1
    local_mem_bw: float = 0.0       # 10^9 bytes/s
    peak_perf: float = 0.0          # 10^12 flop/s
    roofline: bool = False
    replay_only: bool = False
    injection_scale: float = 1.0
    rendezvous: bool = False
    local_reduction_delay: int = 1
    shared_bus: tuple[float, float, float, float] | None = None
    where: str = "system."
    network: str = "network."


def lower_astra_sim(classes: Sequence[TraceClass], groups: Sequence[I32], system: AstraSystem, dims: Sequence[AstraDim],
                    backend: str, remote: Remote | None = None, rules: AstraRules = ALL) -> Plan:
    """The Plan that reproduces ASTRA-sim on these inputs (without `rules.whole_ns` every time is a 1,000 times itself).

    `classes` cover every rank once; `groups[g]` is the list of ranks of group g in the order of the file. Raises
    InputError and its kin with paths such as `system.preferred-dataset-splits`.
    """
    sizes = tuple([dim.npus for dim in dims])
    npus = math.prod(sizes)
    if backend == Backend.LINKS and len(dims) > 1:
        raise UnsupportedError(f"{system.network}topology", f"{len(dims)} dims, but ASTRA-sim's congestion-aware back "
                               "end has one", expected="one dim; congestion_unaware; or a native design with "
                               "network.backend contention, which takes any number of dims (astrarium convert)")
    table = CollectiveTable(npus, sizes, groups, system.splits, system.optimization,
                            system.implementations, system.custom, system.custom_nodes, system.where, rules)
    remote = remote or Remote()
    programs, program_of = _programs(classes, npus, system, rules)
    work = [_communication(trace, program) for trace, program in zip(classes, programs, strict=True)]
    _check_nodes(work, groups, npus, remote)
    slot_ptr, slot_a, slot_b, slot_c = _slots(work, npus, table)
    if system.shared_bus is not None:
        _check_bus(system, table.plans())
    plan = Plan(npus=npus, programs=programs, program_of=program_of, npu_of=np.arange(npus, dtype=np.int32),
                slot_ptr=slot_ptr, slot_a=slot_a, slot_b=slot_b, slot_c=slot_c, groups=table.groups,
                collectives=table.plans(), network=_network(dims, backend, system.network), policy=_policy(system),
                remote=remote)
    return plan if rules.whole_ns else in_ps(plan)


def _programs(classes: Sequence[TraceClass], npus: int, system: AstraSystem,
              rules: AstraRules) -> tuple[tuple[Program, ...], I32]:
    program_of = np.full(npus, -1, dtype=np.int32)
    for number, trace in enumerate(classes):
        try:
            program_of[trace.ranks] = number
        except IndexError:
            raise InputError("workload", f"rank {int(trace.ranks.max())} is outside the network",
                             expected=f"{npus} ranks") from None
    if -1 in program_of:
        raise InputError("workload", f"rank {int(program_of.argmin())} has no trace",
                         expected=f"one per NPU, {npus} in all")
    programs = tuple(
        program_of_class(trace, roofline=system.roofline, replay_only=system.replay_only, peak_perf=system.peak_perf,
                         local_mem_bw=system.local_mem_bw, rules=rules) for trace in classes)
    return programs, program_of


class _Communicating(NamedTuple):
    """A class whose slots are those of its program; `nodes`: indexes of the nodes that have one."""

    trace: TraceClass
    program: Program
    nodes: I64


def _communication(trace: TraceClass, program: Program) -> _Communicating:
    """Without the arguments of communication that is only replayed (broadcasts, or everything)."""
    nodes = COMM_KIND[program.kind].nonzero()[0]
    if nodes.size < trace.slot_a.shape[1]:
        kept = program.slot[COMM_TYPE[trace.type]] >= 0
        trace = replace(trace, slot_a=trace.slot_a[:, kept], slot_b=trace.slot_b[:, kept])
    return _Communicating(trace, program, nodes)


def _check_nodes(work: Sequence[_Communicating], groups: Sequence[I32], npus: int, remote: Remote) -> None:
    """Refuse what ASTRA-sim aborts on: remote memory that is not there, messages to oneself, foreign groups."""
    inside = member_test(groups, npus) if groups else None
    for trace, program, nodes in work:
        kinds = program.kind.tobytes()      # faster to search than arrays
        if REMOTE in kinds and remote.kind == RemoteKind.NONE:
            i = kinds.index(REMOTE)
            raise trace.refusal(i, f"an access of {int(program.size[i])} bytes to remote memory, but there is none",
                                expected="memory-type PER_NPU_MEMORY_EXPANSION, PER_NODE_MEMORY_EXPANSION or "
                                "MEMORY_POOL")
        messages = SEND in kinds or RECV in kinds
        for row, slot in np.argwhere(trace.slot_a == trace.ranks[:, None])[:1] if messages else ():
            raise trace.refusal(nodes[slot], "its peer is the rank itself", row=row, expected="another rank")
        if inside is not None and COLLECTIVE in kinds:
            collective = np.flatnonzero(program.kind[nodes] == COLLECTIVE)
            refuse_strangers(trace, nodes[collective], trace.slot_b[:, collective], groups, npus, inside)


def _slots(work: Sequence[_Communicating], npus: int, table: CollectiveTable) -> tuple[I64, I32, I32, I32]:
    """`slot_ptr` and the three argument arrays; one assignment per class and array."""
    widths = np.zeros(npus + 1, dtype=np.int64)
    runs = [_run(each.trace.ranks) for each in work]
    for run, (_, _, nodes) in zip(runs, work, strict=True):
        widths[1:][run] = nodes.size
    pointer = widths.cumsum()
    columns = np.zeros((3, int(pointer[-1])), dtype=np.int32)
    for run, (trace, program, nodes) in zip(runs, work, strict=True):
        if not nodes.size:
            continue
        arguments = table.slots(trace, program, nodes)
        if isinstance(run, slice):
            rows = columns[:, pointer[run.start]:pointer[run.stop]].reshape(3, -1, nodes.size)
            rows[0], rows[1], rows[2] = arguments
        else:
            places = pointer[run][:, None] + np.arange(nodes.size)
            columns[0][places], columns[1][places], columns[2][places] = arguments
    return pointer, columns[0], columns[1], columns[2]


def _run(ranks: I32) -> slice | I32:
    """`ranks` as a slice if they are consecutive, which numpy fills many times faster."""
    first, last = int(ranks[0]), int(ranks[-1])
    consecutive = last - first + 1 == ranks.size and bool((ranks == np.arange(first, last + 1)).all())
    return slice(first, last + 1) if consecutive else ranks


def _check_bus(system: AstraSystem, plans: Sequence[CollectivePlan]) -> None:
    """ASTRA-sim's bus keeps the bytes of a message in 32 bits with a sign, and aborts where they come out negative."""
    for plan in plans:
        for phase in (phase for chunk in plan.chunks for phase in chunk.phases):
            for size in _bus_messages(phase):
                if size >> 31 & 1:
                    raise UnsupportedError(
                        f"{system.where}model-shared-bus", f"a message of {size} bytes, {size % 2**32 - 2**32} in the "
                        "32 bits that ASTRA-sim's bus has for it",
                        expected="below 2^31 bytes: more preferred-dataset-splits, or no shared bus")


def wrapped_message(plan: Plan) -> int | None:
    """Bytes of a message that the shared bus of `plan` takes for a smaller one, if it has such a message."""
    if plan.policy.shared_bus is None:
        return None
    phases = (phase for each in plan.collectives for chunk in each.chunks for phase in chunk.phases)
    return next((size for phase in phases for size in _bus_messages(phase) if size >= 2**32), None)


def _bus_messages(phase: Phase) -> list[int]:
    """Bytes of the messages of a phase that cross the bus: flat rings of groups do not."""
    if phase.algorithm == Algorithm.DOUBLE_BINARY_TREE:
        return [phase.size]
    if phase.local or phase.algorithm == Algorithm.CUSTOM:
        return []
    gathers = phase.op == CommOp.ALL_GATHER
    if phase.algorithm == Algorithm.HALVING_DOUBLING:
        steps = range(phase.n.bit_length() - 1)
        return [phase.size << step if gathers else phase.size >> step + 1 for step in steps]
    return [phase.size if gathers else phase.size // phase.n]


def _network(dims: Sequence[AstraDim], backend: str, where: str) -> NetworkPlan:
    result = []
    for number, dim in enumerate(dims):
        shape = SHAPES.get(dim.topology)
        if shape is None:
            raise InputError(f"{where}topology[{number}]", repr(dim.topology), expected=", ".join(SHAPES))
        result.append(Dim(shape, dim.npus, dim.bandwidth * (1 << 30) / 1_000_000_000, dim.latency))
    return NetworkPlan(backend, tuple(result), whole_ns=True)


def _policy(system: AstraSystem) -> Policy:
    if system.scheduling not in LIFO:
        raise InputError(f"{system.where}scheduling-policy", repr(system.scheduling), expected=", ".join(LIFO))
    delay = 10 if system.endpoint_delay is None else int(system.endpoint_delay * system.injection_scale)
    if delay >= 2**52:
        raise InputError(f"{system.where}endpoint-delay", f"{delay} ns with the injection scale",
                         expected="below 2^52 ns")
    bus = None
    if system.shared_bus is not None:
        latency, overhead, gap, per_byte = (float(np.float32(value)) for value in system.shared_bus)
        bus = (float(int(latency)), float(int(overhead)), float(int(gap)), per_byte, system.local_reduction_delay)
    return Policy(order=Order.ASTRA_SIM, queues_per_dim=system.queues_per_dim, active_chunks=system.active_chunks,
                  lifo=LIFO[system.scheduling], endpoint_delay=delay * 1000,
                  reduce_bandwidth=system.local_mem_bw * 1_000_000_000, rendezvous=system.rendezvous, shared_bus=bus)
