"""What the engine executes: arrays only, no objects per node, no names, no units but ps and bytes.

`lower` makes a Plan; `engine.execute` runs it (compiled core) and `astrarium.oracle` runs it in pure Python with the
same integers. Times are integer picoseconds, sizes bytes, bandwidths bytes per ns (float64), rates bytes per second.
"""

from __future__ import annotations

import enum
from typing import Any, ClassVar

import msgspec
import numpy as np
from msgspec import Struct, field

from astrarium.arrays import F64, I16, I32, I64, U8, U64
from astrarium.errors import UnsupportedError
from astrarium.vocab import Schedule

__all__ = ["FIRST_LINK", "FULL_SPEED", "Algorithm", "Attached", "Backend", "Changes", "Changing", "Chunk",
           "CollectivePlan", "CustomProgram", "Dim", "Graph", "InSwitch", "Kind", "Lane", "NetworkPlan", "Order",
           "PacketRules", "Phase", "Pick", "Plan", "Policy", "Program", "Remote", "RemoteKind", "RoceRules", "Shape",
           "code_of"]

FIRST_LINK = -1     # NetworkPlan.ecmp: of equally cheap ways always the one of the lowest link numbers
FULL_SPEED = 1_000_000      # of Changes.factor


class Kind(enum.IntEnum):
    """What issuing a node does."""

    DELAY = 0       # busy for `duration` on its lane: compute, replayed node, replayed broadcast
    COLLECTIVE = 1  # takes part in a collective
    SEND = 2
    RECV = 3
    REMOTE = 4      # remote memory access of `size` bytes
    SKIP = 5        # metadata or invalid: completes at once


class Lane(enum.IntEnum):
    """Resources of an NPU; `Plan.lanes[lane]` nodes may be in flight at once. A node with lane -1 needs none."""

    COMPUTE = 0
    COMM = 1
    CPU = 2
    P2P = 3
    COPY = 4


class Shape(enum.IntEnum):
    RING = 0             # both ways: the shorter way round, clockwise when equal
    SWITCH = 1           # two hops
    FULLY_CONNECTED = 2
    RING_ONE_WAY = 3     # clockwise only
    MESH = 4             # a line (1-D mesh); a 2-D mesh is two dims
    HYPERCUBE = 5        # npus a power of two; hops = bits that differ
    # a torus is one ring dim per direction


class Backend:
    """Names of back ends that have their own part in the engine; any other is a medium of the registry."""

    UNSHARED = "unshared"      # ASTRA-sim congestion-unaware: a message never meets another (compat only)
    LINKS = "links"            # ASTRA-sim congestion-aware: 1-dim, whole messages stored and forwarded, FIFO links
    PORTS = "closed_form"      # each NPU's port of a dim sends and receives one message at a time
    FOREIGN = "foreign"        # a plug-in takes the messages


class Order(enum.IntEnum):
    """Tie order within one instant."""

    CANONICAL = 0    # batches by class, then by (rank, lane, node, chunk, step): design/0001
    ASTRA_SIM = 1    # first scheduled, first run; all of one NPU's events of an instant as one batch


class Algorithm(enum.IntEnum):
    """How a phase moves its bytes."""

    SCHEDULE = 0             # `Phase.schedule`, native
    RING = 1                 # ASTRA-sim's four state machines (compat)
    DIRECT = 2
    HALVING_DOUBLING = 3
    DOUBLE_BINARY_TREE = 4
    CUSTOM = 5               # `CollectivePlan.custom`


class Pick(enum.IntEnum):
    """Which of a dim's queues a phase takes (ASTRA-sim: get_next_queue_at_level, _first, _last)."""

    ANY = 0
    FIRST_HALF = 1
    LAST_HALF = 2


class Program(Struct, frozen=True, eq=False):
    """What each rank of one class runs. Nodes ascend by node id; `child` holds indexes into this program.

    Shapes: every array is [nodes], except child_ptr [nodes + 1] and child [edges].
    """

    node_id: U64
    kind: U8         # Kind
    lane: I16        # Lane, or -1
    duration: I64    # ps; 0 where the engine computes it
    busy: I64        # ps that count as compute of this rank (ASTRA-sim's "GPU ops"): `duration` of COMPUTE nodes
    size: I64        # bytes: message payload or remote tensor; of a DELAY those that it moves to or from a tier; else 0
    slot: I32        # which arguments a COLLECTIVE, SEND or RECV has; nodes of equal kind and size may share; of a
    #                  REMOTE that moves its bytes over the network `code_of` its memory; else -1
    parents: I32     # how many distinct nodes must finish first
    child_ptr: I32
    child: I32


