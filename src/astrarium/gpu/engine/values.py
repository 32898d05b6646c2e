"""What the GPU simulator takes and gives: frozen values in whole numbers (ps, requests, lines, distances).

A line is what one request moves. Peers are distances: (peer - own number) mod GPUs; 0 is the GPU itself.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64, I64

__all__ = ["ON_ROOM", "ON_SEMAPHORE", "Buffer", "Finished", "Grid", "Launch", "Machine", "OpKind", "Operation", "Place",
           "Recorded", "Stream", "Wait", "Workgroup", "layout", "skewed"]


class OpKind(enum.IntEnum):
    """What an operation of a workgroup is. The first five are one thing: sources are loaded, targets stored."""

    LOAD = 0
    STORE = 1
    MEMCPY = 2
    REDUCE = 3
    MULTIPLY = 4
    ACQUIRE = 5
    RELEASE = 6
    BARRIER = 7
    NOP = 8


class Machine(Struct, frozen=True, kw_only=True):
    """A GPU and its scale-up links. Times in ps; `*_data`: of a packet with a line, `*_control`: of one without.

    `unit_router`, `channel_router`, `port_router`: the router of each compute unit, channel and port,
    row x columns + column. `mesh_data` 0: links between routers have no rate, only the latency `hop`. The last
    `engines` units are copy engines, with rates, limits and dispatch of their own. `unit_port`: the port of each unit,
    through which answers with data come in; none: one each.
    """

    unit_router: tuple[int, ...]
    workgroups_per_unit: int
    wavefronts_per_unit: int
    instruction: int                # requests of one access of all lanes of a wavefront
    limit_wavefront: int            # outstanding requests
    limit_workgroup: int
    limit_unit: int
    unit_port: tuple[int, ...] = ()
    unit_data: int                  # service of a port's way in
    unit_store: int = 0             # service of the unit's way out, with a line; 0: unit_data
    unit_control: int               # the same, without
    reduce: int                     # ALU time to add one line to another
    dispatch: int                   # from a place for a workgroup to its first operation
    barrier: int
    fence: int
    columns: int = 1
    rows: int = 1
    enter: int                      # latency of any way on the chip, beside its hops
    hop: int = 1
    mesh_data: int = 0
    mesh_control: int = 0
    channel_router: tuple[int, ...]
    interleave: int                 # lines in a row on one channel
    channel: int                    # service of one line in L2
    channel_latency: int
    hbm: int                        # service of one line in HBM
    hbm_store: int = 0              # the same, of a stored one; 0: hbm
    hbm_latency: int
    write_back: int = 0             # lines of a channel that L2 has acknowledged and HBM has not got yet
    port_router: tuple[int, ...]
    port_interleave: int
    port_data: int
    port_control: int
    link_latency: int               # from the start of a packet on a port to the other GPU (its queue, if switched)
    credits: int = 0                # packets that a port has out in a round trip of its link; 0: any number
    switched: bool = True           # ports lead to a switch, else they are dealt to peers
    multimem: bool = True           # the switch copies what is stored to all, and adds what is loaded from all
    round_robin: bool = False       # ports and a switch's queues serve data and control in turn, else first come
    engines: int = 0
    engine_data: int = 1            # service of an engine's way out, and in
    engine_control: int = 1
    engine_limit: int = 1           # outstanding requests of an engine, its workgroup and its wavefronts
    engine_dispatch: int = 1

    @property
    def computes(self) -> int:
        """Units that are no copy engines."""
        return len(self.unit_router) - self.engines


class Buffer(Struct, frozen=True):
    """Memory that every GPU has: `size` in requests of payload. `hbm`: not in L2. `lines`: of memory per request of
    payload. `flagged`: a line carries its flag, and a load waits for the store of the line."""

    name: str
    size: int
    hbm: bool = False
    flagged: bool = False
    lines: int = 1


class Place(Struct, frozen=True):
    """Where an operation reads or writes: the buffer's number, the first request of payload, the GPU's distance.

    `peer` = number of GPUs: all of them, the own one included (multimem). The switch copies what is stored, and answers
    a load with the sum. There the place stands `turn` requests further back per distance, modulo the buffer; the
    simulator asks for the same line on every GPU, which changes the channel alone.
    """

    buffer: int
    offset: int
    peer: int = 0
    turn: int = 0


class Operation(Struct, frozen=True):
    """One operation of a workgroup. `size`: requests of payload, of each source and target. A MEMCPY copies its source
    to all targets, or each of several sources to the target of the same number. `peer`, `semaphore`: what
    a release signals (an acquire asks its own GPU's); `value`: the count that an acquire waits for. `fence`: a release
    waits until all of the workgroup's requests are back (an acquire takes no time for it: without, the exam of kernels
    does not count on what was stored before the release). `time`: of a NOP, ps; of a MULTIPLY, for which the matrix
    pipe of the unit is busy, ps per request of payload."""

    kind: OpKind
    size: int = 0
    sources: tuple[Place, ...] = ()
    targets: tuple[Place, ...] = ()
    semaphore: int = 0
    peer: int = 0
    value: int = 0
    fence: bool = True
    time: int = 0


class Workgroup(Struct, frozen=True):
    """The operations of one workgroup, one after the other; `stream`: the number of its kernel."""

    operations: tuple[Operation, ...]
    stream: int = 0


Grid = tuple[Workgroup, ...]


class Stream(Struct, frozen=True):
    """One of the kernels that a launch runs at once. `wavefronts` per workgroup; `unroll` instructions of a wavefront
    in a step. Its workgroups run on `units` (numbers; none: all compute units), where each takes `places` of the unit's
    places for workgroups. `start`: when it comes, ps after its GPU's start. `cluster`: workgroups that get their places
    at once, on all units of a port, each on its own (1: each by itself)."""

    wavefronts: int = 1
    unroll: int = 1
    units: tuple[int, ...] = ()
    places: int = 1
    start: int = 0
    cluster: int = 1


class Launch(Struct, frozen=True):
    """One run: `grids` has one entry per GPU, or one that serves all. `streams`: kernels by number; where several have
    a workgroup for a place, the first one goes first. `starts`: when each GPU starts (ps; one entry serves all)."""

    machine: Machine
    gpus: int
    grids: tuple[Grid, ...]
    buffers: tuple[Buffer, ...]
    semaphores: tuple[str, ...] = ()
    streams: tuple[Stream, ...] = (Stream(),)
    starts: tuple[int, ...] = (0,)

    @property
    def symmetric(self) -> bool:
        """Whether all GPUs do the same, so that one of them says it all."""
        return len(set(self.starts)) == 1 and (len(self.grids) == 1 or all(g == self.grids[0] for g in self.grids))

    def grid(self, gpu: int) -> Grid:
        """What GPU `gpu` runs."""
        return self.grids[gpu if len(self.grids) > 1 else 0]

    def start(self, gpu: int) -> int:
        """When GPU `gpu` starts, ps."""
        return self.starts[gpu if len(self.starts) > 1 else 0]

    def ports(self) -> list[tuple[int, ...]]:
        """The units of every unit's port."""
        m = self.machine
        of = m.unit_port or tuple(range(len(m.unit_router)))
        shared: dict[int, tuple[int, ...]] = {}
        for unit, port in enumerate(of):
            shared[port] = (*shared.get(port, ()), unit)
        return [shared[port] for port in of]

    def units(self, stream: int) -> tuple[int, ...]:
        """The units on which a stream's workgroups run."""
        return self.streams[stream].units or tuple(range(self.machine.computes))


