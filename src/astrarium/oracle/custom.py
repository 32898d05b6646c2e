"""A custom collective: the program of each position, node by node, without lanes or endpoint delay."""

from __future__ import annotations

from functools import partial

from astrarium.engine.plan import CustomProgram, Kind
from astrarium.oracle.clock import DONE, Event, message_order
from astrarium.oracle.collectives import Surroundings
from astrarium.oracle.medium import collective_tag
from astrarium.oracle.meetings import Meeting, Post
from astrarium.oracle.tables import Table

__all__ = ["CustomMember"]


class CustomMember:
    """One participant; the node of the collective ends with the last node of its program."""

    def __init__(self, run: Surroundings, post: Post, custom: CustomProgram, program: Table, meeting: Meeting,
                 rank: int, position: int, node: int, done: Event) -> None:
        self._run, self._post, self._program, self._meeting = run, post, program, meeting
        self._rank, self._position, self._node, self._done = rank, position, node, done
        number = int(custom.program_of[position])
        self._peers: list[int] = custom.slot_peer[number].tolist()
        self._tags: list[int] = custom.slot_tag[number].tolist()
        self._parents = list(program.parents)
        self._left = len(program)

    def start(self) -> None:
        """Issue the nodes without parents, in ascending id."""
        for node, parents in enumerate(self._program.parents):
            if not parents:
                self._issue(node)
        if not self._left:
            self._run.clock.at(self._run.clock.now, DONE, (self._rank, self._node, 0, 0), self._done)

    def _issue(self, node: int) -> None:
        program, clock = self._program, self._run.clock
        kind, size, key = program.kind[node], program.size[node], (self._rank, self._node, 0, node)
        ended = partial(self._ended, node)
        slot = program.slot[node]
        if kind in (Kind.SEND, Kind.RECV) and self._run.foreign is not None:
            own = self._run.npu(self._meeting.group, self._position)
            other = self._run.npu(self._meeting.group, self._peers[slot])
            tag = collective_tag(self._meeting.number, 0, self._tags[slot])
            if kind == Kind.SEND:
                self._run.foreign.send(key, message_order(size), own, other, size, ended, tag)
            else:
                self._run.foreign.receive(key, other, own, size, ended, tag)
        elif kind == Kind.RECV:
            if self._post.wants(self._message(node, self._position), ended):
                clock.at(clock.now, DONE, key, ended)
        elif kind == Kind.SEND:
            group, peer = self._meeting.group, self._peers[program.slot[node]]
            self._run.network.send(key, message_order(size), self._run.npu(group, self._position),
                                   self._run.npu(group, peer), size, partial(self._delivered, node, peer))
        else:
            clock.at(clock.now + program.duration[node], DONE, key, ended)

    def _message(self, node: int, destination: int) -> tuple[int, int, int, int, int]:
        """(meeting, source, destination, tag, bytes) of the message that a node sends or waits for."""
        slot = self._program.slot[node]
        source = self._position if destination != self._position else self._peers[slot]
        return self._meeting.number, source, destination, self._tags[slot], self._program.size[node]

    def _delivered(self, node: int, peer: int) -> None:
        receive = self._post.delivered(self._message(node, peer))
        self._ended(node)
        if receive is not None:
            receive()

    def _ended(self, node: int) -> None:
        for child in self._program.children[node]:
            self._parents[child] -= 1
            if not self._parents[child]:
                self._issue(child)
        self._left -= 1
        if not self._left:
            self._done()
