"""Given routes: messages take them on every medium of links, both engines agree, and bad ones are named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.fabric.fabrics import NUMBERS

import astrarium as ar
from astrarium import engine
from astrarium.engine.plan import GivenRoutes
from astrarium.errors import InputError, UnsupportedError
from astrarium.fabric.config import Fabric
from astrarium.network.planned import network_plan
from astrarium.trace import TraceBuilder, traces_of_bytes

CLOS = ar.blueprint("clos", hosts=4, ports=4, links={"access": NUMBERS, "spine": NUMBERS})
TORUS = ar.blueprint("torus", sides=[4, 4], links={"dim0": NUMBERS, "dim1": NUMBERS})
TO_3 = [{"source": 0, "destination": 3, "via": ["spine.1"]}]
BACKENDS = {"contention": {}, "fluid": {}, "packets": {}, "sprayed": {"spray": True},
            "roce": {"transport": "roce", "deadlock": "allow"}}


def run(fabric: Fabric, backend: str, routes: object, op: str = "all_to_all", **more: object):
    packets = {"packets": BACKENDS[backend]} if BACKENDS[backend] else {}
    network = ar.Network(fabric=fabric, backend=backend if backend in ("contention", "fluid") else "packets",
                         routes=routes, **packets, **more)
    design = ar.Design(workload=ar.SingleCollective(op, "1 MB"), network=network)
    results = [ar.simulate(design, pure=pure) for pure in (False, True)]
    assert results[0].makespan_ps == results[1].makespan_ps
    assert all(np.array_equal(getattr(results[0].links, name), getattr(results[1].links, name))
               for name in ("source", "target", "size", "busy"))
    return results[0]


def over(result: object, name: str) -> dict[str, int]:
    """Bytes over the links of a device."""
    links = result.links
    return {links.name(row): int(links.size[row]) for row in range(links.size.size) if name in links.name(row)}


@pytest.mark.parametrize("backend", BACKENDS)
def test_messages_take_the_route(backend: str) -> None:
    plain, routed = (over(run(CLOS, backend, routes, ecmp="off"), "spine.1") for routes in ([], TO_3))
    up = "leaf.0.asic.0 -> spine.1.asic.0"
    if backend == "sprayed":        # other pairs of NPUs share the link
        assert routed[up] > plain[up]
    else:
        assert plain == {}
        assert routed == {up: 250_000, "spine.1.asic.0 -> leaf.1.asic.0": 250_000}


def test_all_pairs_of_a_host_by_its_name_and_longer_ways() -> None:
    routes = [{"source": "npu.0", "destination": 1, "via": ["npu.4", "npu.5"]}]
    plan = network_plan(ar.Network(fabric=TORUS, backend="fluid", routes=routes), "fluid")
    assert plan.graph is not None
    assert plan.routes is not None
    assert [(int(plan.graph.source[link]), int(plan.graph.target[link])) for link in plan.routes.link] == [
        (0, 4), (4, 5), (5, 1)]
    for backend in BACKENDS:
        run(TORUS, backend, routes, ecmp=3)
    every = network_plan(ar.Network(fabric=CLOS, backend="fluid", routes=[
        {"source": "host[0:2]", "destination": "host.3", "via": ["spine.1"]}]), "fluid").routes
    assert every is not None
    assert sorted(set(zip(every.source.tolist(), every.destination.tolist(), strict=True))) == [(0, 3), (1, 3)]


def test_without_routes_the_dims_of_a_fabric_are_used_and_with_them_its_graph() -> None:
    assert network_plan(ar.Network(fabric=TORUS), "closed_form").graph is None
    idle = ar.Network(fabric=TORUS, routes=[{"source": 0, "destination": 1, "via": [4, 5]}])
    assert network_plan(idle, "closed_form").graph is None
    assert idle.notes == ("inactive with backend: closed_form: routes",)
    with pytest.raises(InputError, match="has no effect without a fabric"):
        ar.Network([ar.Ring(4, **NUMBERS)], "contention", routes=TO_3)


@pytest.mark.parametrize(("route", "message"), [
    ({"source": 0, "destination": 3, "via": ["spine.7"]}, "no spine[7]"),
    ({"source": 0, "destination": 3, "via": ["spin.0"]}, "did you mean"),
    ({"source": 9, "destination": 3, "via": ["spine.0"]}, "there is no NPU 9"),
    ({"source": 0, "destination": 0, "via": ["spine.0"]}, "to itself"),
    ({"source": 0, "destination": 1, "via": ["spine.0"]}, "leaf.0.asic.0 twice"),
    ({"source": 0, "destination": 3, "via": ["spine.0", "spine.0"]}, "twice in a row"),
    ({"source": 0, "destination": 3, "via": ["spine"]}, "2 nodes of the graph"),
    ({"source": "leaf.0", "destination": 3, "via": []}, "has no NPU"),
])
def test_bad_routes_are_named(route: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        ar.Network(fabric=CLOS, backend="fluid", routes=[route])
    assert message in str(caught.value)
    assert "routes[0]" in str(caught.value)


def test_two_routes_of_a_pair_and_dead_links_are_named() -> None:
    with pytest.raises(InputError, match=r"NPU 0 to NPU 3 has a way by network.routes\[0\], too"):
        ar.Network(fabric=CLOS, backend="fluid", routes=[*TO_3, {"source": 0, "destination": 3, "via": ["spine.0"]}])
    dead = [{"link": [f"leaf.{leaf}", "spine.1"], "speed": 0} for leaf in (0, 1)]
    with pytest.raises(InputError, match=r"routes\[0\].*no way from host.0"):
        ar.Network(fabric=CLOS, backend="fluid", routes=TO_3, changes=dead)


def test_a_circle_of_given_routes_is_found_with_finite_buffers() -> None:
    ring = ar.blueprint("torus", sides=[4], links={"dim0": NUMBERS})
    around = [{"source": npu, "destination": (npu + 2) % 4, "via": [(npu + 1) % 4]} for npu in range(4)]
    packets = {"buffer": "64 KiB"}
    network = ar.Network(fabric=ring, backend="packets", routes=around, packets=packets)
    design = ar.Design(workload=ar.SingleCollective("all_to_all", "1 MB"), network=network,
                       collective=ar.Collective(all_to_all=["direct"]))
    with pytest.raises(UnsupportedError, match=r"in a circle: npu.0.xpu.0 -> npu\.1"):
        ar.simulate(design)


@given(data=st.data())
def test_broken_routes_are_refused_or_run(data: st.DataObject) -> None:
    network = ar.Network(fabric=CLOS, backend="fluid", routes=TO_3)
    design = ar.Design(workload=ar.SingleCollective("all_to_all", "1 MB"), network=network)
    plan = ar.simulate(design).plan
    given_routes = plan.network.routes
    assert given_routes is not None
    columns = [getattr(given_routes, name).copy() for name in ("source", "destination", "link")]
    column, row = data.draw(st.sampled_from(columns)), data.draw(st.integers(0, columns[0].size - 1))
    column[row] = data.draw(st.integers(-2, 40))
    keep = data.draw(st.integers(1, columns[0].size))
    broken = replace(plan.network, routes=GivenRoutes(*(each[:keep] for each in columns)))
    try:
        assert engine.execute(replace(plan, network=broken)).makespan > 0
    except UnsupportedError as error:
        assert "the route from NPU" in str(error)   # noqa: PT017


@pytest.mark.parametrize(("backend", "us"), [("contention", 20 + 3 * 0.5), ("fluid", 20 + 3 * 0.5),
                                             ("packets", 20 + 3 * 0.5 + 2 * 0.08192)])
def test_a_message_over_a_given_way_takes_what_its_links_take(backend: str, us: float) -> None:
    """1 MB over three links of 50 GB/s and 500 ns: heads, no packets, packets of 4,096 B."""
    ranks = [TraceBuilder() for _ in range(16)]
    ranks[0].send("send", 1, 1_000_000)
    ranks[1].recv("recv", 0, 1_000_000)
    network = ar.Network(fabric=TORUS, backend=backend, routes=[{"source": 0, "destination": 1, "via": [4, 5]}])
    design = ar.Design(workload=ar.Trace("in memory"), network=network)
    result = ar.simulate(design, traces=traces_of_bytes([rank.encode() for rank in ranks]))
    assert float(result.makespan) == pytest.approx(us * 1000, rel=1e-4)
