"""Technologies of links and memory: what a name fills in, refuses, costs and takes, against sums by hand."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.cost.buildings import cluster

import astrarium as ar
from astrarium import catalog
from astrarium.catalog.columns import check_row
from astrarium.catalog.technology import link_technology
from astrarium.config import replace_all, to_plain
from astrarium.cost.capital import bill
from astrarium.cost.energy import energy
from astrarium.cost.operations import operation_energy
from astrarium.cost.power import site_power
from astrarium.cost.price import system_cost
from astrarium.errors import InputError
from astrarium.network.cost import network_cost
from astrarium.report.tables.study import study_tables
from astrarium.search import Space
from astrarium.search.bounds.objective import collective_makespan, objective_bound
from astrarium.search.evaluate import Judge
from astrarium.search.expression import compiled
from astrarium.search.goal import goal_of
from astrarium.search.update import Updater
from astrarium.units import EnergyPerByte

KNOBS: dict[str, list[Any]] = {
    "network.dims[0].link": ["dr4_400g", "dac_800g", "nvlink4"], "network.dims[0].links": [1, 18],
    "memory.technology": ["hbm3", "hbm3e", "hbm4"], "memory.pieces": [4, 8]}


def design(**dim: Any) -> ar.Design:
    """An all_reduce of 8 MB over a switch of 8 NPUs."""
    return ar.Design(
        workload=ar.SingleCollective("all_reduce", "8 MB"), compute=ar.Replay(power="700 W", idle_power="100 W"),
        network=ar.Network([ar.Switch(8, **{"latency": "1 us", "link": "dr4_400g", **dim})]),
        collective=ar.Collective(all_reduce=["direct"], chunks=1), memory=ar.Memory(technology="hbm3e", pieces=8))


def test_a_name_fills_in_what_its_row_says() -> None:
    dim = ar.Switch(8, latency="1 us", link="dac_800g", links=2, length="2 m")
    assert (dim.link_bandwidth, dim.hop_latency) == (200, 1009)       # 4.5 ns of each metre
    assert dim.energy == EnergyPerByte("0.125 pJ/bit")                  # 0.1 W an end, which sends 800 Gb/s
    assert ar.Torus([4, 4], latency="1 us", link="nvlink4", links=3).rings()[1].hop_latency == 1000
    memory = ar.Memory(technology="hbm3e", pieces=8)
    assert (memory.capacity, memory.bandwidth) == (192 * 2**30, 9600)
    assert ar.Tier("cxl", technology="cxl_2", pieces=4).rate == 144
    assert "bandwidth" not in to_plain(dim)
    assert ar.config.decode(type(dim).__mro__[3], to_plain(dim)) == dim      # Dim, by its shape


@pytest.mark.parametrize(("given", "message"), [
    ({"length": "120 m"}, r"length: 120 m is farther than dr4_400g reaches; expected at most 100 m, or another link"),
    ({"bandwidth": "60 GB/s"}, r"bandwidth: 60 GB/s is not what the technology has; expected 50 GB/s, or none"),
    ({"link": "dac800g"}, r"link: 'dac800g' is not known; .*did you mean 'dac_800g'"),
    ({"link": None}, r"bandwidth: is missing"),
    ({"link": None, "bandwidth": "1 GB/s", "links": 2}, r"links: has no effect without link"),
    ({"link": None, "bandwidth": "1 GB/s", "length": "1 m"}, r"length: has no effect without link")])
def test_what_does_not_fit_a_name_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        design(**given)


def test_a_change_of_a_name_changes_what_it_fills_in() -> None:
    """The quick way of searches and the plain one give the design that is made with the values at once."""
    updater = Updater(design(), tuple(KNOBS))
    for values in itertools.product(*KNOBS.values()):
        link, links, technology, pieces = values
        made = replace_all(design(link=link, links=links),
                           {"memory": {"technology": technology, "pieces": pieces}})
        assert updater.apply(values) == replace_all(design(), updater.changes(values)) == made
    plain = replace_all(design(), {"network.dims[0].bandwidth": "1 GB/s"}).network.flat[0]
    assert (plain.link, plain.bandwidth, plain.energy) == (None, 1, None)


def test_constraints_see_what_a_chosen_name_fills_in() -> None:
    where = ["memory.capacity >= '144 GiB'", "network.dims[0].bandwidth * 8 <= memory.bandwidth"]
    found = Space(design(), KNOBS, where=where)
    wanted = sum(each.memory.capacity >= 144 * 2**30 and each.network.dims[0].bandwidth * 8 <= each.memory.bandwidth
                 for each in map(Space(design(), KNOBS).design, Space(design(), KNOBS).points()))
    assert 0 < found.count == wanted < 36
    with pytest.raises(InputError, match=r"bandwidth_per_npu: is unset by network.dims\[0\].link, which is chosen"):
        Space(design(), KNOBS, where=["network.dims[0].bandwidth_per_npu > 1"])


CHEAP = """
[links.cheap]
title = "A link that costs next to nothing"
kind = "electrical"
one = "a cable"
bandwidth = "20 GB/s"
price = "1 $"
date = "2026"
source = "none: a test"
"""


def test_no_design_of_chosen_links_falls_below_its_bound(tmp_path: Path) -> None:
    """The bound of `exact`: LIBRA's 4 $ a GB/s would be one of the price of no cheaper technology."""
    (tmp_path / "mine.toml").write_text(CHEAP)
    with catalog.overlay(tmp_path / "mine.toml"):
        ring = replace_all(design(), {"network.dims[0].shape": "ring", "collective.all_reduce": ["ring"]})
        space = Space(ring, {"network.dims[0].link": ["lpo_800g", "dac_800g", "nvlink4", "cheap"],
                             "network.dims[0].links": [1, 18]})
        tree = objective_bound(Judge(space, goal_of("runtime_x_cost")), lambda base, judge: judge.scope.node(
            collective_makespan(base, judge), ""))
        bound = compiled(tree, {axis.name: at for at, axis in enumerate(space.axes)})
        for point in space.points():
            made = space.design(point)
            least = bound(space.numbers(point))
            assert 0 < least <= ar.simulate(made).makespan_ps / 1e3 * network_cost(made.network) * (1 + 1e-9)


