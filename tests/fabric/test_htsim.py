"""Topology files of htsim: its own examples, counted by its own rules, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import astrarium as ar
from astrarium.engine.routes import Routes
from astrarium.fabric.built import build

TINY = """# Broadcom/csg-htsim, commit 841d9e7b, sim/datacenter/topologies/leaf_spine_tiny.topo
Nodes 32
Tiers 2
Podsize 32

Tier 0
Downlink_speed_Gbps 100
Radix_Down 8
Radix_Up 2
Downlink_Latency_ns 1000
Switch_Latency_ns 0
Oversubscribed 4

Tier 1
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 1000
Switch_Latency_ns 0
"""
TEST = """Nodes 8
Tiers 3
Podsize 4

Tier 0
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000

Tier 1
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 4
Downlink_Latency_ns 1000
Bundle 1

Tier 2
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 1000
Bundle 2
"""


def file(text: str, folder: Path) -> ar.FabricFile:
    path = folder / "tree.topo"
    path.write_text(text)
    return ar.FabricFile(file=str(path))


def test_a_leaf_and_spine(tmp_path: Path) -> None:
    built = build(file(TINY, tmp_path), ())
    assert (built.npus, built.graph.nodes, built.graph.source.size) == (32, 32 + 4 + 2, 2 * (32 + 4 * 2))
    assert set(built.graph.bandwidth.tolist()) == {12.5}


def test_three_tiers_with_bundles_and_latencies_of_switches(tmp_path: Path) -> None:
    """Times on ways are htsim's: 1 us a link, and each switch's latency once."""
    said = TEST
    for tier, latency in enumerate((100, 30, 7)):
        said = said.replace(f"Tier {tier}\n", f"Tier {tier}\nSwitch_Latency_ns {latency}\n")
    built = build(file(said, tmp_path), ())
    assert (built.npus, built.graph.nodes, built.graph.source.size) == (8, 8 + 4 + 4 + 4, 2 * (8 + 8 + 8))
    routes = Routes(built.graph)
    for other, links, switches in ((1, 2, 100), (2, 4, 230), (4, 6, 267)):
        way = routes.between(0, other)
        assert (len(way), float(built.graph.latency[way].sum())) == (links, 1000 * links + switches)
    core = built.between(("agg.0", "core.0"), "")
    assert built.graph.bandwidth[core].tolist() == [25.0, 25.0]      # a bundle of two links of 100 Gb/s
    cores = [built.name(int(node)) for node in np.unique(built.graph.target[built.graph.source == built.nodes(
        "agg.3", "")[0]]) if built.name(int(node)).startswith("core")]
    assert cores == ["core.1.asic.0", "core.3.asic.0"]      # the second of its pod: every second core switch


def test_it_runs_as_the_blueprint_of_the_same_tree(tmp_path: Path) -> None:
    whole = file(TINY.replace("Radix_Up 2", "Radix_Up 8").replace("Oversubscribed 4\n", ""), tmp_path)
    numbers = {"bandwidth": "100 Gb/s", "latency": "1 us"}
    clos = ar.blueprint("clos", hosts=32, ports=16, links={"access": numbers, "spine": numbers})
    work = ar.SingleCollective("all_to_all", "1 MB")
    one, two = (ar.simulate(ar.Design(workload=work, network=ar.Network(fabric=fabric, backend="contention")))
                for fabric in (whole, clos))
    assert one.makespan_ps == two.makespan_ps > 1e9 * (31 / 32) / 12.5


@pytest.mark.parametrize(("old", "new", "message"), [
    ("Nodes 8", "Nodes 6", "tier 0: 6 nodes in pods of 4"),
    ("Tiers 3", "Tiers 2", r"Tiers 2, and sections of \[0, 1, 2\]"),
    ("Podsize 4\n", "", "has no podsize"),
    ("Podsize 4", "Podsize 4 5", r"tree.topo:3: 'Podsize 4 5'"),
    ("Radix_Up 2\n", "", "tier 0: has no radix_up"),
    ("Radix_Up 2", "Radix_Up 2\nRadix_Up 2", "Radix_Up is there twice"),
    ("Bundle 2", "Bundel 2", "unknown key 'Bundel'.*did you mean 'bundle'"),
    ("Bundle 2", "Bundle 3", "tier 2: bundles of 3; expected a part of the 4 ports up of tier 1"),
    ("Bundle 1", "Bundle 1\nOversubscribed 2", "tier 1: 400 Gb/s down and 400 up; expected 2 times"),
    ("Radix_Down 4", "Radix_Down 8", "tier 2: Radix_Down 8; expected 4: 2 pods, 2 links each")])
def test_bad_files_are_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ar.InputError, match=message):
        build(file(TEST.replace(old, new, 1), tmp_path), ())
