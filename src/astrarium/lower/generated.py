"""Whether what a workload generator made can be lowered: a fault of it is said with class, rank, node and name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astrarium.arrays import I64
from astrarium.errors import InputError
from astrarium.lower.members import Members, first_nodes, refuse_foreign_groups
from astrarium.lower.node_tables import COMM_TYPE
from astrarium.trace.work import Generated, TraceClass
from astrarium.vocab import NodeKind

__all__ = ["check_generated"]

COLUMNS = ("type", "is_cpu", "duration_us", "num_ops", "tensor_size", "comm_type", "comm_size", "involved", "priority")
SHARED = ("type", "comm_type", "comm_size", "priority")     # what nodes of one slot have in common
WHERE = "workload"
LONGEST = np.uint64(2**63 // 10**6)     # us


def check_generated(generated: Generated, ranks: int) -> None:
    """Refuse classes that do not cover each of `ranks` ranks once, groups that are not of these ranks, columns that do
    not fit each other, and collectives of groups that their ranks are not in."""
    _check_cover(generated.classes, ranks)
    members = Members.of(generated.groups)
    _check_groups(members, generated.names, ranks)
    if len(generated.tensors) != len(generated.classes):
        raise InputError(WHERE, f"tensors of {len(generated.tensors)} classes", expected=f"{len(generated.classes)}")
    for number, trace in enumerate(generated.classes):
        _check_columns(trace, number)
        _check_parents(trace)
        _check_slots(trace, number, ranks, len(generated.groups))
    refuse_foreign_groups(generated.classes, members, ranks)


def _check_cover(classes: Sequence[TraceClass], ranks: int) -> None:
    every = np.concatenate([np.zeros(0, np.int32), *(trace.ranks for trace in classes)])
    if every.size and (int(every.min()) < 0 or int(every.max()) >= ranks):
        rank = int(every.min()) if int(every.min()) < 0 else int(every.max())
        raise InputError(WHERE, f"there is no rank {rank}", expected=f"ranks 0 to {ranks - 1}")
    times = np.bincount(every, minlength=ranks)
    if (times != 1).any():
        rank = int(np.flatnonzero(times != 1)[0])
        raise InputError(WHERE, f"rank {rank} is in {int(times[rank])} classes of the workload", expected="one")


def _check_groups(members: Members, names: Sequence[str], ranks: int) -> None:
    groups, owner, member = members.groups, members.owner, members.member
    if len(names) != len(groups) or len(set(names)) != len(names):
        raise InputError(WHERE, f"{len(groups)} groups with {len(set(names))} names", expected="a name for each")
    if not groups:
        return
    bad = np.flatnonzero((member < 0) | (member >= ranks))
    if bad.size:
        raise InputError(WHERE, f"group {names[int(owner[bad[0]])]}: there is no rank {int(member[bad[0]])}",
                         expected=f"ranks 0 to {ranks - 1}")
    pairs = np.sort(owner * ranks + member)
    twice = np.flatnonzero(pairs[1:] == pairs[:-1])
    if twice.size:
        group, rank = divmod(int(pairs[twice[0]]), ranks)
        raise InputError(WHERE, f"group {names[group]} has rank {rank} twice", expected="each rank once")
    for group in np.flatnonzero(np.bincount(owner, minlength=len(groups)) == 0)[:1].tolist():
        raise InputError(WHERE, f"group {names[group]} is empty", expected="at least one rank")


def _check_columns(trace: TraceClass, number: int) -> None:
    nodes = trace.node_id.size
    for name in COLUMNS:
        if getattr(trace, name).shape != (nodes,):
            raise InputError(WHERE, f"class {number}: {name} has shape {getattr(trace, name).shape}",
                             expected=f"({nodes},), one per node")
    if trace.tier is not None and (trace.tier.shape != (nodes,) or int(trace.tier.max(initial=-1)) >= len(trace.tiers)):
        raise InputError(WHERE, f"class {number}: tier has shape {trace.tier.shape} and numbers up to "
                         f"{int(trace.tier.max(initial=-1))}", expected=f"({nodes},), each below {len(trace.tiers)}")
    if (trace.node_id[1:] <= trace.node_id[:-1]).any():
        raise trace.fault(int(np.argmax(trace.node_id[1:] <= trace.node_id[:-1])) + 1, "node ids do not ascend")
    for node in np.flatnonzero(trace.type > max(NodeKind))[:1].tolist():
        raise trace.fault(node, f"node type {int(trace.type[node])} is not one that Chakra defines")
    for node in np.flatnonzero(trace.duration_us > LONGEST)[:1].tolist():
        raise trace.fault(node, "a duration beyond 2^63 ps", expected="at most 106 days")
    for node in np.flatnonzero((trace.comm_size < 0) & COMM_TYPE[trace.type])[:1].tolist():
        raise trace.fault(node, "a negative comm_size", expected="bytes")


def _check_parents(trace: TraceClass) -> None:
    nodes, pointer = trace.node_id.size, trace.parent_ptr
    fits = pointer.shape == (nodes + 1,) and pointer[0] == 0 and pointer[-1] == trace.parent.size
    if not fits or (np.diff(pointer) < 0).any():
        raise InputError(WHERE, "parent_ptr does not fit the nodes and their parents", expected="nodes + 1, ascending")
    bad = np.flatnonzero((trace.parent < 0) | (trace.parent >= nodes))
    if bad.size:
        node = int(np.searchsorted(pointer, bad[0], side="right")) - 1
        raise trace.fault(node, f"waits for node index {int(trace.parent[bad[0]])}", expected=f"0 to {nodes - 1}")


def _check_slots(trace: TraceClass, number: int, ranks: int, groups: int) -> None:
    """Slots in range, used, and of equal nodes; peers, tags and groups that there are."""
    comm = np.flatnonzero(COMM_TYPE[trace.type])
    width = comm.size if trace.slot is None else trace.slot_a.shape[-1]
    shape = (trace.ranks.size, width)
    if trace.slot_a.shape != shape or trace.slot_b.shape != shape or (trace.slot is not None
                                                                     and trace.slot.shape != comm.shape):
        raise InputError(WHERE, f"class {number}: slots of shape {trace.slot_a.shape} and {trace.slot_b.shape}",
                         expected=f"{shape}")
    first = comm if trace.slot is None else _shared(trace, comm, width, number)
    p2p = trace.type[first] != NodeKind.COMM_COLL
    message, group = np.flatnonzero(p2p), np.flatnonzero(~p2p)
    own, a, b, c = trace.ranks[:, None], trace.slot_a[:, message], trace.slot_b[:, message], trace.slot_b[:, group]
    for slots, bad, what in (
            (message, (a < 0) | (a >= ranks), f"its peer is not one of the {ranks} ranks"),
            (message, a == own, "its peer is the rank itself"), (message, b < 0, "a negative tag"),
            (group, (c < -1) | (c >= groups), f"its group is not one of the workload's {groups}")):
        for row, place in np.argwhere(bad)[:1].tolist() if bad.any() else ():
            raise trace.fault(int(first[slots[place]]), what, row=row)


def _shared(trace: TraceClass, comm: I64, width: int, number: int) -> I64:
    """A node of every slot; nodes that share one must be equal."""
    slot = trace.slot
    assert slot is not None
    for node in comm[(slot < 0) | (slot >= width)][:1].tolist():
        raise trace.fault(node, f"its slot is not one of the {width}")
    first = first_nodes(trace, comm)
    for empty in np.flatnonzero(first < 0)[:1].tolist():
        raise InputError(WHERE, f"class {number}: no node uses slot {empty}", expected="slots that are used")
    other = first[slot]
    for name in SHARED:
        column = getattr(trace, name)
        for place in np.flatnonzero(column[comm] != column[other])[:1].tolist():
            raise trace.fault(int(comm[place]), f"shares a slot with node {int(trace.node_id[other[place]])}, whose "
                              f"{name} differs", expected="equal type, comm_type, comm_size and priority")
    return first
