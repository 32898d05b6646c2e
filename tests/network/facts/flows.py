"""Flows of one message each, all asked for at time 0: their fabrics, and when they end on the packet medium."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np
from tests.plans.hand import plan_of, recv, send

from astrarium import engine
from astrarium.engine.plan import Dim, Graph, NetworkPlan, Shape

__all__ = ["BANDWIDTH", "LATENCY", "LEAF", "Flow", "dim", "ends", "fat_tree", "quantiles", "torus_of_switches"]

BANDWIDTH, LATENCY = 50.0, 500.0    # bytes/ns, ns
LEAF = {128: 16, 1024: 32}          # of a fat tree: NPUs of a leaf, and spines

Flow = tuple[int, int]              # source, destination


def dim(shape: Shape, npus: int) -> Dim:
    """A dim with the links of all cases."""
    return Dim(shape, npus, BANDWIDTH, LATENCY)


def ends(network: NetworkPlan, npus: int, flows: Sequence[Flow], size: int) -> list[int]:
    """When the last byte of each flow is there, ps, in order of time."""
    to: list[list[int]] = [[] for _ in range(npus)]
    back: list[list[int]] = [[] for _ in range(npus)]
    for source, destination in flows:
        to[source].append(destination)
        back[destination].append(source)
    ranks = [[send(b, size) for b in ahead] + [recv(a, size) for a in behind]
             for ahead, behind in zip(to, back, strict=True)]
    plan = plan_of(ranks, network, lanes=(1, max(1, *map(len, to)), 1, 1, 1))
    counts = engine.execute(plan, record=True, fold=False).packets
    assert counts is not None
    assert counts.arrived.size == len(flows)
    found: list[int] = sorted(counts.arrived.tolist())
    return found


def quantiles(found: Sequence[int]) -> dict[str, int]:
    """Of times in order: column -> ps."""
    return {"first_ps": found[0], "median_ps": int(median(found)), "p99_ps": found[round(0.99 * (len(found) - 1))],
            "last_ps": found[-1], "mean_ps": sum(found) // len(found)}


def _both_ways(nodes: int, low: np.ndarray, high: np.ndarray) -> Graph:
    links = 2 * low.size
    return Graph(nodes, np.concatenate([low, high]).astype(np.int32), np.concatenate([high, low]).astype(np.int32),
                 np.full(links, BANDWIDTH), np.full(links, LATENCY), np.zeros(links, np.int64),
                 np.ones(links, np.int32))


def fat_tree(npus: int) -> Graph:
    """Leaves of so many NPUs, and as many spines."""
    leaf = LEAF[npus]
    leaves = npus // leaf
    npu, spine = np.arange(npus), np.tile(np.arange(leaf), leaves)
    low = np.concatenate([npu, npus + npu // leaf])
    high = np.concatenate([npus + npu // leaf, npus + leaves + spine])
    return _both_ways(npus + leaves + leaf, low, high)


def torus_of_switches(x: int, y: int) -> Graph:
    """A torus whose nodes are switches, with an NPU at each: no NPU passes packets on."""
    npu = np.arange(x * y)
    column, row = npu % x, npu // x
    right, up = (column + 1) % x + row * x, column + (row + 1) % y * x
    around = np.stack([right, up], axis=1).reshape(-1)
    return _both_ways(2 * x * y, np.concatenate([npu, x * y + np.repeat(npu, 2)]),
                      x * y + np.concatenate([npu, around]))
