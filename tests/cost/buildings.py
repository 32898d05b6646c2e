"""Designs whose hosts, switches and energy have prices."""

from __future__ import annotations

from typing import Any

import astrarium as ar
from astrarium.config import loads, replace_all

H100 = """
workload: {source: collective, op: all_reduce, payload: 1 MB}
compute: {like: h100_sxm, power: 700 W, idle_power: 80 W}
memory: h100_sxm
network: {dims: [dgx_h100_nvswitch, {like: infiniband_ndr, npus: 4, latency: 3 us}]}
cost: us_h100_2024
"""
STEP = """
workload: {source: transformer, model: gpt2-small, tp: 2, dp: 8, global_batch: 16, seq: 512}
compute: {model: roofline, peak: 312 TFLOP/s, power: 400 W, idle_power: 50 W}
memory: {bandwidth: 2039 GB/s, capacity: 80 GB}
network: {dims: [{shape: switch, npus: 8, bandwidth: 300 GB/s, latency: 500 ns},
                 {shape: switch, npus: 2, bandwidth: 50 GB/s, latency: 2 us}]}
cost: {like: us_h100_2024, host_power: 4 kW}
"""


def cluster(hosts: int, **changes: Any) -> ar.Design:
    """H100 hosts on a rail of NDR InfiniBand for each of their NPUs."""
    return replace_all(loads(ar.Design, H100), {"network.dims[1].npus": hosts,
                                                **{name.replace("__", "."): value for name, value in changes.items()}})


def step(**changes: Any) -> ar.Design:
    """A training step on two hosts of eight."""
    return replace_all(loads(ar.Design, STEP), {name.replace("__", "."): value for name, value in changes.items()})
