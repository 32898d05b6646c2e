"""Dims: links and bandwidths that follow from each other, torus expansion, limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import astrarium as ar
from astrarium.engine.plan import Shape
from astrarium.network.config import LinkDim
from astrarium.network.dims import plan_dims

LATENCY = "500 ns"


@pytest.mark.parametrize(
    ("kind", "npus", "extra", "links", "shape"),
    [
        (ar.Ring, 8, {}, 2, Shape.RING),
        (ar.Ring, 8, {"one_way": True}, 1, Shape.RING_ONE_WAY),
        (ar.Switch, 8, {}, 1, Shape.SWITCH),
        (ar.FullyConnected, 8, {}, 7, Shape.FULLY_CONNECTED),
        (ar.Mesh, 8, {}, 2, Shape.MESH),
        (ar.Hypercube, 8, {}, 3, Shape.HYPERCUBE),
        (ar.Hypercube, 1, {}, 1, Shape.HYPERCUBE),
        (ar.FullyConnected, 1, {}, 1, Shape.FULLY_CONNECTED),
    ],
)
def test_link_and_npu_bandwidth(
    kind: type[LinkDim], npus: int, extra: dict[str, bool], links: int, shape: Shape
) -> None:
    per_link = kind(npus, bandwidth="42 GB/s", latency=LATENCY, **extra)
    per_npu = kind(npus, bandwidth_per_npu="42 GB/s", latency=LATENCY, **extra)
    assert (per_link.link_bandwidth, per_link.npu_bandwidth) == (42.0, 42.0 * links)
    assert (per_npu.link_bandwidth, per_npu.npu_bandwidth) == (42.0 / links, 42.0)
    (dim,) = plan_dims(ar.Network([per_npu]))
    assert (dim.shape, dim.npus, dim.bandwidth, dim.latency) == (shape, npus, 42.0 / links, 500.0)


@given(st.lists(st.integers(1, 8), min_size=1, max_size=4))
def test_a_torus_is_one_ring_per_direction(sides: list[int]) -> None:
    torus = ar.Torus(sides, bandwidth_per_npu="48 GB/s", latency=LATENCY)
    rings = ar.Network([torus]).flat
    assert [ring.npus for ring in rings] == sides
    assert all(isinstance(ring, ar.Ring) for ring in rings)
    assert sum(ring.npu_bandwidth for ring in rings) == pytest.approx(48.0)


def test_npus_are_the_product() -> None:
    switch = ar.Switch(8, bandwidth="1 GB/s", latency=LATENCY)
    torus = ar.Torus([4, 4, 2], bandwidth="1 GB/s", latency=LATENCY)
    network = ar.Network([switch, torus])
    assert network.npus == 256
    assert [dim.npus for dim in network.flat] == [8, 4, 4, 2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ar.Hypercube(6, bandwidth="1 GB/s", latency=LATENCY),
            "Hypercube.npus: 6 is impossible; expected a power of two",
        ),
        (lambda: ar.Torus([], bandwidth="1 GB/s", latency=LATENCY), "Torus.npus: is empty"),
        (lambda: ar.Torus([4, 0], bandwidth="1 GB/s", latency=LATENCY), r"Torus.npus\[1\]: 0 is impossible"),
        (lambda: ar.Torus([4], latency=LATENCY), "Torus.bandwidth: is missing"),
        (lambda: ar.Network([]), "Network.dims: is empty"),
        (lambda: ar.Network([ar.Switch(2**20, bandwidth="1 GB/s", latency=LATENCY)] * 2), "are too many"),
        (
            lambda: ar.Switch(8, bandwidth="0 GB/s", latency=LATENCY),
            "Switch.bandwidth: '0 GB/s' is impossible; expected above 0",
        ),
    ],
)
def test_impossible_dims(make: object, message: str) -> None:
    with pytest.raises(ar.InputError, match=message):
        make()  # type: ignore[operator]


def test_unless_chosen_a_mesh_does_not_send_back_over_the_line() -> None:
    """1 GB on a line of 16: in step k, 2^k hops of 1 GB / 2^(k+1), four steps down and four back: 4 x 10 ms."""
    for backend, switching in ("closed_form", None), ("contention", "store_and_forward"):
        network = ar.Network([ar.Mesh(16, bandwidth="100 GB/s", latency="0 ns")], backend, switching=switching)
        result = ar.simulate(ar.Design(workload=ar.SingleCollective("all_reduce", "1 GB"), network=network,
                                       collective=ar.Collective(choice="none")))
        assert result.makespan_ps == 40_000_000_000