ON_SEMAPHORE, ON_ROOM = -1, -2


class Wait(Struct, frozen=True):
    """Why a run cannot go on: a workgroup's operation that waits. `line`: the flagged line, of the GPU at distance
    `peer`; ON_SEMAPHORE, in which `value` stands; ON_ROOM: limits leave no room to issue a request."""

    gpu: int
    workgroup: int
    operation: int
    line: int
    peer: int
    value: int


class Recorded(Struct, frozen=True, eq=False):
    """What simulated GPUs did over time. `over` [GPU][workgroup][operation], ps: when its last wavefront went on (its
    stores may be on their way still). `units` [GPU][workgroup]. `port_busy` [gpus, ports, bins]: ps of service of each
    port's way out, by the bin of `width` ps in which it began."""

    width: int
    over: Sequence[Sequence[Sequence[int]]]
    units: Sequence[Sequence[int]]
    port_busy: I64


class Finished(Struct, frozen=True, eq=False):
    """The outcome. Times in ps. `ends` [gpus]; `workgroup_starts`, `workgroup_ends` [gpus, workgroups] (-1: none);
    `requests` [gpus, 3]: loads, stores, semaphores' (releases and polls), issued; `outstanding` [gpus]: requests
    outstanding, integrated over time, and `latency` [gpus]: their times from issue to return, added up, request x ps;
    `channel_requests` [gpus, channels], of which HBM serves `hbm_requests`; `port_packets` [gpus, ports, 2]: with and
    without data, out; `events`: handled, by GPUs that were simulated (`simulated`). `recorded`: of those, if it was
    asked for."""

    ends: I64
    workgroup_starts: I64
    workgroup_ends: I64
    requests: I64
    outstanding: I64
    latency: I64
    channel_requests: I64
    hbm_requests: I64
    port_packets: I64
    events: int
    simulated: int
    recorded: Recorded | None = None

    @property
    def makespan(self) -> int:
        """When the last GPU ends, ps."""
        return int(self.ends.max())

    def port_use(self, machine: Machine) -> F64:
        """[gpus, ports] share of the whole run in which each port's way out is busy, 0 to 1."""
        busy: I64 = self.port_packets @ np.array([machine.port_data, machine.port_control])
        return busy / max(1, self.makespan)

    def channel_use(self, machine: Machine) -> F64:
        """[gpus, channels] share of the whole run in which the L2 of each channel is busy, 0 to 1."""
        return self.channel_requests * machine.channel / max(1, self.makespan)

    def hbm_use(self, machine: Machine) -> F64:
        """[gpus, channels] share of the whole run in which the HBM of each channel is busy, 0 to 1, were all of its
        requests loads."""
        return self.hbm_requests * machine.hbm / max(1, self.makespan)

    @property
    def total_requests(self) -> int:
        """Requests of all GPUs."""
        return int(self.requests.sum())


def skewed(block: int, count: int) -> int:
    """Which of `count` channels or ports has a block: every row of blocks is shifted by one."""
    return (block + block // count) % count


def layout(buffers: Sequence[Buffer]) -> tuple[list[int], int, int, int]:
    """(first line of each buffer, end of flagged lines, end of HBM's lines, all lines): flagged ones first, then those
    in HBM, then those in L2."""
    def rank(buffer: Buffer) -> int:
        return 0 if buffer.flagged else 1 if buffer.hbm else 2

    first, at, ends = [0] * len(buffers), 0, []
    for kind in range(3):
        for i, buffer in enumerate(buffers):
            if rank(buffer) == kind:
                first[i], at = at, at + buffer.size * buffer.lines
        ends.append(at)
    return first, ends[0], ends[1], ends[2]
