"""Parallel switches and cards of a host: one device with the sum of their links, unless a design keeps them apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fabric.fabrics import edge, link, saved

import astrarium as ar
from astrarium.engine.plan import Dim, Shape
from astrarium.fabric.built import build
from astrarium.fabric.config import Fabric
from astrarium.trace import TraceBuilder, traces_of_bytes

NPUS = 8


def topology(folder: Path, rates: Sequence[float], ns: Sequence[float] | None = None) -> str:
    """A topology file of ns-3 (SimAI's head): eight GPUs with a link of so many Gb/s to each switch."""
    count = len(rates)
    lines = [f"{NPUS + count} 8 {count} 0 {NPUS * count} H100", " ".join(str(NPUS + n) for n in range(count))]
    lines += [f"{npu} {NPUS + n} {rate}Gbps {(ns or [25] * count)[n] / 1e6:f}ms 0" for n, rate in enumerate(rates)
              for npu in range(NPUS)]
    path = folder / "topology.txt"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def fabric(folder: Path, rates: Sequence[float], **more: Any) -> Fabric:
    return ar.FabricFile(file=topology(folder, rates), **more)


def ring(network: ar.Network) -> float:
    """Bus bandwidth in GB/s of a ring all_reduce of 256 MB."""
    result = ar.simulate(ar.Design(workload=ar.SingleCollective("all_reduce", "256 MB"), network=network,
                                   collective=ar.Collective(all_reduce=["ring"], choice="none")))
    return 256_000 * 2 * (NPUS - 1) / NPUS / float(result.makespan) * 1000


@pytest.mark.parametrize("backend", ["closed_form", "contention", "fluid", "packets"])
def test_four_nvswitches_of_a_host_are_one_of_450_gb_s(tmp_path: Path, backend: str) -> None:
    """18 NVLinks of a GPU, five and four at a switch: no message is limited by one of them."""
    network = ar.Network(fabric=fabric(tmp_path, [1000, 800, 800, 1000]), backend=backend)
    assert build(network.fabric).dims == (Dim(Shape.SWITCH, NPUS, 450.0, 25.0),)
    assert ring(network) == pytest.approx(450, rel=2e-3)
    assert network.notes == (
        "4 parallel devices count as 1, over which messages are striped: switch.0.switch.0, switch.1.switch.0, "
        "switch.2.switch.0, switch.3.switch.0 (network.fabric.planes: apart)",)


def test_apart_a_message_has_one_of_them(tmp_path: Path) -> None:
    network = ar.Network(fabric=fabric(tmp_path, [1000, 800, 800, 1000], planes="apart"), backend="fluid")
    assert build(network.fabric).graph.nodes == NPUS + 4
    assert ring(network) <= 125
    assert not any("parallel" in note for note in network.notes)


@pytest.mark.parametrize(("rates", "ns", "nodes"), [
    ([1000, 1000], [25, 50], 2),        # another latency
    ([1000, 400], [25, 25], 2),         # a network beside a switch of the host
    ([1000, 1000, 400], [25] * 3, 3)])
def test_unlike_switches_stay_apart(tmp_path: Path, rates: list[float], ns: list[float], nodes: int) -> None:
    built = build(ar.FabricFile(file=topology(tmp_path, rates, ns)))
    assert built.graph.nodes == NPUS + nodes


def hosts(leaves: int, cards: int = 2, gigabits: tuple[float, ...] = (400, 400)) -> dict[str, Any]:
    """Two hosts of one XPU with two cards, on so many leaf switches each; all leaves on two spines."""
    host = {"name": "host", "components": [{"name": "xpu", "count": 1, "choice": "xpu"},
                                           {"name": "nic", "count": cards, "choice": "nic"}],
            "links": [link("pcie", 512, 100)],
            "edges": [{"ep1": {"component": "xpu"}, "ep2": {"component": "nic"}, "scheme": "many2many",
                       "link": "pcie"}]}
    switch = {"name": "switch", "components": [{"name": "asic", "count": 1, "choice": "switch"}], "links": [],
              "edges": []}
    return {"name": "cards", "devices": [host, switch],
            "links": [*(link(f"rail{n}", rate, 500) for n, rate in enumerate(gigabits)), link("up", 1600, 500)],
            "instances": [{"name": "host", "device": "host", "count": 2},
                          {"name": "leaf", "device": "switch", "count": 2 * leaves},
                          {"name": "spine", "device": "switch", "count": 2}],
            "edges": [edge(f"host[{n}].nic[{card}]", f"leaf[{leaves * n + card % leaves}].asic", f"rail{card}")
                      for n in range(2) for card in range(cards)]
            + [edge("leaf.asic", "spine.asic", "up", "many2many")]}


@pytest.mark.parametrize("leaves", [1, 2])
@pytest.mark.parametrize("backend", ["contention", "fluid", "packets"])
def test_cards_of_a_host_are_striped_and_spines_are_not(tmp_path: Path, backend: str, leaves: int) -> None:
    """Two cards of 50 GB/s, on one leaf or on one each: 100. Spines stay two: a message takes one of them."""
    network = ar.Network(fabric=ar.FabricFile(file=saved(hosts(leaves), tmp_path)), backend=backend)
    assert build(network.fabric).graph.nodes == 2 + 2 + 2 + 2       # XPUs, cards, leaves, spines
    result = ar.simulate(ar.Design(workload=ar.SingleCollective("all_to_all", "100 MB"), network=network,
                                   collective=ar.Collective(choice="none")))
    assert float(result.makespan) == pytest.approx(500_000, rel=0.01)


def test_cards_of_unlike_speed_stay_apart(tmp_path: Path) -> None:
    """As do their leaf switches, which nothing else tells apart."""
    built = build(ar.FabricFile(file=saved(hosts(2, gigabits=(400, 100)), tmp_path)))
    assert built.graph.nodes == 2 + 4 + 4 + 2
    assert built.planes == ()


def test_switches_that_are_joined_stay_apart(tmp_path: Path) -> None:
    path = Path(topology(tmp_path, [900, 900]))
    head, *rest = path.read_text().splitlines()
    path.write_text("\n".join([head.replace(" 16 ", " 17 "), *rest, "8 9 900Gbps 0.000025ms 0"]) + "\n")
    assert build(ar.FabricFile(file=str(path))).graph.nodes == NPUS + 2


def test_a_slow_link_of_a_plane_slows_the_stripes(tmp_path: Path) -> None:
    """A message waits for its slowest stripe; a link that is not there from the start leaves that switch out."""
    def rate(speed: float) -> float:
        change = {"link": [0, "switch.3"], "speed": speed}
        network = ar.Network(fabric=fabric(tmp_path, [900] * 4), backend="contention", changes=[change])
        ranks = [TraceBuilder() for _ in range(NPUS)]
        ranks[0].send("send", 3, 9_000_000)
        ranks[3].recv("recv", 0, 9_000_000)
        design = ar.Design(workload=ar.Trace("in memory"), network=network)
        result = ar.simulate(design, traces=traces_of_bytes([rank.encode() for rank in ranks]))
        return 9e6 / (float(result.makespan) - 50)
    assert rate(0.5) == pytest.approx(225, rel=1e-3)
    assert rate(0) == pytest.approx(337.5, rel=1e-3)


def test_switches_that_compute_stay_apart(tmp_path: Path) -> None:
    computing = {"in_switch": {"switch.0": {"rate": "1 TB/s"}}}
    built = build(fabric(tmp_path, [900] * 4, **computing))
    assert built.graph.nodes == NPUS + 2
    assert built.planes == (("switch.1.switch.0", "switch.2.switch.0", "switch.3.switch.0"),)
