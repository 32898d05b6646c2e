"""Switches that compute, in collectives: they add what comes up, and send copies down.

A switch has no rank. It takes part in one chunk's phase from the first message that comes to it until its last one has
left. Its adder serves all collectives, one message after the other, in the order in which their last bytes come.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from msgspec import Struct

from astrarium.engine.plan import InSwitch, Phase, Plan
from astrarium.engine.reference.clock import Event
from astrarium.engine.reference.geometry import switch_of
from astrarium.engine.reference.native_clock import ARRIVE, DONE, BatchClock, Key, Order, collective_order, ticks
from astrarium.engine.reference.native_media import Medium
from astrarium.engine.reference.schedules import ScheduleTable, Send

__all__ = ["Circle", "SwitchStay", "Switches", "in_order"]


class Switches:
    """When the adder of each switch of a run is free."""

    def __init__(self, plan: Plan) -> None:
        self._dims, self.ranks = plan.network.dims, len(plan.program_of)
        self._free: dict[int, int] = {}

    def node(self, phase: Phase, number: int, npu: int) -> int:
        """The switch that is number `number` of the phase of an NPU's circle."""
        assert phase.in_switch is not None
        nodes = phase.in_switch.nodes
        return nodes[number] if nodes else switch_of(self._dims, phase.dim, npu)

    def add(self, node: int, now: int, size: int, able: InSwitch) -> int:
        """When a message that is there is part of the sum."""
        start = max(now, self._free.get(node, 0))
        self._free[node] = end = start + ticks(size / able.rate)
        return end + able.latency


def in_order(clock: BatchClock, order: Order, key: Key, there: Event) -> None:
    """Let what is at a switch in this instant be `there` in the order of what arrives."""
    clock.at(clock.now, ARRIVE, (*order, key[0], key[1]), there)


class Around(Protocol):
    """What a switch needs from the run."""

    clock: BatchClock
    network: Medium
    switches: Switches

    def npu(self, group: int, position: int) -> int: ...


class Circle(Struct, frozen=True):
    """The participants of one chunk's phase: `first` is the position of the first one. `arrived` (place, receive,
    bytes) tells one of them, or a switch, that a message is there."""

    group: int
    collective: int
    meeting: int
    chunk: int
    number: int         # of the phase
    phase: Phase
    first: int
    table: ScheduleTable
    arrived: Callable[[int, int, int], None]


class SwitchStay:
    """A switch in one chunk's phase."""

    def __init__(self, around: Around, circle: Circle, place: int) -> None:
        self._around, self._circle = around, circle
        self._node = self._node_of(place)
        self._key = (around.switches.ranks + self._node, circle.meeting)
        program = circle.table.program[place]
        self._sends, self._reduces = circle.table.sends[program], circle.table.reduces[program]
        self._flags = bytearray(len(self._reduces))
        self._next = self._prefix = 0

    def _node_of(self, place: int) -> int:
        """The node of a switch, or the NPU of a participant."""
        around, circle = self._around, self._circle
        if place < circle.phase.n:
            return around.npu(circle.group, circle.first + place * circle.phase.stride)
        return around.switches.node(circle.phase, place - circle.phase.n, around.npu(circle.group, circle.first))

    def received(self, receive: int, size: int) -> None:
        """A message is there; where it is added, the adder takes it in its turn."""
        clock, able = self._around.clock, self._circle.phase.in_switch
        assert able is not None
        when = clock.now
        if self._reduces[receive]:
            when = self._around.switches.add(self._node, when, size, able)
        clock.at(when, DONE, (*self._key, self._circle.chunk, receive), lambda: self._completed(receive))

    def _completed(self, receive: int) -> None:
        self._flags[receive] = 1
        while self._prefix < len(self._flags) and self._flags[self._prefix]:
            self._prefix += 1
        while self._next < len(self._sends) and self._sends[self._next].needs <= self._prefix:
            self._post(self._sends[self._next])
            self._next += 1

    def _post(self, send: Send) -> None:
        circle, size = self._circle, send.blocks * self._circle.phase.block_size
        key = (*self._key, circle.chunk, send.number)
        order = collective_order(circle.collective, circle.chunk, circle.number, send.match)
        there = partial(circle.arrived, send.peer, send.match, size)
        at_switch = partial(in_order, self._around.clock, order, key, there)
        self._around.network.send(key, order, self._node, self._node_of(send.peer), size,
                                  there if send.peer < circle.phase.n else at_switch)