class InSwitch(msgspec.Struct, frozen=True, gc=False):
    """What the switches of a phase can do. One that adds takes one message after the other, whosever they are."""

    rate: float              # bytes per ns of messages that it adds, above 0
    latency: int             # ps from the last byte added to the sum
    nodes: tuple[int, ...] = ()     # of the network's graph, per switch of the schedule; none: the one of `Phase.dim`
    #                                 that its participants share (numbered as `fabric.graph.graph_of` numbers it)


class Phase(msgspec.Struct, frozen=True, gc=False):
    """One algorithm over one dim (or one sub-group) for one chunk.

    The participants of rank at position `p` (rank itself, or its index in the group) are the positions
    `p - ((p // stride) % n) * stride + k * stride` for k in 0..n-1.
    """

    dim: int                 # queue level and network dim; -1: the messages find their own dims (a flat sub-group)
    op: int                  # CommOp of this phase
    algorithm: Algorithm
    size: int                # bytes at the start of the phase, as ASTRA-sim counts them (all_gather: the shard)
    n: int
    stride: int
    pick: Pick = Pick.ANY
    window: int = -1         # DIRECT: messages in flight; -1 all
    local: bool = False      # ASTRA-sim's "Local" ring: fixed 10 ns endpoint delay
    schedule: Schedule | None = None
    block_size: int = 0      # SCHEDULE: bytes of one block
    in_switch: InSwitch | None = None   # where the schedule has switches
    lasts: int = 0           # ps; above 0 the schedule has no messages: all end so long after the last has come


class Chunk(msgspec.Struct, frozen=True, gc=False):
    repeat: int
    phases: tuple[Phase, ...]


class CustomProgram(Struct, frozen=True, eq=False):
    """A custom collective: per position a small program of SEND, RECV and DELAY nodes (slot_peer: a position).

    Under ASTRA-sim's order `roots` has, per program, the nodes without parents as they become free, and `child` of a
    program has the children of a node so; natively there are no `roots`.
    """

    programs: tuple[Program, ...]
    program_of: I32
    slot_peer: tuple[I32, ...]   # per program
    slot_tag: tuple[I32, ...]
    roots: tuple[I32, ...] = ()


class CollectivePlan(Struct, frozen=True, gc=False):
    """How one (group, op, size) runs; many nodes share one.

    Native: a participant's chunks enter their phases in turns, `active_chunks` inside a list at once (0: all). `turns`
    has one array per list, of visits `chunk * phases + phase` in order; every visit stands in one list, all chunks have
    equally many phases. Empty: a list per phase number, with the chunks in order. Lists that some run one after the
    other has obeyed cannot make ranks wait for each other. `how`: composition, algorithms and chunks in words, for the
    result. `lasts` above 0 (ps; without chunks): no messages; all members end this long after the last one has arrived.
    `wires`: of such a collective (dim, ps for which it needs each member's port there at least); engines do not look.
    """

    op: int
    size: int
    chunks: tuple[Chunk, ...]
    active_chunks: int = 1
    custom: CustomProgram | None = None
    lasts: int = 0
    turns: tuple[I32, ...] = ()
    how: str = ""
    wires: tuple[tuple[int, int], ...] = ()


class Attached(Struct, frozen=True):
    """A memory at every switch of a dim, with `links` to it. A REMOTE node that names it is one message between its NPU
    and the memory at that NPU's switch, from there (a load) or to it (a store). The NPU at place p of the dim uses link
    p modulo `links`."""

    dim: int
    bandwidth: float         # bytes per ns of one link to one switch, one direction
    latency: float           # ns from the switch to the memory's bytes
    links: int = 1


def code_of(memory: int, store: bool) -> int:
    """`Program.slot` of a REMOTE node that loads from `Plan.attached[memory]`, or stores there: -2 and below."""
    return -2 - 2 * memory - store


class Dim(Struct, frozen=True, gc=False):
    shape: Shape
    npus: int
    bandwidth: float         # bytes per ns of one link, one direction
    latency: float           # ns of one hop
    ends: tuple[Attached, ...] = ()     # inside the engine (`attached.widened`): a switch's last places are memories


