"""Designs and spaces that several tests use."""

from __future__ import annotations

from typing import Any

import astrarium as ar
from astrarium.search import Space
from astrarium.search.evaluate import Evaluator
from astrarium.search.exam import Problem
from astrarium.search.goal import goal_of


def four_dims(**network: Any) -> ar.Design:
    """1,024 NPUs in four dims, one all_reduce of 100 MB."""
    return ar.Design(
        workload=ar.SingleCollective(op="all_reduce", payload="100 MB"),
        network=ar.Network([ar.Ring(4, bandwidth="50 GB/s", latency="500 ns"),
                            ar.FullyConnected(8, bandwidth="50 GB/s", latency="500 ns"),
                            ar.Ring(4, bandwidth="50 GB/s", latency="500 ns"),
                            ar.Switch(8, bandwidth="50 GB/s", latency="500 ns")], **network),
        collective=ar.Collective(all_reduce=["ring", "direct", "ring", "halving_doubling"], chunks=4))


CHOICES: dict[str, Any] = {
    "network.dims[*].npus": [4, 8, 16],
    "network.dims[*].shape": ["ring", "switch", "fully_connected"],
    "network.dims[*].bandwidth": ["50 GB/s", "100 GB/s", "200 GB/s"],
    "collective.all_reduce[*]": ["ring", "direct", "halving_doubling"],
    "collective.chunks": [2, 4, 8, 16],
    "collective.composition": ["baseline", "blueconnect"],
}


def network_space() -> Space:
    """Network and collective knobs of 256 NPUs and more, fewer than 1,025."""
    return Space(four_dims(), CHOICES, "network.npus == 1024")


def tiny_space() -> Space:
    """64 NPUs in two dims, 360 designs."""
    return Space(small_space().base, {**small_space().choices, "network.dims[*].bandwidth": ["25 GB/s", "100 GB/s"],
                                      "collective.chunks": [1, 4]}, "network.npus == 64")


def small_space() -> Space:
    """64 NPUs in two dims, 1,620 designs: small enough to look at every one."""
    base = ar.Design(
        workload=ar.SingleCollective(op="all_reduce", payload="100 MB"),
        network=ar.Network([ar.Ring(8, bandwidth="50 GB/s", latency="500 ns"),
                            ar.Switch(8, bandwidth="50 GB/s", latency="500 ns")]),
        collective=ar.Collective(all_reduce=["ring", "direct"], chunks=4))
    return Space(base, {
        "network.dims[*].npus": [2, 4, 8, 16, 32],
        "network.dims[*].shape": ["ring", "switch", "fully_connected"],
        "network.dims[*].bandwidth": ["25 GB/s", "50 GB/s", "100 GB/s"],
        "collective.chunks": [1, 2, 4, 8],
    }, "network.npus == 64")


def real_problem() -> Problem:
    """Two network dims with their algorithms: makespan of an all_reduce; every design is simulated once."""
    space = small_space()
    evaluator = Evaluator(space, goal_of("runtime_x_bandwidth"))
    known: dict[Any, float] = {}

    def value(point: Any) -> float:
        if point not in known:
            verdict = evaluator(point)
            assert verdict.values is not None
            known[point] = verdict.values[0]
        return known[point]
    return Problem("two dims", space, value)
