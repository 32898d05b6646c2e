"""Hosts from XML of NCCL and of lstopo: parts, rates, what is asked for, and what is refused."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import astrarium as ar
from astrarium.errors import AstrariumError, InputError, UnsupportedError
from astrarium.fabric.built import laid_out
from astrarium.fabric.config import Fabric, FabricFile
from astrarium.fabric.files import read_document, written
from astrarium.fabric.host import pcie_rate
from astrarium.fabric.xmlfile import parse_xml
from astrarium.report.tables.show_fabric import fabric_rows, shown_fabric

LINK = 'link_speed="{speed} GT/s PCIe" link_width="{width}"'
BOTH = {"latency": "500 ns", "bandwidth": "40 GB/s"}


def gpu(bus: int, rank: int, inside: str = "", speed: str = "16.0", width: int = 16) -> str:
    return (f'<pci busid="0000:{bus:02x}:00.0" class="0x030200" {LINK.format(speed=speed, width=width)}>'
            f'<gpu dev="{rank}" sm="80" rank="{rank}" gdr="1">{inside}</gpu></pci>')


def nvlink(bus: int, count: int, kind: str) -> str:
    return f'<nvlink target="0000:{bus:02x}:00.0" count="{count}" tclass="{kind}"/>'


def nccl(*cpus: str) -> str:
    return "<system version=\"1\">" + "".join(f'<cpu numaid="{place}" host_hash="0x1">{inside}</cpu>'
                                             for place, inside in enumerate(cpus)) + "</system>"


def switch(bus: int, inside: str, speed: str = "8.0") -> str:
    return (f'<pci busid="0000:{bus:02x}:00.0" class="0x060400" {LINK.format(speed=speed, width=16)}>{inside}</pci>')


def file(text: str, folder: Path, name: str = "host.xml") -> FabricFile:
    path = folder / name
    path.write_text(text)
    return FabricFile(file=str(path))


def rates(fabric: FabricFile) -> dict[str, tuple[int, float | None]]:
    return {row["link"].removeprefix("host."): (row["links"], row["bandwidth_gb_per_s"])
            for row in fabric_rows(shown_fabric(fabric))["links"]}


def test_pcie_rates_are_those_of_lanes_and_their_code() -> None:
    assert pcie_rate(2.5, 1) == pytest.approx(0.25)
    assert pcie_rate(16.0, 16) == pytest.approx(31.508, abs=1e-3)
    assert pcie_rate(32.0, 16) == pytest.approx(2 * pcie_rate(16.0, 16))


def test_a_host_of_nccl(tmp_path: Path) -> None:
    card = ('<pci busid="0000:09:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16"><nic>'
            '<net name="mlx5_0" dev="0" speed="200000" latency="0.000000"/></nic></pci>')
    disk = '<pci busid="0000:0a:00.0" class="0x010802" link_speed="8.0 GT/s PCIe" link_width="4"/>'
    fabric = file(nccl(switch(1, gpu(2, 1, nvlink(3, 4, "0x030200")) + gpu(3, 0, nvlink(2, 4, "0x030200"), "8.0", 8)
                              + card + disk)), tmp_path)
    assert fabric_rows(shown_fabric(fabric))["nodes"] == {"cpu": 1, "xpu": 2, "nic": 1, "switch": 1}
    assert rates(fabric) == {"pcie3_x16": (1, pytest.approx(15.754, rel=1e-4)),
                             "pcie4_x16": (2, pytest.approx(31.508, rel=1e-4)),
                             "pcie3_x8": (1, pytest.approx(7.877, rel=1e-4)), "nvlink_x4": (1, None)}
    assert [laid_out(fabric).expanded.name(int(node)) for node in laid_out(fabric).npus] == ["host.0.gpu.1",
                                                                                            "host.0.gpu.0"]
    document = read_document(fabric.file)
    assert [link.name for link in document.infrastructure.links] == ["net_200g"]
    assert document.infrastructure.links[0].physical.bandwidth.gigabytes_per_second == 25.0
    again = tmp_path / "again.yaml"
    again.write_text(written(document))
    assert read_document(str(again)) == document


def test_what_is_missing_is_asked_for_by_path_and_then_it_runs(tmp_path: Path) -> None:
    fabric = file(nccl(switch(1, gpu(2, 0, nvlink(3, 4, "0x030200")) + gpu(3, 1, nvlink(2, 4, "0x030200")))), tmp_path)
    with pytest.raises(InputError) as caught:
        ar.Network(fabric=fabric, backend="fluid")
    said = str(caught.value)
    for path in ("links.nvlink_x4.bandwidth", "links.nvlink_x4.latency", "links.pcie4_x16.latency"):
        assert f"Network.fabric.{path}: is missing" in said
    assert "pcie4_x16.bandwidth" not in said
    network = ar.Network(backend="contention", fabric=ar.replace(fabric, "links", {
        "nvlink_x4": BOTH, "pcie4_x16": {"latency": "200 ns"}, "pcie3_x16": {"latency": "200 ns"}}))
    found = ar.simulate(ar.Design(workload=ar.SingleCollective("all_to_all", "8 MB"), network=network))
    assert float(found.makespan) == pytest.approx(4e6 / 40 + 500)


def test_nvswitches_are_one_and_links_to_them_add_up(tmp_path: Path) -> None:
    to_switches = nvlink(0xc4, 2, "0x068000") + nvlink(0xc5, 2, "0x068000")
    fabric = file(nccl(gpu(2, 0, to_switches), gpu(3, 1, to_switches)), tmp_path)
    assert rates(fabric) == {"pcie4_x16": (2, pytest.approx(31.508, rel=1e-4)), "between_cpus": (1, None),
                             "nvlink_x4": (2, None)}


def test_a_dgx_a100(shared: Path) -> None:
    path = shared / "traces" / "dgx_a100_nccl_topo.xml"
    fabric = FabricFile(file=str(path))
    assert fabric_rows(shown_fabric(fabric))["nodes"] == {"cpu": 6, "xpu": 8, "nic": 10, "switch": 25}
    assert rates(fabric) == {"pcie4_x16": (42, pytest.approx(31.508, rel=1e-4)), "between_cpus": (15, None),
                             "nvlink_x12": (8, None)}
    laid = laid_out(fabric)
    text = path.read_text()
    ranks = [int(line.split('rank="')[1].split('"')[0]) for line in text.splitlines() if "<gpu " in line]
    assert [laid.expanded.name(int(node)) for node in laid.npus] == [
        f"host.0.gpu.{gpu}" for gpu in np.argsort(ranks)]
    assert {link.name: link.physical.bandwidth.gigabytes_per_second
            for link in read_document(str(path)).infrastructure.links} == {"net_200g": 25.0, "net_100g": 12.5}


def device(kind: str, index: int, rate: str = "15.753846", inside: str = "") -> str:
    return (f'<object type="PCIDev" gp_index="{index}" pci_busid="0000:01:00.0" pci_type="{kind} [10de:1234] [0:0] a1" '
            f'pci_link_speed="{rate}">{inside}</object>')


def bridge(depth: int, inside: str, rate: str = "15.753846") -> str:
    return (f'<object type="Bridge" gp_index="9{depth}" bridge_type="{int(depth > 0)}-1" depth="{depth}" '
            f'pci_link_speed="{rate}">{inside}</object>')


def lstopo(inside: str, matrix: str = "", packages: int = 1) -> str:
    rest = '<object type="Package" gp_index="2"/>' * (packages - 1)
    return ('<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0">'
            '<object type="Machine" gp_index="1"><info name="a" value="b"/><object type="Package" gp_index="3">'
            f'<object type="NUMANode" gp_index="4"/><object type="L3Cache">{inside}</object></object>{rest}</object>'
            f"{matrix}</topology>")


TREE = bridge(0, bridge(1, bridge(2, bridge(3, device("0302", 20)) + bridge(3, device("0302", 21, "0.000000"))
                                  + bridge(3, device("0207", 22)) + bridge(3, device("0108", 23))))
              + bridge(1, device("0300", 24, "0.25").replace("10de", "1a03")))


def test_a_host_of_lstopo(tmp_path: Path) -> None:
    matrix = ('<distances2hetero nbobjs="2" kind="25" name="NVLinkBandwidth"><indexes>PCIDev:20 PCIDev:21 </indexes>'
              "<u64values>1000000 50000 </u64values><u64values>50000 1000000 </u64values></distances2hetero>")
    fabric = file(lstopo(TREE, matrix, packages=2), tmp_path)
    assert fabric_rows(shown_fabric(fabric))["nodes"] == {"cpu": 2, "xpu": 2, "nic": 1, "memory": 1, "switch": 1}
    assert rates(fabric) == {"memory": (1, None), "pcie_15_8": (3, pytest.approx(15.753846)), "pcie": (1, None),
                             "between_cpus": (1, None), "nvlink_50": (1, 50.0)}


@pytest.mark.parametrize(("text", "message"), [
    ('<!DOCTYPE a [<!ENTITY b "c">]><system>&b;</system>', "document type with declarations"),
    ("<system>&b;</system>", "not well-formed"),
    ("<system>" * 65 + "</system>" * 65, "nested more than 64"),
    ("<system>" + "<a/>" * 200_000 + "</system>", "more than 200,000 elements"),
    ("<system><cpu></system>", "not well-formed"),
    ("<html/>", "<html> outermost"),
    (nccl("<gpu/>"), "<gpu> in <cpu>"),
    (nccl(gpu(2, 0)) .replace('link_width="16"', 'link_width="-1"'), "link_width '-1'"),
    (nccl(gpu(2, 0)).replace("16.0 GT", "17.0 GT"), "16 lanes of 17.0 GT/s"),
    (nccl(gpu(2, 0), gpu(2, 1)), "is there twice"),
    (nccl(gpu(2, 0, nvlink(3, 1, "0x030200"))), "a link to"),
    (nccl(gpu(2, 0, nvlink(3, 1, "0x030200")), gpu(3, 1)), "disagree"),
    (nccl(gpu(2, 0), "").replace('numaid="1" host_hash="0x1"', 'numaid="1" host_hash="0x2"'), "2 hosts"),
    (nccl(""), "have no xpu"),
    ("<topology/>", "0 objects outermost"),
    (lstopo(device("0302", 20, "fast")), "pci_link_speed 'fast'"),
    (lstopo(TREE).replace('depth="2"', 'depth="x"'), "depth 'x'"),
    (lstopo(TREE, '<distances2 name="NVLinkBandwidth"><indexes>20</indexes></distances2>'), "0 values for 1 objects"),
    (lstopo(TREE).replace('depth="2"', f'depth="{"2" * 5000}"'), "depth '222"),
    (lstopo(TREE, '<distances2 name="NVLinkBandwidth"><indexes>20</indexes><u64values>' + "9" * 5000
            + "</u64values></distances2>"), "1 values for 1 objects"),
], ids=range(20))
def test_bad_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises((InputError, UnsupportedError)) as caught:
        laid_out(file(text, tmp_path))
    assert message in str(caught.value)
    assert "host.xml" in str(caught.value)


def test_a_bomb_of_entities_is_refused_at_once() -> None:
    levels = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 20))
    with pytest.raises(InputError, match="declarations"):
        parse_xml(f'<!DOCTYPE system [<!ENTITY a0 "x">{levels}]><system>&a19;</system>', "bomb.xml")


@given(data=st.data())
def test_damaged_files_give_errors_of_ours_or_a_host(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
                                                     ) -> None:
    text = data.draw(st.sampled_from([lstopo(TREE), nccl(switch(1, gpu(2, 0, nvlink(3, 4, "0x030200"))), gpu(3, 1))]))
    at, size = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 40))
    damaged = text[:at] + data.draw(st.text(max_size=6)) + text[at + size:]
    path = tmp_path_factory.getbasetemp() / "damaged.xml"
    path.write_text(damaged, encoding="utf-8")
    with contextlib.suppress(AstrariumError):
        laid_out(FabricFile(file=str(path)))


def card(bus: int) -> str:
    return (f'<pci busid="0000:{bus:02x}:00.0" class="0x020700" {LINK.format(speed="16.0", width=16)}><nic>'
            f'<net name="mlx5" dev="0" speed="200000"/></nic></pci>')


def rails(folder: Path, hosts: int = 3, **more: object) -> Fabric:
    path = file(nccl(switch(1, gpu(2, 1, nvlink(3, 4, "0x030200")) + card(8)),
                     switch(4, gpu(3, 0, nvlink(2, 4, "0x030200")) + card(9))), folder).file
    return ar.blueprint("host_rail", **{"host": path, "hosts": hosts, "ports": 4, **more})


def test_hosts_of_a_file_on_rails(tmp_path: Path) -> None:
    fabric = rails(tmp_path)
    laid = laid_out(fabric)
    assert fabric_rows(shown_fabric(fabric))["nodes"] == {
        "xpu": 6, "nic": 6, "cpu": 6, "switch": 6 + 4 + 2, "port": 24}
    assert [laid.expanded.name(int(node)) for node in laid.npus] == [
        f"host.{host}.gpu.{1 - rank}" for host in range(3) for rank in range(2)]      # as the file ranks them
    names = [laid.expanded.name(node) for node in range(laid.expanded.nodes)]
    cables = {(names[one], names[two]) for one, two in zip(laid.expanded.source.tolist(),
                                                           laid.expanded.target.tolist(), strict=True)}
    for host, rail in ((host, rail) for host in range(3) for rail in range(2)):
        assert (f"host.{host}.nic.{rail}", f"leaf.{2 * (host // 2) + rail}.port.{host % 2}") in cables
    small = {"latency": "200 ns"}
    links = {"nvlink_x4": BOTH, "pcie4_x16": small, "pcie3_x16": small, "between_cpus": BOTH, "rail": BOTH,
             "spine": BOTH}
    network = ar.Network(fabric=ar.replace(fabric, "links", links), backend="fluid")
    result = ar.simulate(ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"), network=network))
    assert set(result.links.tiers()) == {"", "scale_out"}


@pytest.mark.parametrize(("more", "message"), [
    ({"nics": [0, 2]}, "has 2 cards"), ({"nics": []}, "are none"), ({"nics": [1, 1]}, "twice"),
    ({"hosts": 5}, "need 6 leaf switches"), ({"host": "none.xml"}, "cannot be read")])
def test_bad_rails_are_named(tmp_path: Path, more: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        laid_out(rails(tmp_path, **more))
    assert message in str(caught.value)


def test_a_file_that_is_not_one_host_is_no_host(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text("devices: [{name: a, components: [{name: xpu, count: 1, choice: xpu}]}]\n"
                                       "instances: [{name: a, device: a, count: 2}]\n")
    with pytest.raises(InputError, match="expected one host"):
        laid_out(rails(tmp_path, host=str(tmp_path / "two.yaml")))
    with pytest.raises(InputError, match="no network cards"):
        laid_out(rails(tmp_path, host=file(nccl(gpu(2, 0)), tmp_path, "bare.xml").file))


def test_c2c_joins_a_gpu_and_its_cpu(tmp_path: Path) -> None:
    """A GB300: five NVLink-C2Cs of 44,712 MB/s, and PCI Express to the same CPU."""
    inside = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/><c2c bw="44712" count="5"/>'
    fabric = file(nccl(gpu(2, 0, inside, "32.0") + gpu(3, 1, inside, "32.0")), tmp_path)
    assert rates(fabric) == {"c2c_223_6": (2, pytest.approx(5 * 44.712)), "nvlink_x18": (2, None)}
    behind = file(nccl(switch(1, gpu(2, 0, inside)), gpu(3, 1, nvlink(0, 3, "0x068001"))), tmp_path)
    assert rates(behind) == {"c2c_223_6": (1, pytest.approx(5 * 44.712)), "nvlink_x18": (1, None),
                             "between_cpus": (1, None), "nvlink_x3": (1, None),
                             "pcie3_x16": (1, pytest.approx(15.754, rel=1e-4)),
                             "pcie4_x16": (1, pytest.approx(31.508, rel=1e-4))}


def test_classes_say_what_cards_are_where_no_gpu_is_named(tmp_path: Path) -> None:
    """What clouds ship as NCCL_TOPO_FILE: GPUs, an EFA, a disk and the console's VGA, below a bridge."""
    card = '<pci busid="0000:1{}:00.0" class="{}" link_speed="8 GT/s" link_width="16"/>'
    kinds = ("0x030200", "0x030200", "0x020000", "0x020700", "0x010802", "0x030000")
    cards = "".join(card.format(place, kind) for place, kind in enumerate(kinds))
    assert fabric_rows(shown_fabric(file(nccl(switch(1, cards)), tmp_path)))["nodes"] == {
        "cpu": 1, "xpu": 2, "nic": 2, "switch": 1}
    named = file(nccl(switch(1, cards + gpu(2, 0))), tmp_path)      # a dump names those that the job used
    assert fabric_rows(shown_fabric(named))["nodes"] == {"cpu": 1, "xpu": 1, "switch": 1}


def test_a_host_of_one_gpu_runs(tmp_path: Path) -> None:
    for backend in "closed_form", "packets":
        network = ar.Network(backend=backend, fabric=file(nccl(switch(1, gpu(2, 0) + card(8))), tmp_path))
        found = ar.simulate(ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"), network=network))
        assert (network.npus, float(found.makespan)) == (1, 0.0)
