"""RoCE as a transport of packets: PFC, ECN and DCQCN."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, ClassVar, Literal

from astrarium.config import Knob, Problem, default
from astrarium.engine.plan import RoceRules
from astrarium.network.transport import Transport
from astrarium.units import Bandwidth, Bytes, Time

__all__ = ["Roce"]

Rules = tuple[Callable[[Any], Iterable[Problem]], ...]


def _roce_rules(roce: Roce) -> Iterator[Problem]:
    if Bytes.of(roce.kmax) < Bytes.of(roce.kmin):
        yield Problem("kmax", f"{roce.kmax} is less than kmin", f"at least {roce.kmin}")
    for name in ("pmax", "gain"):
        if getattr(roce, name) > 1:
            yield Problem(name, f"{getattr(roce, name)} is more than 1", "up to 1")


class Roce(Transport, frozen=True):
    """PFC, ECN and DCQCN. Defaults are for links of 40 Gb/s.

    Sources: Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015 ([1]: what its testbed ran
    with); Zhu et al., ECN or Delay, CoNEXT 2016 ([2]); the authors' simulator,
    github.com/bobzhuyb/ns3-rdma ([3], windows/ns-3-dev/mix/config.txt). Adapters ship with other values: alpha every
    1 us, 4 us between cuts (NVIDIA, DOCA SDK, DCQCN CC Parameters).
    """

    tag: ClassVar[str] = "roce"
    pauses: ClassVar[bool] = True
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
