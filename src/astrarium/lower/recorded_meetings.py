"""Replay of recorded collectives as what they were: a wait for the last member, then each member's time from there.

A member's recorded duration contains its wait for the others. With the ranks' clocks that wait is known; without them
every member takes the shortest duration of all, which is that of the last to come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from astrarium.arrays import I32, I64
from astrarium.collective.custom import CustomNode, custom_program
from astrarium.design import Design
from astrarium.engine.plan import Backend, CollectivePlan, CustomProgram, Dim, Kind, Plan, Program, Shape
from astrarium.errors import UnsupportedError
from astrarium.lower.changes import changing
from astrarium.lower.collectives import slot_nodes
from astrarium.lower.distinct import distinct_rows
from astrarium.lower.models import Models, own_models
from astrarium.lower.plan import columns_of, programs_of, surroundings
from astrarium.lower.work import Work
from astrarium.profile.clocks import Clocks
from astrarium.profile.recorded import TOGETHER, WORLD, Calls, collective_calls, is_timed, world_size
from astrarium.trace.columns import Traces
from astrarium.trace.work import TraceClass

__all__ = ["lower_meetings", "with_meetings"]

PS_PER_NS = 1000


def with_meetings(work: Work, traces: Traces, groups: Mapping[str, Sequence[int]], clocks: Clocks | None
                  ) -> tuple[Work, tuple[CollectivePlan, ...]]:
    """The work with the collectives of complete groups as meetings, and the plans of these: `slot_a` is the number of a
    meeting's plan, `slot_b` that of its group. Groups with members that have no trace, or that do not agree on what
    they issued, keep their recorded times, as do operations in which no member waits for all others (a broadcast's
    root).
    """
    if not is_timed(traces):
        return work, ()
    worlds = [size for rank in range(traces.ranks) if (size := world_size(traces, rank)) is not None]
    everyone = {WORLD: tuple(range(traces.ranks))} if all(size <= traces.ranks for size in worlds) else {}
    calls, slots = collective_calls(traces, groups), _Slots(work.classes, traces)
    plans: list[CollectivePlan] = []
    members: list[I32] = []
    names: list[str] = []
    ends: dict[int, CustomProgram] = {}
    for name, ranks in {**groups, **everyone}.items():
        found = _agreed(name, ranks, calls)
        together = np.flatnonzero(np.isin(found[0].op, TOGETHER)) if found else np.zeros(0, np.int64)
        if not together.size:
            continue
        tail = _tails(found, None if clocks is None else clocks.shift[list(ranks)])
        if len(ranks) not in ends:
            ends[len(ranks)] = _program(len(ranks))
        for number in together.tolist():
            for rank, each in zip(ranks, found, strict=True):
                slots.set(rank, int(each.node[number]), len(plans), len(members))
            plans.append(CollectivePlan(int(found[0].op[number]), int(found[0].size[number]), (),
                                        custom=_lasting(ends[len(ranks)], tail[:, number] * PS_PER_NS)))
        members.append(np.array(ranks, np.int32))
        names.append(name or "0")
    if not plans:
        return work, ()
    return replace(work, classes=slots.classes(), groups=tuple(members), names=tuple(names)), tuple(plans)


def lower_meetings(design: Design, work: Work, models: Models, meetings: tuple[CollectivePlan, ...],
                   groups: int) -> Plan:
    """The Plan of a design in which every node takes its recorded time: a network without latency brings members
    together. `groups`: process groups of a rank."""
    if path := changing(design):
        raise UnsupportedError(path, "have no effect where every node takes its recorded time",
                               expected="no changes, or another compute.model")
    programs = programs_of(design, work, own_models(design))
    columns = columns_of(programs, _slots)
    around = surroundings(design, models, (Dim(Shape.SWITCH, design.network.npus, 1.0, 0.0),), groups)
    return Plan(npus=design.network.npus, programs=programs.programs, program_of=programs.program_of,
                npu_of=programs.npu_of, slot_ptr=columns.pointer, slot_a=columns.a, slot_b=columns.b,
                slot_c=columns.c, groups=work.groups, collectives=meetings,
                **{**around, "network": replace(around["network"], backend=Backend.PORTS, graph=None)})


def _slots(trace: TraceClass, program: Program) -> tuple[I32, I32, I32]:
    """The arguments of a class whose collectives are meetings."""
    nodes, chosen = slot_nodes(trace, program)
    return trace.slot_a[:, chosen], trace.slot_b[:, chosen], np.zeros(nodes.size, np.int32)


class _Slots:
    """Arguments of the classes' comm nodes, to be set one by one."""

    def __init__(self, classes: Sequence[TraceClass], traces: Traces) -> None:
        self._classes, self._traces = classes, traces
        self._a = [each.slot_a.copy() for each in classes]
        self._b = [each.slot_b.copy() for each in classes]
        self._comm = []
        for columns in traces.classes:      # index in the columns -> comm node in order of ids
            order = np.argsort(columns.node_id[columns.comm_node], kind="stable")
            place = np.full(columns.nodes, -1, np.int64)
            place[columns.comm_node[order]] = np.arange(order.size)
            self._comm.append(place)

    def set(self, rank: int, node: int, plan: int, group: int) -> None:
        number, row = int(self._traces.rank_class[rank]), int(self._traces.rank_row[rank])
        slot = int(self._comm[number][node])
        self._a[number][row, slot], self._b[number][row, slot] = plan, group

    def classes(self) -> tuple[TraceClass, ...]:
        return tuple(replace(each, slot_a=a, slot_b=b)
                     for each, a, b in zip(self._classes, self._a, self._b, strict=True))


