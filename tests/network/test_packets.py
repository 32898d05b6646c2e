"""`network.packets` of a design: what becomes of its fields, and what is refused."""

from __future__ import annotations

from typing import ClassVar

import pytest
from tests.commands import PlugIn, Run

import astrarium as ar
from astrarium import config
from astrarium.config import ConfigError
from astrarium.engine import Plan
from astrarium.engine.plan import FIRST_LINK, RoceRules
from astrarium.errors import InputError, PluginError, UnsupportedError
from astrarium.lower import lower
from astrarium.network.packets import Packets
from astrarium.network.roce import Roce
from astrarium.network.transport import Transport
from astrarium.trace import TraceBuilder, traces_of_bytes

LINK = {"bandwidth": "50 GB/s", "latency": "500 ns"}


def lowered(packets: Packets, dim: ar.Ring | ar.Switch | None = None, **more: str) -> Plan:
    network = ar.Network([dim or ar.Switch(4, **LINK)], backend="packets", packets=packets, **more)
    design = ar.Design(workload=ar.Trace("in memory"), network=network)
    return lower(design, traces_of_bytes([TraceBuilder().encode()] * 4))


def test_units_reach_the_engine() -> None:
    plan = lowered(Packets(size="1 KiB", header="62 B", buffer="64 KiB"), switching="cut_through")
    rules = plan.network.packets
    assert (rules.size, rules.header, rules.buffer, rules.transport) == (1024, 62, 65_536, None)
    assert plan.network.cut_through
    assert (rules.threads, lowered(Packets(threads=4)).network.packets.threads) == (1, 4)
    given = Roce(kmin="10 kB", pmax=0.5, cnp_interval="4 us")
    roce = lowered(Packets(transport=given)).network.packets.transport
    assert isinstance(roce, RoceRules)
    assert (roce.kmin, roce.pmax, roce.cnp_interval) == (10_000, 500_000, 4_000_000)


def test_packets_are_sprayed_over_the_graph_of_dims() -> None:
    sprayed = lowered(Packets(spray=True), ar.Ring(4, **LINK)).network
    assert sprayed.graph is not None
    assert sprayed.ecmp == FIRST_LINK
    assert lowered(Packets()).network.graph is None


@pytest.mark.parametrize(("fields", "words"), [
    ({"buffer": "1 kB"}, "holds no packet"), ({"threads": 300}, "packets.threads"),
    ({"threads": 2, "spray": True}, "packets.threads")])
def test_fields_that_mean_nothing_are_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words.rsplit(".", maxsplit=1)[-1]):
        lowered(Packets(**fields))      # type: ignore[arg-type]


def test_a_section_roce_is_read() -> None:
    given = config.loads(Packets, "transport: roce\nroce: {kmin: 10 kB}\n")
    assert given == Packets(transport=Roce(kmin="10 kB"))
    assert config.loads(Packets, config.dumps(given)) == given
    with pytest.raises(ConfigError, match=r"transport.name: 'roces' is not known.*did you mean 'roce'"):
        config.loads(Packets, "transport: roces")


def test_a_transport_and_its_fields_are_set_together() -> None:
    network = ar.Network([ar.Switch(4, **LINK)], backend="packets")
    design = ar.Design(workload=ar.SingleCollective("all_to_all", "1 MB"), network=network)
    both = {"network.packets.transport.kmin": "10 kB", "network.packets.transport": "roce"}
    made = config.replace_all(design, both)
    assert made.network.packets.transport == Roce(kmin="10 kB")
    space = ar.Space(made, {"network.packets.transport.kmin": ["10 kB", "20 kB"]})
    assert ar.search(space, "makespan", agent="grid", trials=2).trials == 2
    with pytest.raises(ConfigError, match=r"transport.kmn: unknown key 'kmn'.*did you mean 'kmin'"):
        config.replace_all(design, {"network.packets.transport.kmn": "10 kB", "network.packets.transport": "roce"})
    with pytest.raises(InputError, match=r"transport.kmin: unknown key 'kmin' of name: credits; roce has it"):
        config.replace_all(design, {"network.packets.transport.kmin": "10 kB"})


def test_a_plug_in(plug_in: PlugIn, run: Run) -> None:
    """In the pure-Python engine; in the compiled one its name must be compiled in (test_toy_medium)."""
    plug_in({"transport.delayed": "tests.engine.toy.toy_transport:Delayed"})
    assert "delayed" in run("list", "transport").out
    design = ar.Design(workload=ar.SingleCollective("all_to_all", "1 MB"),
                       network=ar.Network([ar.Switch(4, **LINK)], backend="packets", packets={"transport": "delayed"}),
                       collective=ar.Collective(all_to_all=["direct"], choice="none"))
    found = [ar.simulate(ar.replace(design, "network.packets.transport.delay", delay), pure=True).makespan_ps
             for delay in ("1 us", "7 us")]
    assert found[1] == 7 * found[0] > 0
    with pytest.raises(UnsupportedError, match="packet transport delayed, which is not compiled in"):
        ar.simulate(design)


class Raises(Transport, frozen=True):
    tag: ClassVar[str] = "raises"

    def plan(self) -> None:
        raise KeyError("window")


class Number(Transport, frozen=True):
    tag: ClassVar[str] = "number"

    def plan(self) -> None:
        return 7      # type: ignore[return-value]


@pytest.mark.parametrize(("kind", "message"), [("Raises", "raised KeyError: 'window'"),
                                               ("Number", r"plan\(\) gave an object of int, .* no TransportRules")])
def test_a_wrong_plug_in_is_named(plug_in: PlugIn, kind: str, message: str) -> None:
    name = kind.lower()
    plug_in({f"transport.{name}": f"{__name__}:{kind}"})
    with pytest.raises(PluginError, match=f"transport plug-in {name}: {message}"):
        lowered(Packets(transport=name))