class Graph(Struct, frozen=True, eq=False):
    """Nodes and directed links. The plan's NPUs are nodes 0..npus-1; further nodes are devices, such as switches.

    Every array is [links], a link's number is its row; two nodes may have several links. All nodes pass messages on,
    NPUs too. Way of a message: the least sum of `cost`. Where several links of a node begin such ways,
    the cheapest of them are taken, and of these `NetworkPlan.ecmp` chooses one.
    """

    nodes: int
    source: I32      # node where the link begins
    target: I32      # node where it ends
    bandwidth: F64   # bytes per ns, above 0
    latency: F64     # ns, from its start to its end
    buffer: I64      # bytes that may wait at its end, 0: any number. For media of packets; others ignore it
    lanes: I32       # virtual channels that share it, at least 1. For media of packets; others ignore it
    cost: I64 | None = None     # at least 1; None: 1 of each link, so ways have as few links as possible


class GivenRoutes(Struct, frozen=True, eq=False):
    """Ways that are given, link by link: arrays [rows]. The rows of a pair of NPUs are adjacent, in the order of its
    way, which begins at `source`, ends at `destination` and comes to no node twice. Other pairs take cheapest ways."""

    source: I32         # NPU
    destination: I32    # NPU
    link: I32           # of the graph


class TransportRules(Struct, frozen=True):
    """What a transport of packets is told: fields are numbers, or tuples of numbers, which the compiled engine's
    transport `name` gets."""

    name: ClassVar[str] = ""

    def open(self, net: Any) -> Any:
        """The transport in plain Python (`Transport` of the pure-Python engine's packets). A plug-in's own."""
        del net
        raise UnsupportedError("network.packets.transport", f"{self.name} is not in the pure-Python engine",
                               expected="the compiled one")


class RoceRules(TransportRules, frozen=True):
    """PFC, ECN and DCQCN. The defaults are those of the testbed of Zhu et al., Congestion Control for Large-Scale RDMA
    Deployments, SIGCOMM 2015 (the buffer: a Trident II): 40 Gb/s links.

    Marks: of a queue of up to `kmin` bytes none, up to `kmax` a share up to `pmax`, above it all. A flow has at most
    `window` times what its slowest link carries in a round trip under way.

    `by_rate`: rows of a link's bandwidth (bytes per ns), and kmin, kmax, pmax, alpha, additive and hyper of links, and
    of flows whose first link outside hosts is one, of just this bandwidth.
    """

    name: ClassVar[str] = "roce"
    buffer: int = 12_000_000        # bytes of a node, shared by its links
    alpha: float = 1.0              # a link is paused where it has more than this share of what is free
    kmin: int = 5_000               # bytes
    kmax: int = 200_000             # bytes
    pmax: int = 10_000              # parts per million
    gain: float = 1 / 256
    additive: float = 0.005         # bytes per ns: 40 Mb/s
    hyper: float = 0.0              # bytes per ns, of increases after `recovery` by timer and by bytes; 0: additive
    least: float = 0.005            # bytes per ns, of a flow
    cnp_interval: int = 50_000_000  # ps between two CNPs for a flow
    alpha_timer: int = 55_000_000   # ps without a CNP, after which alpha falls
    rate_timer: int = 55_000_000    # ps from one increase of the rate to the next
    byte_counter: int = 10_000_000  # bytes from one increase of the rate to the next; 0: only time counts
    recovery: int = 5               # increases of fast recovery
    window: float = 0.0             # of a flow, in round trips; 0: none
    window_scales: bool = False     # the window is that share of it which the rate is of the line's
    clamp: bool = True              # every cut sets the target; else only one after an increase
    departing: bool = False         # marks go by the queue that a packet leaves, not by the one that it joins
    per_message: bool = False       # each message starts at the line's rate
    by_rate: tuple[float, ...] = ()


class PacketRules(Struct, frozen=True):
    """How a medium of packets carries messages."""

    size: int = 4096                # payload bytes of a packet; the last one of a message has what is left
    header: int = 0                 # bytes that each packet has beside them
    buffer: int = 0                 # bytes at a link's end where the graph has 0; 0: any number. Of credits
    spray: bool = False             # packets take equal links in turn, beyond the message's first link
    seed: int = 0                   # of the hash that chooses marks
    transport: TransportRules | None = None     # None: credits
    queues: bool = False            # a run that records keeps each link's queue over time
    threads: int = 1                # of the compiled engine; they change no integer
    inside: bytes = b""             # 1: links inside a host, no hop of the transport. Of a graph's links, else of dims


