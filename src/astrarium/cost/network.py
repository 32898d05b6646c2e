"""Price and bandwidth of the network."""

from __future__ import annotations

from astrarium.cost.figure import Figure
from astrarium.network.cost import network_bandwidth, network_cost

__all__ = ["NETWORK_BANDWIDTH", "NETWORK_COST"]

NETWORK_COST = Figure(of_design=lambda design: network_cost(design.network), over_cases="largest")
NETWORK_BANDWIDTH = Figure(of_design=lambda design: network_bandwidth(design.network), over_cases="largest",
                           least=1e-300)
