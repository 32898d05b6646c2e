"""Programs and schedules as Python lists, made once each: CPython reads items of lists faster than those of arrays."""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct

from astrarium.engine.plan import Plan, Program
from astrarium.errors import TraceError
from astrarium.vocab import PeerMode, Schedule

__all__ = ["ScheduleTable", "Send", "Table", "peer_and_tag", "table", "tables"]


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


def table(program: Program) -> Table:
    """The lists of one Program."""
    pointer, child = program.child_ptr.tolist(), program.child.tolist()
    return Table(node_id=program.node_id.tolist(), kind=program.kind.tolist(), lane=program.lane.tolist(),
                 duration=program.duration.tolist(), busy=program.busy.tolist(), size=program.size.tolist(),
                 slot=program.slot.tolist(), parents=program.parents.tolist(),
                 children=[child[start:end] for start, end in pairwise(pointer)])


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


class Send(Struct, frozen=True):
    """One send: receives that it needs, its number, peer as the schedule counts, the receive there, blocks."""

    needs: int
    number: int
    peer: int
    match: int
    blocks: int


class ScheduleTable:
    """`sends[program]` by (needs, number); `reduces[program]` tells which receives add; `program[place]`."""

    def __init__(self, schedule: Schedule) -> None:
        self._n, self._mode = schedule.n, schedule.peer_mode
        self.program: list[int] = schedule.program.tolist()
        pointer, receives = schedule.send_ptr.tolist(), schedule.recv_ptr.tolist()
        blocks = (schedule.send_block_ptr[1:] - schedule.send_block_ptr[:-1]).tolist()
        columns = [column.tolist() for column in (schedule.send_needs, schedule.send_peer, schedule.send_match)]
        self.sends = [sorted((Send(columns[0][s], s - first, columns[1][s], columns[2][s], blocks[s])
                              for s in range(first, last)), key=lambda send: (send.needs, send.number))
                      for first, last in pairwise(pointer)]
        reduces = schedule.recv_reduce.tolist()
        self.reduces = [reduces[first:last] for first, last in pairwise(receives)]
        peers = schedule.recv_peer.tolist()
        self.sources: list[list[int]] = [peers[first:last] for first, last in pairwise(receives)]
        self._blocks: dict[int, list[int]] = {}

    def received_blocks(self, place: int) -> list[int]:
        """The blocks of every receive of the participant at `place`: those of the send that it matches."""
        program = self.program[place]
        if program not in self._blocks:
            self._blocks[program] = [
                next(send.blocks for send in self.sends[self.program[source]]
                     if send.match == number and self.peer(source, send.peer) == place)
                for number, source in enumerate(self.peer(place, peer) for peer in self.sources[program])]
        return self._blocks[program]

    def peer(self, place: int, peer: int) -> int:
        """The place that a participant at `place` means by `peer`."""
        if self._mode == PeerMode.RELATIVE:
            return (place + peer) % self._n
        return place ^ peer if self._mode == PeerMode.XOR else peer
