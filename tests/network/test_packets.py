"""`network.packets` of a design: what becomes of its fields, and what is refused."""

from __future__ import annotations

import pytest

import astrarium as ar
from astrarium.config import ConfigError
from astrarium.engine import Plan
from astrarium.engine.plan import FIRST_LINK, RoceRules
from astrarium.errors import UnsupportedError
from astrarium.lower import lower
from astrarium.network.packets import Packets, Roce
from astrarium.trace import TraceBuilder, traces_of_bytes

LINK = {"bandwidth": "50 GB/s", "latency": "500 ns"}


def lowered(packets: Packets, dim: ar.Ring | ar.Switch | None = None, **more: str) -> Plan:
    network = ar.Network([dim or ar.Switch(4, **LINK)], backend="packets", packets=packets, **more)
    design = ar.Design(workload=ar.Trace("in memory"), network=network)
    return lower(design, traces_of_bytes([TraceBuilder().encode()] * 4))


def test_units_reach_the_engine() -> None:
    plan = lowered(Packets(size="1 KiB", header="62 B", buffer="64 KiB"), switching="cut_through")
    rules = plan.network.packets
    assert (rules.size, rules.header, rules.buffer, rules.roce) == (1024, 62, 65_536, None)
    assert plan.network.cut_through
    assert (rules.threads, lowered(Packets(threads=4)).network.packets.threads) == (1, 4)
    assert lowered(Packets(transport="roce")).network.packets.roce == RoceRules()
    given = Roce(kmin="10 kB", pmax=0.5, cnp_interval="4 us")
    roce = lowered(Packets(transport="roce", roce=given)).network.packets.roce
    assert roce is not None
    assert (roce.kmin, roce.pmax, roce.cnp_interval) == (10_000, 500_000, 4_000_000)


def test_packets_are_sprayed_over_the_graph_of_dims() -> None:
    sprayed = lowered(Packets(spray=True), ar.Ring(4, **LINK)).network
    assert sprayed.graph is not None
    assert sprayed.ecmp == FIRST_LINK
    assert lowered(Packets()).network.graph is None


def test_a_ring_with_buffers_may_deadlock() -> None:
    with pytest.raises(UnsupportedError, match="finite buffers may deadlock: the links of dim 0"):
        lowered(Packets(buffer="64 KiB"), ar.Ring(4, **LINK))
    lowered(Packets(buffer="64 KiB", deadlock="allow"), ar.Ring(4, **LINK))
    lowered(Packets(buffer="64 KiB"), ar.Switch(4, **LINK))


@pytest.mark.parametrize(("fields", "words"), [
    ({"roce": Roce(pmax=0.5)}, "network.packets.roce"), ({"transport": "roce", "buffer": "1 MB"}, "packets.buffer"),
    ({"buffer": "1 kB"}, "holds no packet"), ({"threads": 300}, "packets.threads"),
    ({"threads": 2, "spray": True}, "packets.threads")])
def test_fields_that_mean_nothing_are_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words.rsplit(".", maxsplit=1)[-1]):
        lowered(Packets(**fields))      # type: ignore[arg-type]


def test_packets_of_another_back_end_are_refused() -> None:
    with pytest.raises(ConfigError, match="backend: packets"):
        ar.Network([ar.Switch(4, **LINK)], packets=Packets(size="1 KiB"))
