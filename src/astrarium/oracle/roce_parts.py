"""What RoCE keeps in a run: flows, CNPs, ports, and the bytes of a node that its links share."""

from __future__ import annotations

import heapq
from collections import deque

from msgspec import Struct, field

from astrarium.engine.plan import RoceRules
from astrarium.errors import UnsupportedError
from astrarium.oracle.dcqcn import Rate
from astrarium.oracle.net import NONE, Cargo, Net, Packet

__all__ = ["Control", "End", "Flow", "Port", "shared_bytes"]


class Flow(Struct):
    number: int
    source: int
    destination: int
    link: int
    rate: Rate
    rules: RoceRules        # of its rate
    window: float           # bytes; 0: none
    pace: float             # bytes per ns with which the window fills in a round trip
    back: int               # how long an ACK takes, ps
    own: deque[Cargo] = field(default_factory=deque)
    packets: int = 0        # sent
    allowed: int = 0        # when the next one may leave
    notified: int = -1      # the last CNP for it
    put_off: bool = False   # a CNP is due an interval after the last one
    held: bool = False      # waits for an ACK that is not under way yet
    limit: float = 0.0      # bytes that may be under way, from the last packet on; 0: any number
    flying: int = 0         # bytes that are not acknowledged
    acks: list[int] = field(default_factory=list)   # heap: when they come; each is of the first packet that has none
    sizes: deque[int] = field(default_factory=deque)    # of packets that are not acknowledged

    def opens(self, when: int) -> int | None:
        """When ACKs, come or under way, open the window, from `when` on; None: more must come first."""
        while self.limit and self.acks and (self.acks[0] <= when or self.flying >= self.limit):
            when = max(when, heapq.heappop(self.acks))
            self.flying -= self.sizes.popleft()
        return when if not self.limit or self.flying < self.limit else None


class Control(Struct):
    """A CNP."""

    flow: Flow
    came: int = NONE
    tail: int = 0


class Port(Struct):
    queue: deque[Packet] = field(default_factory=deque)
    control: deque[Control] = field(default_factory=deque)
    own: list[tuple[int, int, int]] = field(default_factory=list)   # heap: allowed, destination, flow
    free: int = 0
    paused: bool = False
    own_before: bool = False
    waiting: int = 0
    peak: int = 0
    marks: int = 0
    pauses: int = 0
    paused_at: int = 0
    paused_for: int = 0
    rules: RoceRules | None = None      # of its rate; None: inside a host


class End(Struct):
    """A link's bytes in the buffer at its end."""

    bytes: int = 0
    peak: int = 0
    paused: bool = False


def shared_bytes(net: Net, rules: RoceRules) -> list[int]:
    """Per node its buffer without the headroom of its links. UnsupportedError where nothing is left."""
    ways, packet = net.ways, net.rules.size + net.rules.header
    shared, links = [rules.buffer] * ways.nodes, [0] * ways.nodes
    for (_, node), latency, bandwidth, inside in zip(ways.ends, ways.latency, ways.bandwidth, ways.inside, strict=True):
        if inside:
            continue
        shared[node] -= int(2 * (latency / 1000 * bandwidth)) + 3 * packet
        links[node] += 1
    for node, left in enumerate(shared):
        if links[node] > 1 and left < 1:
            raise UnsupportedError("workload", f"a RoCE buffer of {rules.buffer} bytes at node {node}: the headroom of "
                                   f"its links takes {rules.buffer - left}")
    return shared