class NetworkPlan(Struct, frozen=True):
    """What moves bytes. With a `graph` its links do, and `dims` are only those that collectives are laid out on.

    `ecmp` (with a graph): FIRST_LINK, or the seed of a hash of seed, source NPU, destination NPU and node. It chooses
    one of the links with which the cheapest ways go on from that node: all messages between two NPUs go one way.
    """

    backend: str                # a name of `Backend`, or of a medium
    dims: tuple[Dim, ...]    # innermost first; NPU number = sum of coordinate * product of inner sizes
    whole_ns: bool = False   # truncate every delay to whole ns (ASTRA-sim) instead of rounding once to ps
    cut_through: bool = False   # contention: heads are forwarded as they arrive, not whole messages
    graph: Graph | None = None  # None: the dims say it all, and ways are computed
    ecmp: int = 0
    packets: PacketRules = PacketRules()    # for media of packets
    routes: GivenRoutes | None = None       # with a graph: before `ecmp`


class Changing(enum.IntEnum):
    """What a change is of."""

    NPU = 0     # its nodes of the COMPUTE lane
    LINK = 1    # the bytes of all messages on it


class Changes(Struct, frozen=True, eq=False):
    """What goes at another speed from some time on, until its next change. Arrays [changes], in any order; of two
    changes of one thing at one time the later row counts.

    A stopped NPU keeps its lanes; a stopped link keeps its message. Collectives' reductions, remote
    memory and latencies do not change.
    """

    time: I64       # ps, 0 or more
    what: U8        # Changing
    number: I32     # of the NPU; of the link: its row in the graph, without one in that of the dims (fabric.graph)
    factor: I64     # parts per million of full speed (what the plan says): 0 (stopped) to FULL_SPEED


class RemoteKind(enum.IntEnum):
    NONE = 0
    PER_NPU = 1
    PER_NODE = 2
    POOL = 3


class Remote(Struct, frozen=True):
    """Remote memory: access = latency + size / bandwidth; PER_NODE and POOL serve one access at a time, FIFO."""

    kind: RemoteKind = RemoteKind.NONE
    latency: int = 0            # ns
    bandwidth: float = 1.0      # bytes per ns
    npus_per_node: int = 1


class Policy(Struct, frozen=True):
    """The two compatibility tables, as data: tie order and resources, and duration functions."""

    order: Order = Order.CANONICAL
    queues_per_dim: int = 1
    active_chunks: int = 1             # ASTRA-sim: streams in flight per queue = ceil(this / queues_per_dim)
    lifo: int = 1                      # +1 LIFO, -1 FIFO, 0 explicit priority
    endpoint_delay: int = 0            # ps before a message leaves and after it arrives
    reduce_bandwidth: float = 0.0      # bytes/s of local memory; a reduced receive costs three passes; 0: free
    rendezvous: bool = False           # an 8,192-byte request from the receiver precedes every message
    shared_bus: tuple[float, float, float, float, int] | None = None   # LogGP: L, o, g, G; local-reduction-delay


class Plan(Struct, frozen=True, eq=False):
    """A lowered design.

    Rank r runs `programs[program_of[r]]` on NPU `npu_of[r]`. A comm node with slot s of rank r finds its arguments at
    `slot_ptr[r] + s` (as many as its program's highest slot + 1, all of them used): a collective in `slot_a`
    = index into `collectives`, `slot_b` = index into `groups` or -1 for all ranks, `slot_c` = priority; a send or
    receive in `slot_a` = peer rank, `slot_b` = tag.
    """

    npus: int
    programs: tuple[Program, ...]
    program_of: I32
    npu_of: I32
    slot_ptr: I64
    slot_a: I32
    slot_b: I32
    slot_c: I32
    groups: tuple[I32, ...]
    collectives: tuple[CollectivePlan, ...]
    network: NetworkPlan
    policy: Policy = field(default_factory=Policy)
    remote: Remote = field(default_factory=Remote)
    lanes: tuple[int, ...] = (1, 1, 1, 1, 1)
    reduce_bandwidth: F64 = field(default_factory=lambda: np.zeros(0))    # [npus], or [0]: the policy's everywhere
    changes: Changes | None = None
    attached: tuple[Attached, ...] = ()     # in order of their dims, which are switches

    def reduction_rate(self, npu: int) -> float:
        """Bytes/s at which an NPU's memory serves the reductions of collectives; 0: they are free."""
        return float(self.reduce_bandwidth[npu]) if self.reduce_bandwidth.size else self.policy.reduce_bandwidth
