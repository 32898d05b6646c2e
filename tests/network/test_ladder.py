"""Every back end has a case in which it must differ from `closed_form`, and does, by what it adds."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.plans.hand import plan_of, recv, send
from tests.plugins.common import EXAMPLES, compiled

from astrarium.engine import execute
from astrarium.engine.plan import Backend, Dim, NetworkPlan, PacketRules, Plan, Shape
from astrarium.engine.plugins import Plugins, load
from astrarium.registry import Kind

SIZE = 1 << 18
BYTE, LATENCY = 20, 500_000         # ps: 50 GB/s, 500 ns
ALONE = SIZE * BYTE + 2 * LATENCY   # of a message through a switch, whose head goes on


def incast(network: NetworkPlan) -> Plan:
    """All other NPUs of the one dim send to NPU 0; each of its receives is a node."""
    npus = network.dims[0].npus
    ranks = [[recv(npu, SIZE) for npu in range(1, npus)]] + [[send(0, SIZE)]] * (npus - 1)
    return plan_of(ranks, network)


def over(backend: str, npus: int, packets: PacketRules | None = None) -> NetworkPlan:
    """A switch."""
    return NetworkPlan(backend, (Dim(Shape.SWITCH, npus, 50.0, 500.0),), packets=packets or PacketRules())


def received(network: NetworkPlan, plugins: Plugins | None = None) -> list[int]:
    """When NPU 0 has each message of the incast, ps, in order of time."""
    outcome = execute(incast(network), record=True, fold=False, plugins=plugins)
    return sorted(outcome.end[:network.dims[0].npus - 1].tolist())


def closed_form() -> None:
    """It gives whole messages one after the other: its receiving port takes one at a time."""
    assert received(over(Backend.PORTS, 8)) == [ALONE + k * SIZE * BYTE for k in range(7)]


def contention(_: Path) -> None:
    """It stores a message before it forwards it: the up link's time comes once on top."""
    assert received(over("contention", 8)) == [ALONE + (k + 1) * SIZE * BYTE for k in range(7)]


def fluid(_: Path) -> None:
    """It shares the down link: all seven end when the last one does."""
    assert received(over("fluid", 8)) == [ALONE + 6 * SIZE * BYTE] * 7


def packets(_: Path) -> None:
    """Packets of all seven take turns: the first message ends with the last, but for a packet of each of the others. A
    buffer of one packet lets one go per round trip of 2 (L + packet)."""
    found, packet = received(over("packets", 8)), 4096 * BYTE
    assert found == [ALONE + 6 * SIZE * BYTE + packet - k * packet for k in reversed(range(7))]
    slow = received(over("packets", 2, PacketRules(buffer=4096)))
    assert slow == [SIZE // 4096 * 2 * (packet + LATENCY)]


def ns3(_: Path) -> None:
    """As packets, with 30 bytes of headers each, and one packet more for the second link. What ns-3 gave stands in the
    facts; tests/network/ns3 runs it where it is built."""
    with (Path(__file__).parent / "facts" / "ns3.csv").open(newline="", encoding="utf-8") as file:
        row = next(row for row in csv.DictReader(file) if row["fabric"] == "switch 9" and row["transport"] == "udp")
    packet = (4096 + 30) * BYTE
    last = 2 * LATENCY + packet + 8 * SIZE // 4096 * packet
    assert [int(row[name]) for name in ("first_ps", "last_ps")] == [last - 7 * packet, last]


def library(folder: Path) -> None:
    """The example in C has ports that send and none that receives, and counts one latency: all seven come at once."""
    toy = load(compiled(EXAMPLES / "network_c" / "toy.c", folder / "libtoy.so"))
    assert received(over(Backend.FOREIGN, 8), Plugins(network=toy)) == [SIZE * BYTE + LATENCY] * 7


DIFFER: dict[str, Callable[[Path], None]] = {
    each.__name__: each for each in (contention, fluid, packets, ns3, library)}


@pytest.mark.parametrize("name", Kind("backend").names())
def test_it_differs_from_the_closed_form_where_it_must(name: str, tmp_path: Path) -> None:
    closed_form()
    if name != "closed_form":
        DIFFER[name](tmp_path)
