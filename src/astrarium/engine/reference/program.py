"""Programs as plain Python lists, made once per class: CPython reads list items several times faster than arrays."""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct

from astrarium.engine.plan import Plan, Program
from astrarium.errors import TraceError

__all__ = ["Table", "child_lists", "peer_and_tag", "table", "tables"]


class Table(Struct, frozen=True, eq=False):
    """One Program; every list is [nodes]. `children[i]` are indexes of the nodes that wait for node i."""

    node_id: list[int]
    kind: list[int]
    lane: list[int]
    duration: list[int]
    busy: list[int]
    size: list[int]
    slot: list[int]
    parents: list[int]
    children: list[list[int]]

    def __len__(self) -> int:
        return len(self.node_id)


def child_lists(program: Program) -> list[list[int]]:
    """The children of each node as a list."""
    pointer, child = program.child_ptr.tolist(), program.child.tolist()
    return [child[start:end] for start, end in pairwise(pointer)]


def table(program: Program) -> Table:
    """The lists of one Program."""
    return Table(node_id=program.node_id.tolist(), kind=program.kind.tolist(), lane=program.lane.tolist(),
                 duration=program.duration.tolist(), busy=program.busy.tolist(), size=program.size.tolist(),
                 slot=program.slot.tolist(), parents=program.parents.tolist(), children=child_lists(program))


def tables(plan: Plan) -> list[Table]:
    """The Table of every rank; ranks of one class share it."""
    by_class = [table(program) for program in plan.programs]
    return [by_class[c] for c in plan.program_of.tolist()]


def peer_and_tag(rank: int, rows: Table, node: int, argument: tuple[int, int, int], ranks: int) -> tuple[int, int]:
    """The peer rank and the tag of a send or receive; TraceError when the peer is the rank itself or does not exist."""
    peer, tag, _ = argument
    if peer == rank or not 0 <= peer < ranks:
        itself = ", the rank itself" if peer == rank else ""
        raise TraceError("workload", f"its peer is rank {peer}{itself}", rank=rank, node=rows.node_id[node],
                         expected=f"another of the {ranks} ranks")
    return peer, tag
