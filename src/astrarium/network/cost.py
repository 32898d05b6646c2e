"""What a network costs, in US dollars: the cost model of LIBRA, which COSMIC uses.

Every dim belongs to a tier of packaging: inter-chiplet, inter-package, inter-node or inter-pod. A component costs so
many dollars per GB/s of the link bandwidth that it serves. A block of n NPUs of a dim with links of b GB/s holds

    ring             2 n links             link b 2n
    fully_connected  n (n - 1) links       link b n (n - 1)
    switch           2 n links, n ports    (2 link + switch + nic) n b      (a NIC in the outermost tier only)

and the network of N NPUs has N / n blocks of the dim. The table's links are one direction: a dim whose `link` has a
price takes half of it, divided by the link's bandwidth, in place of the table's.

Source: W. Won et al., LIBRA, arXiv 2109.11762 (ISPASS 2024), and its public code, willjwon/astra-network-analytical,
CostModel.cc at b64d6a3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from astrarium.catalog.technology import link_technology
from astrarium.errors import UnsupportedError
from astrarium.network.config import LinkDim, Network, Ring
from astrarium.network.needs import needs_dims

__all__ = ["LIBRA", "Prices", "link_price", "network_bandwidth", "network_cost", "tiers_of"]


class Prices(Struct, frozen=True):
    """US dollars per GB/s, by tier; a component that a tier has no price for cannot be there."""

    link: Mapping[str, float]
    switch: Mapping[str, float]
    nic: Mapping[str, float]


LIBRA = Prices(
    link=MappingProxyType({"chiplet": 2.0, "package": 4.0, "node": 4.0, "pod": 7.8}),
    switch=MappingProxyType({"package": 13.0, "node": 13.0, "pod": 18.0}),
    nic=MappingProxyType({"pod": 31.6}),
)
"""The table of LIBRA."""

_TIERS = {1: ("package",), 2: ("package", "pod"), 3: ("package", "node", "pod"),
          4: ("chiplet", "package", "node", "pod")}


def tiers_of(dims: int) -> Sequence[str]:
    """The tier of each dim of a network of `dims` dims, innermost first. Raises UnsupportedError for more than 4."""
    if dims not in _TIERS:
        raise UnsupportedError("network.dims", f"the cost model has no tiers for {dims} dims", expected="1 to 4 dims")
    return _TIERS[dims]


def network_cost(network: Network, prices: Prices = LIBRA) -> float:
    """US dollars of a whole network. Raises UnsupportedError for a shape or tier that has no price."""
    needs_dims(network, "network_cost")
    dims, total = network.flat, network.npus
    found = 0.0
    for index, (dim, tier) in enumerate(zip(dims, tiers_of(len(dims)))):
        found += _block(dim, tier, prices, f"network.dims[{index}]") * (total // dim.npus)
    return found


def _block(dim: LinkDim, tier: str, prices: Prices, path: str) -> float:
    """US dollars of one block of a dim."""
    n, bandwidth, link = dim.npus, float(dim.link_bandwidth), link_price(dim.link, tier, prices)
    if dim.tag == "ring" and not (isinstance(dim, Ring) and dim.one_way):
        return link * bandwidth * n * 2
    if dim.tag == "fully_connected":
        return link * bandwidth * n * (n - 1)
    if dim.tag != "switch":
        raise UnsupportedError(f"{path}.shape", f"the cost model has no price for {dim.tag}",
                               expected="one of ring (both ways), fully_connected, switch")
    if tier not in prices.switch:
        raise UnsupportedError(f"{path}.shape", f"the cost model has no switch between {tier}s",
                               expected="another shape, or fewer dims")
    return (2 * link + prices.switch[tier] + prices.nic.get(tier, 0.0)) * n * bandwidth


def link_price(technology: str | None, tier: str, prices: Prices = LIBRA) -> float:
    """US dollars of a GB/s of a link, one way: half of the price of the technology's link over its bandwidth, else that
    of the tier."""
    found = None if technology is None else link_technology(technology)
    return prices.link[tier] if found is None or found.price is None else found.price / (2 * found.bandwidth)


def network_bandwidth(network: Network) -> float:
    """Byte/ns (GB/s) out of one NPU over all its links in all dims together: COSMIC's "bandwidth per NPU"."""
    needs_dims(network, "network_bandwidth")
    return sum(float(dim.npu_bandwidth) for dim in network.flat)
