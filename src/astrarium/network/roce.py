"""RoCE as a transport of packets: PFC, ECN and DCQCN."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from msgspec.structs import replace

from astrarium.config import Config, Knob, Problem, default
from astrarium.engine.plan import RoceRules
from astrarium.network.roce_rates import ADDITIVE, HYPER, Marks, marks_at
from astrarium.network.transport import Transport
from astrarium.units import Bandwidth, Bytes, OptionalBandwidth, OptionalBytes, Time

__all__ = ["Roce", "RoceRate", "of_rates", "steps", "told"]

Rules = tuple[Callable[[Any], Iterable[Problem]], ...]
PPM = 1_000_000
DEFAULT = 50.0      # bytes per ns


class RoceRate(Config, frozen=True, kw_only=True):
    """Thresholds of links of one rate, as the maps of the HPCC authors' and SimAI's simulators have them."""

    rate: Annotated[Bandwidth, Knob("Rate of the links.", gt=0)]
    kmin: Annotated[Bytes, Knob("Queue up to which no packet is marked (KMIN_MAP).")]
    kmax: Annotated[Bytes, Knob("Queue above which every packet is marked (KMAX_MAP).")]
    pmax: Annotated[float, Knob("Share of packets that are marked at kmax (PMAX_MAP).", ge=0)]


def _roce_rules(roce: Roce) -> Iterator[Problem]:
    if roce.kmin is not None and roce.kmax is not None and Bytes.of(roce.kmax) < Bytes.of(roce.kmin):
        yield Problem("kmax", f"{roce.kmax} is less than kmin", f"at least {roce.kmin}")
    for name in ("pmax", "gain"):
        if (getattr(roce, name) or 0) > 1:
            yield Problem(name, f"{getattr(roce, name)} is more than 1", "up to 1")
    for place, row in enumerate(roce.rates):
        if Bytes.of(row.kmax) < Bytes.of(row.kmin):
            yield Problem(f"rates[{place}].kmax", f"{row.kmax} is less than kmin", f"at least {row.kmin}")
        if row.pmax > 1:
            yield Problem(f"rates[{place}].pmax", f"{row.pmax} is more than 1", "up to 1")


class Roce(Transport, frozen=True):
    """PFC, ECN and DCQCN. Defaults: thresholds and increases by the rate of links (`roce_rates`), the timers of DCQCN's
    paper, a window as SimAI has it.

    Sources: Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015 ([1]: what its testbed ran
    with); Zhu et al., ECN or Delay, CoNEXT 2016 ([2]); the authors' simulator,
    github.com/bobzhuyb/ns3-rdma ([3], windows/ns-3-dev/mix/config.txt); HPCC (Li et al., SIGCOMM 2019) and its
    simulator, github.com/alibaba-edu/High-Precision-Congestion-Control ([4], simulation/mix/config.txt and
    scratch/third.cc), whose settings SimAI has (github.com/aliyun/SimAI, [5]); NVIDIA, DOCA SDK, DCQCN CC Parameters
    ([6]): adapters ship with alpha every 1 us, 4 us between cuts, increases every 300 us or 32,767 B, one of fast
    recovery, steps of 5 and 50 Mb/s. [4] and [5] increase every 900 us, whatever was sent, by 50 and 100 Mb/s.
    """

    tag: ClassVar[str] = "roce"
    pauses: ClassVar[bool] = True
    rules: ClassVar[Rules] = (_roce_rules,)
    buffer: Annotated[Bytes, Knob("Buffer of a node, shared by its links; their headroom is taken from it.", ge=1)
                      ] = default("32 MiB")     # [4], [5]: BUFFER_SIZE
    alpha: Annotated[float, Knob("PFC pauses a link that has more than this share of the buffer's free bytes.", gt=0)
                     ] = 0.125                  # [4], [5]: pfc_a_shift 3
    kmin: Annotated[OptionalBytes, Knob("Queue up to which no packet is marked (ECN), at all rates; left out: by the "
                                        "rate of the link.")] = default(None)
    kmax: Annotated[OptionalBytes, Knob("Queue above which every packet is marked, at all rates; left out: by the rate "
                                        "of the link.")] = default(None)
    pmax: Annotated[float | None, Knob("Share of packets that are marked at kmax, at all rates; left out: by the rate "
                                       "of the link.", ge=0)] = None
    rates: Annotated[Sequence[RoceRate], Knob("kmin, kmax and pmax by the rate of the link, in place of the built-in "
                                              "ones; other rates in proportion to the nearest row.")] = ()
    marks: Annotated[Literal["arriving", "departing"],
                     Knob("Whether the queue that a packet joins or the one that it leaves decides about its mark.")
                     ] = "arriving"             # [1]; [3], [4], [5] mark packets that leave
    gain: Annotated[float, Knob("g of DCQCN: how fast alpha follows the marks.", gt=0)
                    ] = 1 / 256                 # [1]; [2]; [3]: DCTCP_GAIN; [4], [5]: EWMA_GAIN
    additive: Annotated[OptionalBandwidth, Knob("Step of DCQCN's additive increase; left out: 0.1 % of the rate of the "
                                                "flow's NIC.", gt=0)] = default(None)
    hyper: Annotated[OptionalBandwidth, Knob("Step of increases after `recovery` ones both by time and by bytes; left "
                                             "out: 0.5 % of the rate of the flow's NIC; 0: the additive one.")
                     ] = default(None)
    least: Annotated[Bandwidth, Knob("Least rate of a flow.", gt=0)
                     ] = default("40 Mb/s")     # a step of [1]; [4], [5]: MIN_RATE 100 Mb/s; [6]: 1 Mb/s
    cnp_interval: Annotated[Time, Knob("Least time between two CNPs of a flow, and so between cuts.", gt=0)
                            ] = default("50 us")    # [1]; [3]: CNP_INTERVAL; [4], [5]: RATE_DECREASE_INTERVAL 4
    alpha_timer: Annotated[Time, Knob("Time without a CNP after which alpha falls.", gt=0)
                           ] = default("55 us")     # [1]; [3]: ALPHA_RESUME_INTERVAL; [4], [5]: 1
    rate_timer: Annotated[Time, Knob("Time between increases of the rate.", gt=0)
                          ] = default("55 us")      # [1]; [2]; [4], [5]: RP_TIMER 900
    byte_counter: Annotated[Bytes, Knob("Bytes between increases of the rate; 0 B: only time counts.")
                            ] = default("10 MB")    # [1]; [2]; [4], [5] have none
    recovery: Annotated[int, Knob("Increases of fast recovery, before additive ones.", ge=1)
                        ] = 5                       # [1]; [3], [4], [5]: FAST_RECOVERY_TIMES (5, 1, 1)
    clamp: Annotated[bool, Knob("Every cut lowers the target rate; else only one after an increase.")
                     ] = False                      # [4], [5]: CLAMP_TARGET_RATE; [6]; [1] clamps
    window: Annotated[float, Knob("Bytes under way of a flow: at most so many round trips of its slowest link, rounded "
                                  "up to packets; 0: any number.", ge=0)
                      ] = 1.0                       # [4], [5]: HAS_WIN; [1] has none
    window_scales: Annotated[bool, Knob("The window shrinks as the flow's rate does.")
                             ] = True               # [4], [5]: VAR_WIN
    state: Annotated[Literal["connection", "message"],
                     Knob("Whether a pair's rate lasts from message to message, as an adapter's queue pair has it, or "
                          "each message begins at the NIC's.")
                     ] = "connection"               # [4], [5]: a queue pair for each message
    inside: Annotated[Sequence[str | int] | None,
                      Knob("Links inside hosts, which are no hops of RoCE: names of a fabric's links, or numbers of "
                           "dims. Left out: tiers scale_in and scale_up, and links without a tier within a device that "
                           "has XPUs; of several dims the innermost, if it is faster than the next.")] = None

    def plan(self) -> RoceRules:
        """As the engine takes it (bytes, ps, parts per million) without a network, whose rates `of_rates` adds."""
        return _at(self, DEFAULT)


def told(roce: Roce, rate: float) -> Marks:
    """Thresholds of links of `rate` bytes per ns: of the fields that hold at all rates, of `rates`, or built in."""
    rows = tuple([Marks(float(row.rate), float(row.kmin), float(row.kmax), row.pmax) for row in roce.rates])
    row = marks_at(rate, rows) if rows else marks_at(rate)
    return Marks(rate, row.kmin if roce.kmin is None else float(roce.kmin),
                 row.kmax if roce.kmax is None else float(roce.kmax), row.pmax if roce.pmax is None else roce.pmax)


def of_rates(roce: Roce, rates: Sequence[float]) -> RoceRules:
    """As the engine takes it, with a row for each of these rates (bytes per ns)."""
    rows = [value for rate in rates
            for value in (rate, *map(float, _of(told(roce, rate))), roce.alpha, *steps(roce, rate))]
    return replace(_at(roce, rates[0] if rates else DEFAULT), by_rate=tuple(rows))


def _at(roce: Roce, rate: float) -> RoceRules:
    return RoceRules(_size(roce.buffer), roce.alpha, *_of(told(roce, rate)), roce.gain, *steps(roce, rate),
                     float(roce.least), _ps(roce.cnp_interval), _ps(roce.alpha_timer), _ps(roce.rate_timer),
                     _size(roce.byte_counter), roce.recovery, roce.window, roce.window_scales, roce.clamp,
                     roce.marks == "departing", roce.state == "message")


def _of(row: Marks) -> tuple[int, int, int]:
    return _size(row.kmin), _size(row.kmax), round(row.pmax * PPM)


def steps(roce: Roce, rate: float) -> tuple[float, float]:
    """Additive and hyper increase of flows whose NIC has `rate`, all in bytes per ns."""
    return (ADDITIVE * rate if roce.additive is None else float(roce.additive),
            HYPER * rate if roce.hyper is None else float(roce.hyper))


def _size(amount: float) -> int:
    return round(float(amount))


def _ps(time: float) -> int:
    return max(1, round(float(time) * 1000))
