"""Designs and figures that several tests share."""

from __future__ import annotations

from typing import Any

import numpy as np

import astrarium as ar
from astrarium import catalog
from astrarium.trace.work import Generated
from astrarium.vocab import NodeKind
from astrarium.workload.inference.config import Inference

__all__ = ["design", "flops", "inference", "payloads"]


def inference(**fields: Any) -> Inference:
    """LLaMA 3 8B, where nothing else is said."""
    return Inference(**{"model": "llama3-8b", **fields})


def design(workload: Inference, *, link: str = "450 GB/s", latency: str = "500 ns") -> ar.Design:
    """H100s behind one switch."""
    device = catalog.device("h100_sxm")
    return ar.Design(workload=workload, compute=ar.Roofline(**device.compute), memory=ar.Memory(**device.memory),
                     network=ar.Network([ar.Switch(workload.ranks, bandwidth=link, latency=latency)]))


def flops(generated: Generated) -> float:
    """FLOPs of all ranks."""
    return sum(float(np.nansum(each.num_ops)) * len(each.ranks) for each in generated.classes)


def payloads(generated: Generated) -> list[int]:
    """Bytes of every collective of the first class."""
    trace = generated.classes[0]
    return sorted(trace.comm_size[trace.type == NodeKind.COMM_COLL].tolist())
