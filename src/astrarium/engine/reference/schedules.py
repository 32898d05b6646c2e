"""Schedules as plain Python lists, converted once each."""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct

from astrarium.vocab import PeerMode, Schedule

__all__ = ["ScheduleTable", "Send"]


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
