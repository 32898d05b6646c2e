"""COSMIC's rewards, as its public code computes them (AstraSimEnv.py): for comparison with its logs.

A search needs no reward: the reward of one observation only falls as that grows, so minimising `runtime_x_bandwidth` or
`runtime_x_cost` finds the same designs.
"""

from __future__ import annotations

import math

from astrarium.errors import UnsupportedError
from astrarium.network.config import Network

__all__ = ["public_bandwidth", "reward"]

_LINKS = {"ring": 2, "fully_connected": 7, "switch": 1}


def reward(*observations: float) -> float:
    """1 / sqrt(1 + sum of (observation - 1)^2); an observation is latency (ns), memory (bytes), runtime x cost, or
    runtime x bandwidth."""
    return 1.0 / math.sqrt(1.0 + sum((each - 1.0) ** 2 for each in observations))


def public_bandwidth(network: Network) -> float:
    """The bandwidth term of the public code's runtime x bandwidth: GB/s of a link times 2 (ring), 7 (fully connected,
    whatever its size) or 1 (switch), added over dims, over 2000. Raises UnsupportedError for other shapes."""
    total = 0.0
    for index, dim in enumerate(network.flat):
        if dim.tag not in _LINKS:
            raise UnsupportedError(f"network.dims[{index}].shape", f"the public code has no {dim.tag}",
                                   expected="one of " + ", ".join(_LINKS))
        total += _LINKS[dim.tag] * float(dim.link_bandwidth)
    return total / 2000.0
