"""`network.packets`: how the back end `packets` cuts messages, and what its transport does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, ClassVar, Literal

from msgspec.structs import replace

from astrarium.config import Config, Knob, Problem, default
from astrarium.engine.plan import FIRST_LINK, NetworkPlan, PacketRules, RoceRules
from astrarium.network.deadlock import circle_of
from astrarium.network.graph import graph_of
from astrarium.units import Bandwidth, Bytes, Time

__all__ = ["Packets", "Roce", "with_packets"]

Rules = tuple[Callable[[Any], Iterable[Problem]], ...]


def _roce_rules(roce: Roce) -> Iterator[Problem]:
    if Bytes.of(roce.kmax) < Bytes.of(roce.kmin):
        yield Problem("kmax", f"{roce.kmax} is less than kmin", f"at least {roce.kmin}")
    for name in ("pmax", "gain"):
        if getattr(roce, name) > 1:
            yield Problem(name, f"{getattr(roce, name)} is more than 1", "up to 1")


class Roce(Config, frozen=True):
    """PFC, ECN and DCQCN. Defaults are for links of 40 Gb/s.

    Sources: Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015 ([1]: what its testbed ran
    with); Zhu et al., ECN or Delay, CoNEXT 2016 ([2]); the authors' simulator,
    github.com/bobzhuyb/ns3-rdma ([3], windows/ns-3-dev/mix/config.txt). Adapters ship with other values: alpha every
    1 us, 4 us between cuts (NVIDIA, DOCA SDK, DCQCN CC Parameters).
    """

    rules: ClassVar[Rules] = (_roce_rules,)
    buffer: Annotated[Bytes, Knob("Buffer of a node, shared by its links; their headroom is taken from it.", ge=1)
                      ] = default("12 MB")     # [1]: a Trident II
    alpha: Annotated[float, Knob("PFC pauses a link that has more than this share of the buffer's free bytes.", gt=0)
                     ] = 1.0                    # [1]: beta of the dynamic threshold is a choice
    kmin: Annotated[Bytes, Knob("Queue up to which no packet is marked (ECN).")
                    ] = default("5 kB")         # [1]; [2]
    kmax: Annotated[Bytes, Knob("Queue above which every packet is marked.")
                    ] = default("200 kB")       # [1]; [2]
    pmax: Annotated[float, Knob("Share of packets that are marked at kmax.", ge=0)
                    ] = 0.01                    # [1]; [2]
    marks: Annotated[Literal["arriving", "departing"],
                     Knob("Whether the queue that a packet joins or the one that it leaves decides about its mark.")
                     ] = "arriving"             # [1]; [3] marks packets that leave
    gain: Annotated[float, Knob("g of DCQCN: how fast alpha follows the marks.", gt=0)
                    ] = 1 / 256                 # [1]; [2]; [3]: DCTCP_GAIN
    additive: Annotated[Bandwidth, Knob("Step of DCQCN's additive increase, and the least rate of a flow.", gt=0)
                        ] = default("40 Mb/s")  # [2]; [3]: RATE_AI
    cnp_interval: Annotated[Time, Knob("Least time between two CNPs of a flow.", gt=0)
                            ] = default("50 us")    # [1]; [3]: CNP_INTERVAL
    alpha_timer: Annotated[Time, Knob("Time without a CNP after which alpha falls.", gt=0)
                           ] = default("55 us")     # [1]; [3]: ALPHA_RESUME_INTERVAL
    rate_timer: Annotated[Time, Knob("Time between increases of the rate.", gt=0)
                          ] = default("55 us")      # [1]; [2]
    byte_counter: Annotated[Bytes, Knob("Bytes between increases of the rate.", gt=0)
                            ] = default("10 MB")    # [1]; [2]
    recovery: Annotated[int, Knob("Increases of fast recovery, before additive ones.", ge=1)
                        ] = 5                       # [1]; [3]: FAST_RECOVERY_TIMES

    def plan(self) -> RoceRules:
        """As the engine takes it: bytes, ps, parts per million."""
        def ps(time: float) -> int:
            return max(1, round(float(time) * 1000))

        def size(amount: float) -> int:
            return round(float(amount))

        return RoceRules(size(self.buffer), self.alpha, size(self.kmin), size(self.kmax), round(self.pmax * 1_000_000),
                         self.gain, float(self.additive), ps(self.cnp_interval), ps(self.alpha_timer),
                         ps(self.rate_timer), max(1, size(self.byte_counter)), self.recovery,
                         self.marks == "departing")

MOST_THREADS = 256


def _packet_rules(packets: Packets) -> Iterator[Problem]:
    if packets.transport == "credits" and packets.roce != Roce():
        yield Problem("roce", "has no effect with transport: credits", "transport: roce")
    if packets.transport == "roce" and packets.buffer:
        yield Problem("buffer", "has no effect with transport: roce", "roce.buffer")
    if packets.transport == "credits" and 0 < packets.buffer < float(packets.size) + float(packets.header):
        yield Problem("buffer", f"{packets.buffer} holds no packet", "at least size + header, or 0 B")
    if packets.threads > MOST_THREADS:
        yield Problem("threads", f"is {packets.threads}", f"at most {MOST_THREADS}")
    if packets.threads > 1 and packets.spray:
        yield Problem("threads", "has no effect with spray: true", "threads: 1")


class Packets(Config, frozen=True):
    """Packets, links' buffers and transport of `backend: packets`."""

    rules: ClassVar[Rules] = (_packet_rules,)
    size: Annotated[Bytes, Knob("Payload of a packet (4,096 B: the largest MTU of InfiniBand and RoCE).", ge=1,
                                lt=2**31)
                    ] = default("4096 B")
    header: Annotated[Bytes, Knob("Header of each packet; 0 B if `efficiency` accounts for it.",
                                  lt=2**31)
                      ] = default("0 B")
    transport: Annotated[Literal["credits", "roce"], Knob("Lossless by credits (InfiniBand, NVLink), or RoCE: PFC, ECN "
                                                          "and DCQCN.")] = "credits"
    buffer: Annotated[Bytes, Knob("Buffer at the end of each link (credits); 0 B: without limit.")] = default("0 B")
    deadlock: Annotated[Literal["refuse", "allow"], Knob("What becomes of a design whose links may wait for each other "
                                                         "in a circle (credits with buffers).")] = "refuse"
    spray: Annotated[bool, Knob("Packets take equally fast ways in turn.")] = False
    seed: Annotated[int, Knob("Seed of the hash that decides ECN marks.", ge=0,
                              lt=2**63)] = 0
    roce: Annotated[Roce, Knob("What RoCE does.")] = Roce()
    queues: Annotated[bool, Knob("Record the queue of each link, and its pauses, over time.")] = False
    threads: Annotated[int, Knob("Threads that run the packets of one design (without spray); results are the "
                                 "same.", ge=1)] = 1


def with_packets(packets: Packets, network: NetworkPlan) -> NetworkPlan:
    """The engine's network with the rules of `packets`; sprayed over dims, on their graph.

    Raises ConfigError through `circle_of` where finite buffers may deadlock.
    """
    rules = PacketRules(round(float(packets.size)), round(float(packets.header)), round(float(packets.buffer)),
                        packets.spray, packets.seed, packets.roce.plan() if packets.transport == "roce" else None,
                        packets.queues, packets.threads)
    made = replace(network, packets=rules)
    if packets.spray and made.graph is None:
        made = replace(made, graph=graph_of(made.dims), ecmp=FIRST_LINK)
    if packets.transport == "credits" and packets.deadlock == "refuse":
        circle_of(made)
    return made
