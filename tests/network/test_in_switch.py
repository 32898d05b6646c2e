"""Trees of switches in a fabric: which switches they have, what links carry, and what is refused by path."""

from __future__ import annotations

from typing import Any

import pytest

import astrarium as ar
from astrarium.config import ConfigError
from astrarium.errors import AstrariumError, InputError, UnsupportedError
from astrarium.fabric.trees import Trees
from astrarium.network.planned import built_of, computing

NUMBERS = ar.FabricLink(bandwidth="50 GB/s", latency="600 ns")
ABLE = ar.InSwitch(rate="3.2 TB/s")


def clos(*able: str, hosts: int = 8, **of_each: Any) -> ar.Network:
    """Hosts of one NPU, two at a leaf, two spines."""
    said = dict.fromkeys(able, ar.InSwitch(rate="3.2 TB/s", **of_each))
    fabric = ar.blueprint("clos", hosts=hosts, ports=4, inside="free", links={"access": NUMBERS, "spine": NUMBERS},
                          in_switch=said)
    return ar.Network(fabric=fabric, backend="contention", switching="cut_through")


def run(network: ar.Network, algorithm: str = "sharp", payload: str = "10 MB") -> Any:
    return ar.simulate(ar.Design(workload=ar.SingleCollective("all_reduce", payload), network=network,
                                 collective=ar.Collective(all_reduce=[algorithm], choice="none")))


def test_the_tree_of_a_clos() -> None:
    """Members of one leaf meet there; those of several at the first spine, through their leaves."""
    network = clos("leaf", "spine")
    built = built_of(network)
    trees = Trees(built.graph, tuple(sorted(computing(network))))
    names = {built.name(node): node for node in computing(network)}
    near = trees.of([2, 3], "")
    assert (near.nodes, near.up) == ((names["leaf.1.asic.0"],), (2, 2, -1))
    far = trees.of([0, 5, 4], "")
    leaves = sorted([names["leaf.0.asic.0"], names["leaf.2.asic.0"]])
    assert far.nodes == (*leaves, names["spine.0.asic.0"])
    assert far.up == (3, 4, 4, 5, 5, -1)


def test_a_link_carries_the_payload_once_each_way() -> None:
    """Without able leaves the spine adds alone: the links from leaves carry two payloads."""
    whole = 10_000_000
    found, alone = run(clos("leaf", "spine")), run(clos("spine"))
    bytes_of = [each.outcome.link_bytes for each in (found, alone)]
    assert set(bytes_of[0].tolist()) == {whole}
    assert set(bytes_of[1].tolist()) == {whole, 2 * whole}
    assert found.makespan_ps < 0.6 * alone.makespan_ps
    assert found.makespan_ps < 0.65 * run(clos(), "ring").makespan_ps


def test_refused_by_path() -> None:
    with pytest.raises(InputError, match=r"network\.dims\[0\]\.in_switch: is missing"):
        run(clos())
    with pytest.raises(UnsupportedError, match=r"collective\.all_reduce: nvls for a group at several switches"):
        run(clos("leaf", "spine"), "nvls")
    with pytest.raises((InputError, ConfigError), match=r"in_switch\.leave"):
        clos("leave")
    with pytest.raises(AstrariumError, match="closed_form has no links of a graph, and the fabric has in_switch"):
        ar.Network(fabric=clos("leaf", "spine").fabric)
    with pytest.raises(InputError, match=r"network\.fabric\.in_switch\..*\.groups: \d+ groups of NPUs"):
        ar.simulate(ar.Design(
            workload=ar.Transformer("gpt2-small", tp=2, dp=4, global_batch=4), network=clos("leaf", "spine", groups=1),
            compute=ar.Roofline(peak="1 PFLOP/s"), memory=ar.Memory(bandwidth="3 TB/s"),
            collective=ar.Collective(all_reduce=["sharp"])))


def test_switches_that_a_back_end_or_a_fabric_has_not() -> None:
    able = ar.Switch(8, bandwidth="50 GB/s", latency="600 ns", in_switch=ABLE)
    with pytest.raises(UnsupportedError, match=r"network\.backend: ns3 has no switches that compute"):
        run(ar.Network([able], backend="ns3"))
    fabric = ar.blueprint("clos", hosts=8, ports=4, inside="free", links={"access": NUMBERS, "spine": NUMBERS})
    with pytest.raises(UnsupportedError, match=r"network\.dims: have switches that compute, but the fabric"):
        run(ar.Network([able], fabric=fabric, backend="contention"))


def test_a_group_at_one_leaf_may_read_and_write_through_it() -> None:
    network = clos("leaf", hosts=2)
    assert list(run(network, "nvls").collectives.how) == ["nvls"]