def _agreed(name: str, ranks: Sequence[int], calls: Sequence[Mapping[str, Calls]]) -> list[Calls]:
    """The members' collectives; empty where one has no trace or issued others."""
    if len(ranks) < 2 or max(ranks) >= len(calls):
        return []
    found = [calls[rank].get(name) for rank in ranks]
    first = found[0]
    if first is None or any(each is None or not first.same(each) for each in found):
        return []
    return [each for each in found if each is not None]


def _program(members: int) -> CustomProgram:
    """Everyone tells position 0, which tells everyone: messages without bytes, then a delay."""
    others = range(1, members)
    first = [CustomNode(peer, Kind.RECV, peer=peer) for peer in others]
    first += [CustomNode(members + peer, Kind.SEND, tuple(others), peer=peer) for peer in others]
    first.append(CustomNode(2 * members, Kind.DELAY, tuple(others), duration=1))
    rest = [CustomNode(1, Kind.SEND, peer=0), CustomNode(2, Kind.RECV, peer=0),
            CustomNode(3, Kind.DELAY, (2,), duration=1)]
    return custom_program([first, *([rest] * (members - 1))])


def _lasting(program: CustomProgram, tail: I64) -> CustomProgram:
    """The program with a delay of `tail` [positions] ps at each position."""
    rows = np.stack([program.program_of.astype(np.int64), tail], axis=1)
    kinds, kind_of = distinct_rows(rows)
    programs = [program.programs[number] for number in kinds[:, 0].tolist()]
    return CustomProgram(
        programs=tuple(replace(each, duration=np.where(each.kind == Kind.DELAY, time, 0).astype(np.int64))
                       for each, time in zip(programs, kinds[:, 1].tolist(), strict=True)),
        program_of=kind_of.astype(np.int32), slot_peer=tuple(program.slot_peer[n] for n in kinds[:, 0].tolist()),
        slot_tag=tuple(program.slot_tag[n] for n in kinds[:, 0].tolist()))


def _tails(calls: Sequence[Calls], shift: I64 | None) -> I64:
    """[members, collectives] ns from the last member's arrival to each member's end."""
    begin, end = np.stack([each.begin for each in calls]), np.stack([each.end for each in calls])
    if shift is None:
        return np.broadcast_to((end - begin).min(axis=0), begin.shape)
    last = (begin - shift[:, None]).max(axis=0)
    tail: I64 = np.maximum(end - shift[:, None] - last, 0)
    return tail
