"""COSMIC's evaluation table as a space: GPT3-175B (96 layers) on 1,024 NPUs, 23 knobs, 1.1e13 feasible designs."""

from __future__ import annotations

import astrarium as ar

__all__ = ["full_stack"]


def full_stack(npus: int = 1024) -> ar.Space:
    """Workload, collective and network knobs of the table; the base is COSMIC's System 2 with System 1's compute."""
    base = ar.Design(
        workload=ar.Transformer("gpt3-175b", global_batch=2048, dp=8, pp=4, sp=8, tp=4, uneven="fractional"),
        network=ar.Network([ar.Ring(4, bandwidth_per_npu="375 GB/s", latency="20 ns"),
                            ar.FullyConnected(8, bandwidth_per_npu="175 GB/s", latency="700 ns"),
                            ar.Ring(4, bandwidth_per_npu="150 GB/s", latency="700 ns"),
                            ar.Switch(8, bandwidth_per_npu="100 GB/s", latency="1700 ns")]),
        compute=ar.Roofline(peak="459 TFLOP/s"), memory=ar.Memory(bandwidth="2765 GB/s"),
        collective=ar.Collective(all_reduce=["ring"] * 4, chunks=4),
        system=ar.System(comm_streams=1))       # ASTRA-sim 2, in which COSMIC ran: a collective at a time
    powers = [2**power for power in range(12)]
    return ar.Space(base, {
        "workload.dp": powers, "workload.sp": powers, "workload.pp": [1, 2, 4], "workload.zero": [0, 3],
        "collective.scheduling": ["lifo", "fifo"],
        "collective.all_reduce[*]": ["ring", "direct", "halving_doubling", "double_binary_tree"],
        "collective.chunks": [2, 4, 8, 16], "collective.composition": ["baseline", "blueconnect"],
        "network.dims[*].shape": ["ring", "switch", "fully_connected"],
        "network.dims[*].npus": [4, 8, 16],
        "network.dims[*].bandwidth_per_npu": {"from": "50 GB/s", "to": "500 GB/s", "step": "50 GB/s"},
    }, ["workload.dp * workload.sp * workload.pp <= network.npus", f"network.npus == {npus}"],
        derived={"workload.tp": "network.npus // (workload.dp * workload.sp * workload.pp)"})
