"""What a design is built of and what that costs: counted by hand, by published sheets, and as sums must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cost.buildings import cluster

import astrarium as ar
from astrarium.config import replace_all
from astrarium.cost.capital import bill, capital_cost, embodied_carbon
from astrarium.cost.counts import counts
from astrarium.cost.of_dims import tree
from astrarium.errors import InputError


@pytest.mark.parametrize(("ends", "ports", "tiers", "switches", "trunks"), [
    (1, 64, 1, 1, 0), (64, 64, 1, 1, 0), (65, 64, 2, 5, 65), (128, 64, 2, 6, 128), (2048, 64, 2, 96, 2048),
    (2049, 64, 3, 163, 4098), (65536, 64, 3, 5120, 131072), (16, 4, 3, 20, 32)])
def test_fat_trees(ends: int, ports: int, tiers: int, switches: int, trunks: int) -> None:
    """Full trees have (2 L - 1) (k / 2)^(L - 1) switches (Al-Fares et al.: k = 4, L = 3 has 20)."""
    found = tree(ends, ports)
    assert (found.tiers, found.switches, found.trunks) == (tiers, switches, trunks)


@given(st.integers(1, 70_000), st.sampled_from([8, 36, 40, 64, 128]))
def test_trees_have_ports_enough_and_grow(ends: int, ports: int) -> None:
    found = tree(ends, ports)
    assert found.switches * ports >= ends + 2 * found.trunks
    more = tree(ends + 1, ports)
    assert more.switches >= found.switches
    assert more.trunks >= found.trunks


def test_pieces_of_32_npus() -> None:
    found = counts(cluster(4))
    assert (found.hosts, found.npus, found.switches, found.links, found.trunks) == (4, 32, 1, 32, 0)
    lines = {line.what: line for line in bill(cluster(4))}
    assert {what: (line.part, line.count, line.price) for what, line in lines.items()} == {
        "hosts": ("h100_node_2024_08", 4, 310_000.0), "switches": ("switch_64x400g_fs_2024_08", 1, 36_000.0),
        "links": ("link_400g_host_2024_08", 32, 1_320.0)}
    assert capital_cost(cluster(4)) == 4 * 310_000 + 36_000 + 32 * 1_320
    assert embodied_carbon(cluster(4)) == 4 * 1312


def network(*dims: Mapping[str, Any], **cost: Any) -> ar.Design:
    plain = [{"latency": "1 us", "bandwidth": "50 GB/s", **dim} for dim in dims]
    return replace_all(cluster(4), {"network": {"dims": plain},
                                    **{f"cost.{name}": value for name, value in cost.items()}})


BARE = {"host": "server_epoch_2024", "device": "h100_sxm_2024_07", "nic": "nic_400g_libra_2021"}


@pytest.mark.parametrize(("shape", "npus", "links", "cards"), [
    ("ring", 8, 8, 16), ("ring", 2, 2, 4), ("mesh", 8, 7, 16), ("fully_connected", 8, 28, 56),
    ("hypercube", 8, 12, 24)])
def test_cables_of_shapes_without_switches(shape: str, npus: int, links: int, cards: int) -> None:
    """Two blocks of each: hosts of two NPUs, one NPU of each host in a block."""
    found = counts(network({"shape": "switch", "npus": 2}, {"shape": shape, "npus": npus}, **BARE))
    assert (found.hosts, found.switches, found.links, found.nics) == (npus, 0, 2 * links, 2 * cards)


def test_wider_links_take_more_ports() -> None:
    narrow = network({"shape": "switch", "npus": 8}, {"shape": "switch", "npus": 128}, **BARE)
    wide = replace_all(narrow, {"network.dims[1].bandwidth": "100 GB/s"})
    for name in ("nics", "switches", "links", "trunks"):
        assert getattr(counts(wide), name) == 2 * getattr(counts(narrow), name)


def test_devices_and_the_rest_of_their_hosts() -> None:
    design = network({"shape": "switch", "npus": 8}, {"shape": "switch", "npus": 4}, **BARE)
    lines = {line.what: line.total for line in bill(design)}
    assert lines["devices"] == 32 * 36_018
    assert lines["hosts"] == pytest.approx(0.64 * 32 * 36_018)       # a server is 1.64 x its chips
    assert lines["cards"] == 32 * 1580
    assert capital_cost(design) == pytest.approx(sum(lines.values()))


def test_whole_hosts_are_bought() -> None:
    small = network({"shape": "switch", "npus": 4})
    assert counts(small).hosts == 1
    assert capital_cost(small) == 310_000
    flat = network({"shape": "switch", "npus": 12}, inside=0)
    assert (counts(flat).hosts, counts(flat).npus, counts(flat).links) == (2, 16, 12)


@given(st.integers(1, 3000), st.integers(0, 200))
def test_more_hosts_never_cost_less(hosts: int, more: int) -> None:
    first, second = capital_cost(cluster(hosts)), capital_cost(cluster(hosts + more))
    assert 0 <= first <= second
    assert first == sum(line.total for line in bill(cluster(hosts)))


@pytest.mark.parametrize(("changes", "said"), [
    ({"cost.host": None}, r"capital_cost: is not known without cost.host"),
    ({"cost.switch": None, "cost.link": None}, r"without cost.switch, cost.link;"),
    ({"cost.host": "server_epoch_2024"}, r"without cost.device, cost.nic;"),
    ({"network.dims[1].npus": 128, "cost.trunk": None}, r"cost.trunk: is missing: there are 1,024 links between"),
    ({"network.dims[0].npus": 4}, r"cost.inside: the 1 dims inside a host hold 4 NPUs, a h100_node_2024_08 8"),
    ({"cost.inside": 3}, r"cost.inside: 3 dims are inside a host, of 2"),
    ({"network.dims[1].bandwidth_per_npu": "100 GB/s"}, r"cost.host: .* has a card of 50 GB/s for every NPU"),
    ({"compute": {"model": "measured", "device": "h200_sxm"}}, r"cost.host: h100_node_2024_08 is a price of h100_sxm"),
    ({"cost.host": None, "cost.rental": "aws_h100_2025_03"}, r"cost.rental: aws_h100_2025_03 is rented")])
def test_what_is_missing_or_does_not_fit_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        capital_cost(replace_all(cluster(4), changes))


@pytest.mark.parametrize(("path", "value", "said"), [
    ("cost.pue", 0.9, r"cost.pue: 0.9 is impossible; expected 1 or more"),
    ("cost.region", "germny", r"cost.region: 'germny' is not known; .*did you mean 'germany'"),
    ("cost.switch", "link_400g_host_2024_08", r"cost.switch: .* is not known"),
    ("cost.electricity", 0.08, r"cost.electricity: 0.08 is a number without a unit"),
    ("cost.electricity", "-0.08 $/kWh", r"cost.electricity: '-0.08 \$/kWh' is not a price of energy"),
    ("cost.lifetime", "4 year", r"cost.lifetime: .*did you mean 'years'"),
    ("cost.utilisation", 1.2, r"cost.utilisation: 1.2 is more than all of the time"),
    ("cost", "us_h100", r"catalog.costs: 'us_h100' is not known; .*did you mean 'us_h100_2024'"),
    ("cost.rental", "aws_h100_2025_03", r"cost.rental: cannot be combined with host")])
def test_bad_input_is_refused_by_its_path(path: str, value: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        ar.replace(cluster(4), path, value)


def test_one_type_of_npu() -> None:
    design = replace_all(cluster(4), {"npu_types": [{"npus": "0:8", "compute": {"model": "roofline",
                                                                                "peak": "1 TFLOP/s"}}]})
    with pytest.raises(InputError, match=r"npu_types\[0\].compute: is another device"):
        capital_cost(design)
