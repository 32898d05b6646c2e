"""A fabric as a graph: numbers with units, free links, what no way crosses, names."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fabric.fabrics import NUMBERS, all_reduce, edge, link, saved, two_hosts
from tests.plans.hand import Node, plan_of, recv, send

import astrarium as ar
from astrarium import engine
from astrarium.config import ConfigError
from astrarium.fabric.built import Built, build
from astrarium.lower.changes import changes_of
from astrarium.network.planned import built_of, network_plan


def sent(network: ar.Network, source: int, target: int, payload: int = 1_000_000) -> engine.Outcome:
    """A run of one message."""
    ranks: list[list[Node]] = [[] for _ in range(network.npus)]
    ranks[source], ranks[target] = [send(target, payload)], [recv(source, payload)]
    design = ar.Design(workload=ar.SingleCollective("barrier", "1 B"), network=network)
    plan = replace(plan_of(ranks, network_plan(network, network.backend)), changes=changes_of(design))
    return engine.execute(plan, record=True, fold=False)


def fabric(folder: Path, plain: dict[str, Any] | None = None, **more: Any) -> ar.FabricFile:
    links = {"inside": "free", "pcie": "free"}
    return ar.FabricFile(file=saved(plain or two_hosts(), folder), **{"links": links, **more})


def test_free_links_and_what_no_way_crosses_leave_the_graph(tmp_path: Path) -> None:
    built = build(fabric(tmp_path))
    names = [built.name(node) for node in range(built.graph.nodes)]
    assert names == ["host.0.xpu.0", "host.0.xpu.1", "host.1.xpu.0", "host.1.xpu.1", "host.0.nvsw.0", "host.1.nvsw.0",
                     "leaf.0.asic.0", "leaf.1.asic.0", "spine.0.asic.0"]
    assert built.graph.source.size == 2 * (4 + 4 + 2)
    assert built.dims is None


def test_cards_stay_where_their_links_take_time(tmp_path: Path) -> None:
    built = build(fabric(tmp_path, links={"inside": "free", "pcie": NUMBERS}))
    names = [built.name(node) for node in range(built.graph.nodes)]
    assert [name for name in names if "nic" in name] == ["host.0.nic.0", "host.0.nic.1", "host.1.nic.0", "host.1.nic.1"]


@pytest.mark.parametrize(("unit", "value", "expected"), [
    ("gigabits_per_second", 400, 50.0), ("gigabytes_per_second", 50, 50.0), ("gigabits_per_second", 1, 0.125)])
@pytest.mark.parametrize(("time", "number", "ns"), [("ns", 7, 7.0), ("us", 5, 5000.0), ("ms", 0.005, 5000.0)])
def test_units_of_the_file(unit: str, value: float, expected: float, time: str, number: float, ns: float,
                           tmp_path: Path) -> None:
    rail = {"name": "rail", "physical": {"bandwidth": {"choice": unit, unit: value},
                                         "latency": {"choice": time, time: number}}}
    built = build(fabric(tmp_path, two_hosts(rail)))
    rows = built.between(("host.0", "leaf.0"), "")
    assert rows.size == 2
    assert built.graph.bandwidth[rows].tolist() == [expected, expected]
    assert built.graph.latency[rows].tolist() == pytest.approx([ns, ns], rel=1e-12)


def test_a_message_takes_what_the_numbers_say(tmp_path: Path) -> None:
    """Store and forward over the internal switch, leaf, and card of the other rail: the closed form of a way, in ps."""
    payload, way = 1_000_000, [(100.0, 100.0), (100.0, 100.0), (50.0, 500.0), (50.0, 500.0)]
    network = ar.Network(fabric=fabric(tmp_path), backend="contention", switching="store_and_forward")
    assert sent(network, 0, 3, payload).makespan == sum(round((payload / rate + time) * 1000) for rate, time in way)


def test_missing_numbers_are_asked_for_by_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        ar.Network(fabric=ar.FabricFile(file=saved(two_hosts(link("rail", 400)), tmp_path)), backend="fluid")
    assert [(problem.path, problem.expected) for problem in caught.value.problems] == [
        ("Network.fabric.links.pcie.bandwidth", 'a bandwidth with its unit, such as "450 GB/s", or inside: free'),
        ("Network.fabric.links.pcie.latency", 'a time with its unit, such as "500 ns", or inside: free'),
        ("Network.fabric.links.inside.bandwidth", 'a bandwidth with its unit, such as "450 GB/s", or inside: free'),
        ("Network.fabric.links.inside.latency", 'a time with its unit, such as "500 ns", or inside: free'),
        ("Network.fabric.links.rail.latency", 'a time with its unit, such as "500 ns"')]


def test_transfers_of_a_lane_are_no_bandwidth(tmp_path: Path) -> None:
    rail = {"name": "rail", "physical": {"bandwidth": {"choice": "gigatransfers_per_second",
                                                       "gigatransfers_per_second": 32}, "latency": {"ns": 1}}}
    with pytest.raises(ConfigError, match=r"links.rail.bandwidth: is missing"):
        build(fabric(tmp_path, two_hosts(rail)))


def test_the_design_counts_before_the_file(tmp_path: Path) -> None:
    built = build(fabric(tmp_path, links={"inside": "free", "pcie": "free", "rail": {"latency": "1 us"}}))
    rows = built.between(("host.1", "leaf.1"), "")
    assert (built.graph.bandwidth[rows] == 50).all()
    assert (built.graph.latency[rows] == 1000).all()


def test_inside_free_keeps_what_is_known(tmp_path: Path) -> None:
    built = build(fabric(tmp_path, links={}, inside="free"))
    assert built.graph.source.size == 2 * (4 + 4 + 2)


def test_a_free_link_may_not_make_one_npu_of_two(tmp_path: Path) -> None:
    with pytest.raises(ar.InputError, match=r"network.fabric.links.nvlink.bandwidth: is free: host.0.xpu.0 and "
                                            r"host.0.xpu.1 would be one NPU"):
        build(fabric(tmp_path, links={"inside": "free", "pcie": "free", "nvlink": "free"}))


def test_links_of_one_device_by_its_name(tmp_path: Path) -> None:
    built = build(fabric(tmp_path, links={"switch.inside": "free", "pcie": "free", "host.nvlink": {"latency": "9 ns"}}))
    assert built.graph.latency[built.between(("host.0.xpu.0", "host.0.nvsw.0"), "")].tolist() == [9.0, 9.0]
    with pytest.raises(ar.InputError, match=r"links.hots.nvlink: the fabric has no such.*did you mean 'host.nvlink'"):
        build(fabric(tmp_path, links={"inside": "free", "pcie": "free", "hots.nvlink": "free"}))


def test_ranks_of_the_file_number_the_npus(tmp_path: Path) -> None:
    names = ["host.1.xpu.1", "host[1]xpu[0]", "host[0].xpu[1]", "host.0.xpu.0"]
    notes = [{"name": name, "attributes": [{"attribute": "rank", "value": str(rank)}]}
             for rank, name in enumerate(names)]
    plain = {"infrastructure": two_hosts(), "annotations": {"nodes": notes}}
    built = build(fabric(tmp_path, plain))
    assert [built.name(npu) for npu in range(4)] == ["host.1.xpu.1", "host.1.xpu.0", "host.0.xpu.1", "host.0.xpu.0"]
    notes[1]["attributes"] = [{"attribute": "rank", "value": "3"}]
    with pytest.raises(ar.InputError, match="no numbering; expected 0 to 3, each once"):
        build(fabric(tmp_path, plain))


def test_tiers_of_file_and_design_stand_in_results(tmp_path: Path) -> None:
    notes = {"links": [{"name": "rail", "attributes": [{"attribute": "tier", "value": "scale-out"}]}]}
    plain = {"infrastructure": two_hosts(), "annotations": notes}
    links = {"inside": "free", "pcie": "free", "nvlink": {"tier": "scale_up"}}
    result = ar.simulate(all_reduce(ar.Network(fabric=fabric(tmp_path, plain, links=links), backend="contention")))
    assert set(result.links.tiers()) == {"scale_up", "scale_out"}
    row = result.links.tiers().index("scale_up")
    assert "nvsw" in result.links.name(row)
    assert math.isclose(result.dims.max_utilisation[0], result.links.utilisation.max())
    notes["links"][0]["attributes"][0]["value"] = "scale-down"
    with pytest.raises(ar.InputError, match="'scale-down' is no tier"):
        build(fabric(tmp_path, plain))


def test_logical_dims_lay_out_collectives(tmp_path: Path) -> None:
    dims = [ar.Switch(2, bandwidth="100 GB/s", latency="100 ns"), ar.Switch(2, bandwidth="50 GB/s", latency="1 us")]
    own = ar.Network(dims, fabric=fabric(tmp_path), backend="contention")
    assert [dim.npus for dim in own.flat] == [2, 2]
    one = ar.Network(fabric=fabric(tmp_path), backend="contention")
    assert [(dim.tag, dim.npus, float(dim.link_bandwidth), float(dim.latency)) for dim in one.flat] == [
        ("switch", 4, 150.0, 600.0)]
    assert ar.simulate(all_reduce(own)).makespan_ps < ar.simulate(all_reduce(one)).makespan_ps
    with pytest.raises(ar.InputError, match="dims: have 2 NPUs; expected the 4 of the fabric"):
        ar.Network(dims[:1], fabric=fabric(tmp_path), backend="contention")


@pytest.mark.parametrize("backend", ["contention", "fluid"])
def test_both_engines_agree(backend: str, tmp_path: Path) -> None:
    network = ar.Network(fabric=fabric(tmp_path), backend=backend, ecmp=3)
    design = all_reduce(network, collective=ar.Collective(all_reduce=["ring"]))
    assert ar.simulate(design).makespan_ps == ar.simulate(design, pure=True).makespan_ps


def test_other_back_ends_refuse_by_name(tmp_path: Path) -> None:
    with pytest.raises(ar.InputError, match=r"dims: are missing: closed_form takes the fabric as dims.*"
                                            r"expected dims: \[{shape: switch, npus: 2, bandwidth: 100 GB/s"):
        ar.Network(fabric=fabric(tmp_path))
    with pytest.raises(ar.InputError, match="backend: library has no links of a graph, and the fabric is no dims"):
        ar.Network(fabric=fabric(tmp_path), backend="library", library="net.so")


def test_costs_of_a_graph_are_refused(tmp_path: Path) -> None:
    from astrarium.network.cost import network_bandwidth, network_cost

    network = ar.Network(fabric=fabric(tmp_path), backend="fluid")
    for figure in (network_cost, network_bandwidth):
        with pytest.raises(ar.UnsupportedError, match=r"network.fabric: network_.* is not known of a graph"):
            figure(network)


def test_a_design_file_finds_its_fabric_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("designs")
    folder.mkdir()
    saved(two_hosts(), folder)
    design = folder / "design.yaml"
    design.write_text("workload: {source: collective, op: all_reduce, payload: 1 MB}\n"
                      "network:\n  fabric: {file: fabric.yaml, links: {inside: free, pcie: free}}\n"
                      "  backend: contention\n")
    loaded = ar.load_design(design)
    assert loaded.network.npus == 4
    again = folder / "again.yaml"
    ar.dump_design(loaded, again)
    assert "file: fabric.yaml" in again.read_text()
    assert ar.load_design(again) == loaded
    assert ar.replace(loaded, "network.fabric.links.pcie", NUMBERS).network.fabric != loaded.network.fabric


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    def npus() -> int:
        return ar.Network(fabric=fabric_at, backend="fluid").npus
    fabric_at = fabric(tmp_path)
    assert npus() == 4
    plain = two_hosts()
    plain["instances"][0]["count"] = 3
    plain["edges"].append(edge("host[2].nic", "leaf.port[3]", "rail"))
    saved(plain, tmp_path)
    assert npus() == 6


def _links(built: Built, one: str, two: str) -> list[int]:
    found: list[int] = built.between((one, two), "").tolist()
    return found


def test_a_link_changes_while_the_design_runs(tmp_path: Path) -> None:
    payload = 1_000_000
    network = ar.Network(fabric=fabric(tmp_path), backend="contention")
    whole = sent(network, 0, 2).makespan
    half = ar.replace(network, "changes", [{"at": "0 ns", "link": ["leaf.0", "host.1"], "speed": 0.5}])
    assert sent(half, 0, 2).makespan == whole + round(payload / 50 * 1000)
    built = built_of(half)
    assert len(_links(built, "leaf.0", "host.1")) == 2
    late = ar.replace(network, "changes", [{"at": "1 s", "link": ["leaf.0", "host.1"], "speed": 0.5}])
    assert sent(late, 0, 2).makespan == whole


def test_a_dead_link_is_gone_round(tmp_path: Path) -> None:
    """Without its rail XPU 0 sends over the internal switch and the other card; the way is longer, and found."""
    network = ar.Network(fabric=fabric(tmp_path), backend="contention",
                         changes=[ar.Change(link=["leaf.0", "host.0"], speed=0)])
    ran = sent(network, 0, 2)
    names = [built_of(network).name(node) for node in ran.link_from.tolist()]
    assert sorted(names) == ["host.0.nvsw.0", "host.0.xpu.0", "host.0.xpu.1", "host.1.nvsw.0", "host.1.xpu.1",
                             "leaf.1.asic.0"]
    with pytest.raises(ar.InputError, match=r"without the dead links there is no way from host.0.xpu.0 to"):
        ar.replace(network, "changes", [{"link": ["leaf.0", "host.0"], "speed": 0},
                                        {"link": ["leaf.1", "host.0"], "speed": 0}])


@pytest.mark.parametrize(("change", "message"), [
    ({"link": ["leaf.0", "leaf.1"], "speed": 0.5}, "there is no link between leaf.0 and leaf.1; expected a neighbour "),
    ({"link": ["leaf.0", "spin.1"], "speed": 0.5}, "there is no 'spin.1'.*did you mean 'spine'"),
    ({"link": ["leaf.0", "spine.1"], "speed": 0.5}, r"there is no spine\[1\]; expected numbers from 0 to 0"),
    ({"link": [0, 9], "speed": 0.5}, "there is no NPU 9"),
    ({"npu": 1, "link": [0, 1], "speed": 0.5}, "stands beside npu"),
    ({"speed": 0.5}, "link: is missing; expected link, nic, tier, or dim"),
    ({"npu": 1, "speed": 1.5}, "1.5 is more than full speed")])
def test_changes_of_what_is_not_there(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ar.InputError, match=message):
        ar.Network(fabric=fabric(tmp_path), backend="fluid", changes=[change])


def test_dims_have_changes_too() -> None:
    network = ar.Network([ar.Ring(4, bandwidth="50 GB/s", latency="500 ns")], backend="contention")
    whole = sent(network, 0, 1).makespan
    slow = ar.replace(network, "changes", [{"link": [0, 1], "speed": 0.25}])
    assert sent(slow, 0, 1).makespan == whole + round(3 * 1e6 / 50 * 1000)
