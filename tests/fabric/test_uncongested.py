"""Fabrics that `closed_form` takes as dims, and those that it refuses."""

from __future__ import annotations

from typing import Any

import pytest

import astrarium as ar

NUMBERS = {"bandwidth": "50 GB/s", "latency": "500 ns"}
SLOWER = {"bandwidth": "25 GB/s", "latency": "500 ns"}
RAILS = {"pcie": "free", "rail": {"latency": "600 ns"}, "spine": {"latency": "600 ns"}}
BACKENDS = ("closed_form", "contention", "packets")


def rails(hosts: int, **links: Any) -> ar.Fabric:
    return ar.blueprint("dgx_h100_rail", hosts=hosts, links={**RAILS, **links})


def clos(hosts: int, ports: int, **fields: Any) -> ar.Fabric:
    links = dict.fromkeys(("access", "spine", "core")[:fields.get("tiers", 2)], NUMBERS)
    return ar.blueprint("clos", hosts=hosts, ports=ports, links=links, **fields)


def dims(*sizes: int) -> list[ar.Switch]:
    return [ar.Switch(npus, **NUMBERS) for npus in sizes]


def times(network: ar.Network, op: str = "all_reduce") -> list[int]:
    return [ar.simulate(ar.Design(workload=ar.SingleCollective(op, "8 MB"), network=each)).makespan_ps
            for each in (ar.replace(network, "backend", name) for name in BACKENDS)]


@pytest.mark.parametrize("links", [{}, {"pcie": {"bandwidth": "64 GB/s", "latency": "300 ns"}}])
@pytest.mark.parametrize("op", ["all_reduce", "all_gather"])
def test_rails_of_hosts_take_as_long_as_their_graph(links: dict[str, object], op: str) -> None:
    """Collectives that are laid out on hosts and rails never leave a leaf switch. The numbers of the dims are those of
    the fabric, with every back end."""
    found = times(ar.Network(dims(8, 4), fabric=rails(4, **links)), op)
    assert found[0] == found[1]
    assert found[2] == pytest.approx(found[0], rel=0.02)


def test_rails_over_several_leaves_have_the_latency_of_the_longest_way() -> None:
    network = ar.Network(dims(8, 64), fabric=rails(64))
    assert [(dim.npus, float(dim.link_bandwidth), float(dim.latency)) for dim in network.flat] == [
        (8, 450.0, pytest.approx(936.2, abs=0.1)), (64, 50.0, 1200.0)]
    assert network.notes[-1].endswith("take up to 1.2 us less")


@pytest.mark.parametrize(("hosts", "tiers", "latency"), [(4, 2, 500.0), (32, 2, 1000.0), (64, 3, 1500.0)])
def test_a_folded_clos_network_is_a_switch(hosts: int, tiers: int, latency: float) -> None:
    """Four NPUs are behind one leaf of eight ports."""
    fabric = clos(hosts, 8 if tiers == 3 or hosts == 4 else 16, tiers=tiers)
    (dim,) = ar.Network(fabric=fabric).flat
    assert (dim.tag, dim.npus, float(dim.link_bandwidth), float(dim.latency)) == ("switch", hosts, 50.0, latency)


def test_a_message_alone_between_leaves_takes_as_long_as_on_the_graph() -> None:
    from astrarium.trace import TraceBuilder, traces_of_bytes

    ranks = [TraceBuilder() for _ in range(32)]
    ranks[0].send("send", 31, 1_000_000)
    ranks[31].recv("recv", 0, 1_000_000)
    traces = traces_of_bytes([rank.encode() for rank in ranks])
    design = ar.Design(workload=ar.Trace("in memory"), network=ar.Network(fabric=clos(32, 16)))
    found = [ar.simulate(ar.replace(design, "network.backend", name), traces=traces).makespan_ps for name in BACKENDS]
    assert found == [22_000_000] * 2 + [22_245_760]   # 1 MB at 50 GB/s, and four links of 500 ns


@pytest.mark.parametrize(("network", "why"), [
    ({"fabric": clos(32, 16, oversubscription=3)}, r"leaf\.0.* has 200 GB/s upwards for 600 GB/s below it"),
    ({"fabric": rails(64, spine={**SLOWER}), "dims": dims(8, 64)}, "slower than that of an NPU"),
    ({"fabric": ar.blueprint("dragonfly", routers=4, xpus=2, global_links=2, links=dict.fromkeys(
        ("access", "local", "global"), NUMBERS))}, "of one tier and joined"),
    ({"fabric": ar.blueprint("clos", hosts=3, xpus=8, ports=24, links=dict.fromkeys(
        ("scale_up", "access", "spine"), NUMBERS)), "dims": dims(8, 3)}, "join some NPUs of two groups"),
    ({"fabric": rails(4)}, "dims: are missing"), ({"fabric": rails(4), "dims": dims(4, 8)}, "dims: are not those"),
    ({"fabric": rails(4), "dims": dims(8, 4), "changes": [{"link": [0, "leaf.0"], "at": "1 us", "speed": 0.5}]},
     r"changes\[0\]: changes links while the design runs, and closed_form has no links")])
def test_what_is_refused_says_why(network: dict[str, Any], why: str) -> None:
    with pytest.raises(ar.InputError, match=why):
        ar.Network(**network)


def test_dims_beside_a_fabric_have_its_numbers_or_lay_out_collectives_only() -> None:
    torus = ar.blueprint("torus", sides=[4, 4], links={"dim0": NUMBERS, "dim1": NUMBERS})
    rings = [ar.Ring(4, **NUMBERS), ar.Ring(4, **NUMBERS)]
    wrong = [ar.Ring(4, bandwidth="5 GB/s", latency="1 us")] * 2
    assert times(ar.Network(wrong, fabric=torus)) == times(ar.Network(rings))
    one = [ar.Switch(16, bandwidth="500 GB/s", latency="0 ns")]
    with pytest.raises(ar.InputError, match="closed_form"):
        ar.Network(one, fabric=torus)
    on_graph = ar.Network(one, fabric=torus, backend="contention")
    design = ar.Design(workload=ar.SingleCollective("all_reduce", "8 MB"), network=on_graph)
    assert ar.simulate(design).makespan_ps > times(ar.Network(rings))[1]
