"""The cost model against the values that LIBRA's public code prints (COSMIC's logs)."""

from __future__ import annotations

import pytest

import astrarium as ar
from astrarium.errors import UnsupportedError
from astrarium.network.cost import network_bandwidth, network_cost


def network(*dims: tuple[type[ar.Ring | ar.FullyConnected | ar.Switch], int, float]) -> ar.Network:
    return ar.Network([kind(npus, bandwidth=f"{bandwidth!r} GB/s", latency="500 ns") for kind, npus, bandwidth in dims])


@pytest.mark.parametrize(("dims", "dollars"), [
    ([(ar.Ring, 4, 50.0), (ar.FullyConnected, 16, 100 / 15), (ar.Ring, 4, 50.0), (ar.FullyConnected, 4, 100 / 3)],
     1_822_720),
    ([(ar.Ring, 8, 50.0), (ar.Switch, 4, 100.0), (ar.Ring, 4, 50.0), (ar.Switch, 8, 100.0)], 9_441_280),
    ([(ar.Ring, 4, 50.0), (ar.FullyConnected, 4, 100 / 3), (ar.Ring, 4, 50.0), (ar.FullyConnected, 4, 100 / 3)],
     455_680),
])
def test_published_values(dims: list[tuple[type[ar.Ring], int, float]], dollars: float) -> None:
    assert network_cost(network(*dims)) == pytest.approx(dollars, rel=1e-12)


def test_tiers_by_number_of_dims() -> None:
    """One ring of 4 NPUs with links of 1 GB/s in each tier: 8 links of 4 (package), of 7.8 (pod), of 4 (node)."""
    ring = (ar.Ring, 4, 1.0)
    assert network_cost(network(ring)) == 32
    assert network_cost(network(ring, ring)) == pytest.approx(4 * 32 + 4 * 62.4)
    assert network_cost(network(ring, ring, ring)) == pytest.approx(16 * (32 + 32 + 62.4))
    with pytest.raises(UnsupportedError, match="no tiers for 5 dims"):
        network_cost(network(ring, ring, ring, ring, ring))


def test_what_has_no_price_is_refused() -> None:
    ring, switch = (ar.Ring, 4, 1.0), (ar.Switch, 4, 1.0)
    with pytest.raises(UnsupportedError, match=r"dims\[0\].shape: the cost model has no switch between chiplets"):
        network_cost(network(switch, ring, ring, ring))
    with pytest.raises(UnsupportedError, match="no price for mesh"):
        network_cost(ar.Network([ar.Mesh(4, bandwidth="1 GB/s", latency="1 us")]))
    with pytest.raises(UnsupportedError, match="both ways"):
        network_cost(ar.Network([ar.Ring(4, bandwidth="1 GB/s", latency="1 us", one_way=True)]))


def test_bandwidth_per_npu_of_the_talks_systems() -> None:
    """System 2: per-NPU bandwidths 375, 175, 150, 100 are links of 187.5, 25, 75, 100 (COSMIC)."""
    built = network((ar.Ring, 4, 187.5), (ar.FullyConnected, 8, 25.0), (ar.Ring, 4, 75.0), (ar.Switch, 8, 100.0))
    assert network_bandwidth(built) == 375 + 175 + 150 + 100
