"""Pieces of fabrics, counted in their graphs: as the rule for dims counts full trees, and as drawn elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cost.buildings import cluster

import astrarium as ar
from astrarium.config import replace_all
from astrarium.cost.capital import bill, capital_cost
from astrarium.cost.counts import counts
from astrarium.cost.of_dims import tree
from astrarium.errors import InputError

RAIL = {"latency": "600 ns"}
WIRE = {"bandwidth": "50 GB/s", "latency": "1 us"}


def on(fabric: ar.Fabric, **cost: Any) -> ar.Design:
    """The H100 cluster of the tests, on a fabric."""
    return replace_all(cluster(4), {"network": {"fabric": fabric, "backend": "contention"},
                                    **{f"cost.{name}": value for name, value in cost.items()}})


def rails(hosts: int) -> ar.Fabric:
    return ar.blueprint("dgx_h100_rail", hosts=hosts, links={"pcie": "free", "rail": RAIL, "spine": RAIL})


def test_a_full_tree_of_rails_is_counted_as_dims_are() -> None:
    """256 hosts fill two tiers of switches of 64 ports: Al-Fares et al."""
    found, full = counts(on(rails(256))), tree(2048, 64)
    assert (found.hosts, found.npus, found.links, found.nics) == (256, 2048, 2048, 2048)
    assert (found.switches, found.trunks) == (full.switches, full.trunks)


def test_a_half_empty_fabric_costs_what_is_drawn() -> None:
    lines = [(line.what, line.count) for line in bill(on(rails(4)))]
    assert lines == [("hosts", 4), ("switches", 40), ("links, scale-out", 32),
                     ("links between switches, scale-out", 256)]
    assert capital_cost(on(rails(4))) == 4 * 310_000 + 40 * 36_000 + 32 * 1_320 + 256 * 1_240


def test_wide_links_are_several_cables_and_ports() -> None:
    wide = ar.blueprint("clos", hosts=4, xpus=8, ports=64,
                        links={"scale_up": WIRE, "access": {**WIRE, "bandwidth": "100 GB/s"}, "spine": WIRE})
    found = counts(on(wide, host="server_epoch_2024", device="h100_sxm_2024_07", nic="nic_400g_libra_2021"))
    assert (found.links, found.nics) == (64, 64)


def test_hosts_in_a_torus_have_cables_and_no_switch() -> None:
    torus = ar.blueprint("torus", sides=[4, 4], links={"dim0": WIRE, "dim1": WIRE})
    found = counts(on(torus, host="server_epoch_2024", device="h100_sxm_2024_07", nic="nic_400g_libra_2021"))
    assert (found.switches, found.links, found.nics, found.trunks) == (0, 32, 64, 0)


@pytest.mark.parametrize(("fabric", "path"), [
    (ar.blueprint("clos", hosts=16, xpus=8, ports=128, links={"scale_up": WIRE, "access": WIRE, "spine": WIRE}),
     "cost.switch"),
    (ar.blueprint("clos", hosts=4, xpus=4, ports=64, links={"scale_up": WIRE, "access": WIRE, "spine": WIRE}),
     "cost.host"),
    (ar.blueprint("clos", hosts=4, xpus=8, ports=64,
                  links={"scale_up": WIRE, "access": {**WIRE, "bandwidth": "60 GB/s"}, "spine": WIRE}), "cost.host"),
    (ar.blueprint("clos", hosts=16, xpus=8, ports=64, links={"scale_up": WIRE, "access": WIRE, "spine": "free"}),
     "network.fabric.links.spine")])
def test_what_does_not_fit_is_named(fabric: ar.Fabric, path: str) -> None:
    with pytest.raises(InputError) as error:
        capital_cost(on(fabric))
    assert error.value.path == path
