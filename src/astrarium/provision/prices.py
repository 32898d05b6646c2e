"""US dollars per bandwidth of each dim, from the cost model of networks, which is linear in the bandwidths."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from astrarium.arrays import F64
from astrarium.config import replace_all
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.network.cost import network_cost
from astrarium.network.needs import needs_dims

__all__ = ["dollars_per_bandwidth", "prices_of"]


def dollars_per_bandwidth(design: Design) -> F64:
    """US dollars [dims] of the whole network per byte/ns (GB/s) of one NPU's bandwidth in a dim, innermost first.

    Raises UnsupportedError, with the path of the dim, for a shape or tier without a price.
    """
    dims = len(design.network.dims)
    ones = np.array([_cost(design, np.where(np.arange(dims) == place, 2.0, 1.0)) for place in range(dims)])
    found: F64 = ones - _cost(design, np.ones(dims))
    return found


def _cost(design: Design, bandwidths: F64) -> float:
    changes = {f"network.dims[{place}].bandwidth_per_npu": f"{each!r} GB/s"
               for place, each in enumerate(bandwidths.tolist())}
    return network_cost(replace_all(design, changes).network)


def prices_of(design: Design, given: Sequence[float] | None) -> F64:
    """The prices that a caller gives, checked; without any, those of the cost model."""
    if given is None:
        return dollars_per_bandwidth(design)
    needs_dims(design.network, "a price", written=True)
    dims = len(design.network.dims)
    if len(given) != dims:
        raise InputError("prices", f"has {len(given)} entries", expected=f"{dims}, one for each of network.dims")
    for place, price in enumerate(given):
        if not (math.isfinite(price) and price > 0):
            raise InputError(f"prices[{place}]", f"{price!r} is no price", expected="US dollars per GB/s, above 0")
    return np.array(given, np.float64)
