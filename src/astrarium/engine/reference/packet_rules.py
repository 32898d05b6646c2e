"""Networks that packets cannot cross: the checks of the compiled core (media/packets/check.cpp)."""

from __future__ import annotations

from astrarium.engine.plan import NetworkPlan, PacketRules, RoceRules
from astrarium.engine.reference.check_schedule import require, whole
from astrarium.engine.reference.native_clock import ticks
from astrarium.errors import UnsupportedError

__all__ = ["check_packets"]

MOST = 2**31
MILLION = 1_000_000


def check_packets(network: NetworkPlan) -> None:
    """Raise InternalError for rules out of range, UnsupportedError for a link without latency, and for a buffer that no
    packet fits into."""
    rules = network.packets
    _check_rules(rules)
    if (graph := network.graph) is not None:
        for link, (latency, buffer) in enumerate(zip(graph.latency.tolist(), graph.buffer.tolist(), strict=True)):
            _check_link(rules, latency, buffer, f"link {link}")
        return
    for number, dim in enumerate(network.dims):
        if dim.npus > 1:
            _check_link(rules, dim.latency, 0, f"links of dim {number}")


def _check_rules(rules: PacketRules) -> None:
    numbers = rules.size, rules.header, rules.buffer, rules.seed, rules.threads
    require(all(map(whole, numbers)), "packets out of range")
    require(1 <= rules.size < MOST and 0 <= rules.header < MOST and rules.buffer >= 0 and 1 <= rules.threads <= 256,
            "packets out of range")
    if not isinstance(roce := rules.transport, RoceRules):
        return
    require(roce.buffer >= 1 and roce.alpha > 0 and 0 <= roce.kmin <= roce.kmax and 0 <= roce.pmax <= MILLION,
            "packets out of range")
    least = min(roce.cnp_interval, roce.alpha_timer, roce.rate_timer, roce.byte_counter, roce.recovery)
    require(0 < roce.gain <= 1 and least >= 1 and roce.additive > 0, "packets out of range")


def _check_link(rules: PacketRules, latency: float, buffer: int, what: str) -> None:
    if ticks(latency) < 1:
        raise UnsupportedError("workload", f"packets over {what} without latency: at least 1 ps")
    room, packet = buffer or rules.buffer, rules.size + rules.header
    if rules.transport is None and 0 < room < packet:
        raise UnsupportedError("workload", f"packets of {packet} bytes over {what} with a buffer of {room}")