def test_energy_of_links_and_memory() -> None:
    """Each NPU sends 2 x 7 / 8 of 8 MB, over two links of a switch: into it and out of it."""
    given = replace_all(design(), {"cost.flop_energy": "1 pJ/FLOP"})
    result = ar.simulate(given)
    per_bit = 17.5 / (2 * 400e9)        # W of both ends, bits of both directions
    wanted = 8 * 2 * 7 / 8 * 8e6 * 8 * per_bit * 2
    assert energy(given, result).network == (pytest.approx(wanted),)
    assert operation_energy(given, result).network == (pytest.approx(wanted),)
    with pytest.raises(InputError, match=r"cost.memory_energy"):
        operation_energy(replace_all(given, {"memory.technology": "hbm4"}), result)


def test_money_of_links_and_memory() -> None:
    """LIBRA's 2 links, switch (and adapter) per NPU and GB/s; a fibre is a link each way. 8 stacks of 362.5 $."""
    given = replace_all(design(), {"compute.price": 1000})
    assert network_cost(given.network) == pytest.approx(8 * (2 * 1320 / 2 + 13.0 * 50))
    assert system_cost(given) == pytest.approx(network_cost(given.network) + 8 * (1000 + 8 * 362.5))


def test_costs_of_two_kinds_have_rows_of_their_own() -> None:
    """The price of the network alone does not stand beside that of whole systems: HBM4 has no price."""
    space = Space(replace_all(design(), {"compute.price": 1000}), {"memory.technology": ["hbm3e", "hbm4"]})
    study = ar.search(space, "makespan", agent="grid", trials=2)
    rows = {row[0]: row[1:] for table in study_tables(study, "space") for row in table.rows}
    network = 8 * (1320 + 650)
    assert sorted(rows["system cost"]) == ["", f"${network + 8 * (1000 + 8 * 362.5):,.0f}"]
    assert sorted(rows["network cost"]) == ["", f"${network:,.0f}"]


def test_a_technology_with_a_price_is_bought() -> None:
    """64 NPUs in 8 hosts on 64 ports of 400 Gb/s: as many fibres as NPUs, whatever `cost.link` is."""
    bought = replace_all(cluster(8), {"network.dims[1].link": "dr4_400g", "cost.link": None, "cost.trunk": None})
    before = {line.what: line.total for line in bill(cluster(8))}
    lines = {line.what: (line.part, line.count, line.price) for line in bill(bought)}
    assert lines["links"] == ("dr4_400g", 64, 1320.0)
    assert lines["hosts"][1] * lines["hosts"][2] == before["hosts"]
    assert site_power(bought).rest == pytest.approx(site_power(cluster(8)).rest)      # 17.5 W each, too
    wide = replace_all(bought, {"network.dims[1].link": "dr8_800g", "cost.host": "server_epoch_2024",
                                "cost.device": "h100_sxm_2024_07", "cost.nic": "nic_400g_libra_2021"})
    lines = {line.what: (line.part, line.count, line.price) for line in bill(wide)}
    assert lines["links"] == ("dr8_800g", 64, 2500.0)
    assert lines["switches"][1] == 2        # a link of 800 Gb/s takes two ports of 400


@pytest.mark.parametrize(("row", "message"), [
    ({"price": "1 $"}, r"links.mine.price: and date go together"),
    ({"power": "1 W", "energy": "1 pJ/bit"}, r"links.mine.power: cannot be combined with energy"),
    ({"reach": "2 W"}, r"links.mine.reach: .* is not one of a length")])
def test_rows_that_cannot_be(row: dict[str, str], message: str) -> None:
    least = {"title": "T", "source": "S", "kind": "optical", "one": "a fibre", "bandwidth": "1 GB/s"}
    with pytest.raises(InputError, match=message):
        check_row("links", "links.mine", {**least, **row})


def test_rows_are_plausible() -> None:
    """A bit costs the less the shorter its way, and no link takes 100 pJ/bit or 1 us: a slipped prefix shows."""
    found = {name: link_technology(name) for name in catalog.load("links")}
    most = EnergyPerByte("100 pJ/bit")
    assert all(each.latency <= 1000 and float(each.energy or 0) <= most for each in found.values())
    order = ["ucie_3d_9um", "ucie_advanced", "ucie_standard", "cpo_800g", "lpo_800g", "dr8_800g"]
    assert [found[name].energy for name in order] == sorted(float(found[name].energy or 0) for name in order)
