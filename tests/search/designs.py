"""Designs and spaces that several tests use."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

import astrarium as ar
from astrarium.search import Space
from astrarium.search.evaluate import Evaluator
from astrarium.search.exam import Problem
from astrarium.search.goal import goal_of

NEEDS = {"tpe": ("optuna",), "nsga2": ("pymoo",), "ppo": ("stable_baselines3", "gymnasium")}


def ready(agent: str) -> None:
    """Skip where a library is absent."""
    for module in NEEDS.get(agent, ()):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{agent} needs {module}, which is not installed")


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


MODEL = ar.Decoder(layers=3, d_model=256, heads=8, ffn=1024, vocab=512, seq=128)


def trainings(streams: int | str = "auto", **fixed: object) -> Space:
    """Parallelisations of a small model over two dims of any shape and size, with every way of its collectives."""
    base = ar.Design(
        workload=ar.Transformer(MODEL, global_batch=32, micro_batch=1, dp=8, uneven="fractional"),
        network=ar.Network([ar.Ring(2, bandwidth_per_npu="20 GB/s", latency="300 ns"),
                            ar.Switch(4, bandwidth_per_npu="10 GB/s", latency="1 us")]),
        compute=ar.Roofline(peak="20 TFLOP/s"), memory=ar.Memory(bandwidth="500 GB/s"),
        collective=ar.Collective(all_reduce=["ring"] * 2, all_gather=["ring"] * 2, reduce_scatter=["ring"] * 2,
                                 endpoint_delay="20 ns"), system=ar.System(comm_streams=streams))
    choices = {
        "workload.dp": [2, 8], "workload.pp": [1, 2], "workload.zero": [0, 3],
        "network.dims[*].npus": [2, 4], "network.dims[*].shape": ["ring", "switch", "fully_connected"],
        "network.dims[*].bandwidth_per_npu": ["10 GB/s", "40 GB/s"],
        "collective.all_reduce[*]": ["ring", "direct", "halving_doubling", "double_binary_tree"],
        "collective.all_gather[*]": ["ring", "direct", "halving_doubling"],
        "collective.chunks": [1, 4], "collective.composition": ["baseline", "blueconnect"]} | fixed
    return Space(base, choices, ["network.npus == 8", "workload.dp * workload.pp <= network.npus"],
                 derived={"workload.tp": "network.npus // (workload.dp * workload.pp)"})


def few_trainings() -> Space:
    """Few enough of them to look at every one."""
    return trainings(streams=1, **{
        "collective.all_gather[*]": ["ring"], "collective.all_reduce[*]": ["ring", "direct"], "collective.chunks": [4],
        "collective.composition": ["blueconnect"], "workload.pp": [1], "network.dims[*].shape": ["ring", "switch"]})
