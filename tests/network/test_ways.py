"""Ways by time: traffic of a host stays inside, equally fast ways are spread, forwarding NPUs are those of the ends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fabric.fabrics import saved, two_hosts

import astrarium as ar
from astrarium.engine.routes import Routes
from astrarium.fabric.built import build
from astrarium.fabric.config import Fabric
from astrarium.network.planned import network_plan

INSIDE, OUTSIDE = ({"bandwidth": f"{rate} GB/s", "latency": "600 ns"} for rate in (450, 50))
LATE = {"pcie": {"latency": "300 ns"}, "rail": {"latency": "600 ns"}, "spine": {"latency": "600 ns"}}
A100 = {**LATE, "nvlink": {"latency": "900 ns"}}
HOST = """<system version="1"><cpu numaid="0" host_hash="0x1">""" + "".join(
    f"""<pci busid="0000:{2 * rank:02x}:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
    <pci busid="0000:{2 * rank + 1:02x}:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
    <gpu dev="{rank}" sm="80" rank="{rank}" gdr="1"><nvlink target="f:0.0" count="12" tclass="0x068000"/></gpu></pci>
    <pci busid="0001:{rank:02x}:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16"><nic>
    <net name="ib{rank}" dev="{rank}" speed="200000" port="1"/></nic></pci></pci>""" for rank in range(4)) + """
    </cpu></system>"""


def clos(hosts: int, xpus: int, ports: int, **links: Mapping[str, str]) -> Fabric:
    return ar.blueprint("clos", hosts=hosts, xpus=xpus, ports=ports,
                        links={"scale_up": INSIDE, "access": OUTSIDE, "spine": OUTSIDE, **links})


def host_rail(folder: Path) -> Fabric:
    (folder / "host.xml").write_text(HOST)
    return ar.blueprint("host_rail", host=str(folder / "host.xml"), hosts=2, ports=16, links={
        "nvlink_x12": INSIDE, "pcie4_x16": {"latency": "300 ns"}, "rail": OUTSIDE, "spine": OUTSIDE})


HOSTS: Mapping[str, tuple[int, Any]] = {
    "clos": (8, lambda _: clos(2, 8, 16)), "one host": (8, lambda _: clos(1, 8, 32)),
    "clos, one leaf": (4, lambda _: clos(2, 4, 16)),
    "dgx_h100_rail": (8, lambda _: ar.blueprint("dgx_h100_rail", hosts=2, links=LATE)),
    "dgx_a100_rail": (8, lambda _: ar.blueprint("dgx_a100_rail", hosts=2, links=A100)),
    "dgx_h100_rail_only": (8, lambda _: ar.blueprint("dgx_h100_rail_only", hosts=2, links={
        name: LATE[name] for name in ("pcie", "rail")})),
    "dgx_a100_rail_only": (8, lambda _: ar.blueprint("dgx_a100_rail_only", hosts=2, links={
        name: A100[name] for name in ("pcie", "rail", "nvlink")})),
    "host_rail": (4, host_rail)}


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("ecmp", [None, "off", 1])
def test_collectives_of_a_host_stay_inside(name: str, ecmp: object, tmp_path: Path) -> None:
    """On every blueprint with hosts, nothing of them crosses a link to a leaf, or a PCI link."""
    xpus, make = HOSTS[name]
    for backend, op in ("contention", "all_reduce"), ("fluid", "all_to_all"), ("packets", "all_gather"):
        network = ar.Network(fabric=make(tmp_path), backend=backend, ecmp=ecmp)
        jobs = ar.Jobs([ar.Job(ar.SingleCollective(op, "1 MB"), f"0:{xpus}")])
        links = ar.simulate(ar.Design(workload=jobs, network=network)).links
        crossed = {links.name(row) for row in np.flatnonzero(links.size).tolist()}
        assert crossed
        assert all("switch" in each or "nvswitch" in each for each in crossed)
        assert not any(other in each for each in crossed for other in ("leaf", "spine", "nic", "pci"))


def way(fabric: Fabric, source: str | int, destination: str | int, ecmp: object = None) -> list[str]:
    """Names of the devices that a message passes."""
    network = ar.Network(fabric=fabric, backend="fluid", ecmp=ecmp)
    plan, built = network_plan(network, "fluid"), build(fabric)
    assert plan.graph is not None
    ends = [int(built.nodes(end, "")[0]) for end in (source, destination)]
    routes = Routes(plan.graph, plan.ecmp)
    return [built.name(routes.target[link]) for link in routes.between(*ends)][:-1]


def test_another_rail_is_reached_by_the_sender_s_own_host() -> None:
    """NVLink first, then the rail of the destination: two slow links, where the spine would make it four."""
    rails = ar.blueprint("dgx_h100_rail", hosts=2, links={**LATE, "pcie": "free"})
    assert way(rails, "host.0.xpu.1", "host.1.xpu.5") == ["host.0.nvswitch.0", "host.0.xpu.5", "leaf.5.asic.0"]


def test_other_hosts_do_not_forward() -> None:
    """Host 1 is on both leaves, whose spine links are slow: a message from host 0 to host 2 does not pass it."""
    fabric = clos(3, 4, 12, spine={"bandwidth": "20 GB/s", "latency": "600 ns"})
    assert [each.split(".")[0] for each in way(fabric, "host.0", "host.2.xpu.3")] == ["leaf", "spine", "leaf"]


def test_a_faster_way_of_more_links_counts(tmp_path: Path) -> None:
    """Between the two hosts of a plain file: the rail by way of the fast switch inside."""
    fabric = ar.FabricFile(file=saved(two_hosts(), tmp_path), inside="free")
    assert way(fabric, "host.0.xpu.0", "host.0.xpu.1") == ["host.0.nvsw.0"]
    assert way(fabric, "host.0.xpu.0", "host.1.xpu.1") == ["host.0.nvsw.0", "host.0.xpu.1", "leaf.1.asic.0"]


@pytest.mark.parametrize("backend", ["contention", "fluid", "packets"])
def test_equally_fast_ways_are_spread_unless_they_are_not_to_be(backend: str) -> None:
    """All pairs of 32 hosts over 8 spines: one spine carries an eighth of what it does where all take the first."""
    def run(**ecmp: Any) -> tuple[int, ar.Network]:
        network = ar.Network(fabric=ar.blueprint("clos", hosts=32, ports=16, links={"access": OUTSIDE,
                                                                                    "spine": OUTSIDE}),
                             backend=backend, **ecmp)
        design = ar.Design(workload=ar.SingleCollective("all_to_all", "8 MB"), network=network)
        return ar.simulate(design, record=False).makespan_ps, network

    spread, network = run()
    assert network.notes == ("a hash of the two NPUs chooses among equally fast ways (network.ecmp: 0; off takes the "
                             "first)",)
    seeded, first = run(ecmp=0), run(ecmp="off")
    assert seeded[0] == spread
    assert seeded[1].notes == first[1].notes == ()
    assert first[0] > 3 * spread
    assert spread < 2 * 8_000_000 / 50 * 1000      # at most twice what the hosts' own links take


def test_in_a_tree_nothing_is_assumed() -> None:
    tree = ar.blueprint("clos", hosts=2, ports=2, links={"access": OUTSIDE, "spine": OUTSIDE})
    assert ar.Network(fabric=tree, backend="fluid").notes == ()


def test_ns3_takes_the_same_ways() -> None:
    fabric = clos(2, 8, 16)
    assert ar.Network(fabric=fabric, backend="ns3").notes == ar.Network(fabric=fabric, backend="contention").notes
