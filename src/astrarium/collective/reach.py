"""How far the members of a group are from each other in one dim: what the estimate asks of geometry."""

from __future__ import annotations

import numpy as np

from astrarium.arrays import I64
from astrarium.collective.algorithms.algorithm import Reach
from astrarium.engine.plan import Dim, Shape

__all__ = ["reach", "reach_of_dim"]

LOOKED_AT = 512     # members whose distances are all looked at; of more, as if they were the whole dim
HOPLESS = (Shape.SWITCH, Shape.FULLY_CONNECTED)


def reach(dim: Dim, places: I64) -> Reach:
    """Distances of members at `places` of a dim, in the order of their group."""
    n = len(places)
    whole = n == dim.npus and bool((places == np.arange(n)).all())
    if dim.shape in HOPLESS or n < 2 or whole or n > LOOKED_AT:
        return reach_of_dim(dim.shape, n)
    return _some(dim, places)


def reach_of_dim(shape: Shape, n: int) -> Reach:
    """Distances of all members of a dim of `n`, in order."""
    if shape in HOPLESS or n < 2:
        return Reach(1, 1, float(n - 1))
    far = {Shape.RING: n // 2, Shape.RING_ONE_WAY: n - 1, Shape.MESH: n - 1, Shape.HYPERCUBE: n.bit_length() - 1}[shape]
    return Reach(1, far, far * (far + 1) / 2)


def _some(dim: Dim, places: I64) -> Reach:
    """From the distances of every pair; the next after the last is the first, but not on a line: what comes back there
    is counted by the formula."""
    forward = (places[None, :] - places[:, None]) % dim.npus
    if dim.shape == Shape.HYPERCUBE:
        bits = places[None, :] ^ places[:, None]
        hops = sum(((bits >> bit) & 1 for bit in range(dim.npus.bit_length())), start=np.zeros_like(bits))
        load = float(hops.sum(axis=1).max())
    elif dim.shape == Shape.MESH:
        hops = np.abs(places[None, :] - places[:, None])
        load = float(hops.sum(axis=1).max())
    elif dim.shape == Shape.RING_ONE_WAY:
        hops, load = forward, float(forward.sum(axis=1).max())
    else:
        hops = np.minimum(forward, dim.npus - forward)
        ahead = forward <= dim.npus - forward
        load = float(max((hops * ahead).sum(axis=1).max(), (hops * ~ahead).sum(axis=1).max()))
    after = hops[np.arange(len(places)), (np.arange(len(places)) + 1) % len(places)]
    if dim.shape == Shape.MESH:
        after = after[:-1]
    return Reach(int(after.max()), int(hops.max()), load)
