"""Between which nodes of the network the messages of a Plan go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from astrarium.arrays import I64
from astrarium.engine.plan import CustomProgram, Dim, Kind, Phase, Plan, Program
from astrarium.fabric.graph import links_of
from astrarium.vocab import PeerMode, Schedule

__all__ = ["pairs_of", "switch_of", "used_collectives"]


def pairs_of(plan: Plan) -> I64:
    """(source, destination) of the messages of a plan [pairs, 2], each once: NPUs, or switches that compute, which are
    nodes of the network's graph (of dims: as `fabric.graph.graph_of` numbers them)."""
    found = [np.zeros((0, 2), np.int64), _of_messages(plan)]
    for collective, group in used_collectives(plan):
        ranks = np.arange(plan.program_of.size) if group < 0 else plan.groups[group]
        members = plan.npu_of[ranks].astype(np.int64)
        each = plan.collectives[collective]
        for phase in {id(phase): phase for chunk in each.chunks for phase in chunk.phases}.values():
            found += _of_phase(plan, phase, members)
        if each.custom is not None:
            found.append(_of_custom(each.custom, members))
    return np.unique(np.concatenate(found), axis=0)


def used_collectives(plan: Plan) -> list[tuple[int, int]]:
    """(collective, group) of the nodes of a plan, each once."""
    pairs: set[tuple[int, int]] = set()
    for number, program in enumerate(plan.programs):
        places = _places(plan, number, program, Kind.COLLECTIVE)
        found = np.unique(np.stack([plan.slot_a[places], plan.slot_b[places]], axis=1), axis=0)
        pairs.update([(int(a), int(b)) for a, b in found])
    return sorted(pairs)


def switch_of(dims: Sequence[Dim], d: int, npus: int) -> I64:
    """[npus] the number of each NPU's switch among those of a dim."""
    stride = int(np.prod([dim.npus for dim in dims[:d]]))
    return links_of(dims[d], stride, npus, 0)[1]


def _places(plan: Plan, number: int, program: Program, kind: Kind) -> I64:
    """Places of the arguments of nodes of a kind, rank after rank of those that run a program."""
    slots = np.unique(program.slot[program.kind == kind])
    places: I64 = (plan.slot_ptr[:-1][plan.program_of == number][:, None] + slots).ravel()
    return places


def _of_messages(plan: Plan) -> I64:
    """Of sends outside collectives."""
    found = [np.zeros((0, 2), np.int64)]
    rank_of = np.repeat(np.arange(plan.program_of.size), np.diff(plan.slot_ptr))
    for number, program in enumerate(plan.programs):
        places = _places(plan, number, program, Kind.SEND)
        ends = np.stack([plan.npu_of[rank_of[places]], plan.npu_of[plan.slot_a[places]]], axis=1).astype(np.int64)
        found.append(np.unique(ends, axis=0))
    return np.concatenate(found)


def _of_custom(custom: CustomProgram, members: I64) -> I64:
    """Of a custom collective."""
    found = [np.zeros((0, 2), np.int64)]
    for number, (program, peers) in enumerate(zip(custom.programs, custom.slot_peer, strict=True)):
        to = peers[np.unique(program.slot[program.kind == Kind.SEND])]
        who = np.flatnonzero(custom.program_of == number)
        found.append(np.stack([np.repeat(members[who], to.size), np.tile(members[to], who.size)], axis=1))
    return np.concatenate(found)


def _of_phase(plan: Plan, phase: Phase, members: I64) -> Iterator[I64]:
    """Of a phase of a schedule, in every circle of its participants."""
    schedule = phase.schedule
    if schedule is None or phase.lasts:
        return
    starts = np.arange(members.size)
    starts = starts[starts // phase.stride % phase.n == 0]
    circles = members[starts[:, None] + np.arange(phase.n) * phase.stride]
    if schedule.switches:
        circles = np.concatenate([circles, _switches(plan, phase, circles)], axis=1)
    places = _sends(schedule)
    yield np.unique(circles[:, places].reshape(-1, 2), axis=0)


def _switches(plan: Plan, phase: Phase, circles: I64) -> I64:
    """[circles, switches of the schedule] nodes of the switches that serve them."""
    assert phase.in_switch is not None
    assert phase.schedule is not None
    if phase.in_switch.nodes:
        return np.tile(np.array(phase.in_switch.nodes, np.int64), (len(circles), 1))
    dims = plan.network.dims
    before = sum(plan.npus // dim.npus for dim in dims[:phase.dim] if dim.shape.name == "SWITCH" and dim.npus > 1)
    node = plan.npus + before + switch_of(dims, phase.dim, plan.npus)[circles[:, 0]]
    return np.repeat(node[:, None], phase.schedule.switches, axis=1)


def _sends(schedule: Schedule) -> I64:
    """[sends, 2] the places between which a schedule sends, each pair once."""
    pairs = [np.zeros((0, 2), np.int64)]
    for program in np.unique(schedule.program).tolist():
        to = np.unique(schedule.send_peer[schedule.send_ptr[program]:schedule.send_ptr[program + 1]]).astype(np.int64)
        who = np.flatnonzero(schedule.program == program)
        from_, peer = np.repeat(who, to.size), np.tile(to, who.size)
        if schedule.peer_mode == PeerMode.RELATIVE:
            peer = (from_ + peer) % schedule.n
        elif schedule.peer_mode == PeerMode.XOR:
            peer = from_ ^ peer
        pairs.append(np.stack([from_, peer], axis=1))
    return np.unique(np.concatenate(pairs), axis=0)
