"""Roofline: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009.

A node of F flops that moves B bytes runs at min(peak, bandwidth * F / B), so it takes max(F / peak, B / bandwidth): the
same number, and defined too where F or B is 0. A memory that takes `latency` before its first byte (the access time of
ASTRA-sim's tutorial, latency + bytes / bandwidth) adds it to the second term of nodes that move bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from astrarium.arrays import I64
from astrarium.compute.checked import to_ps, truncated_ns
from astrarium.compute.replay import replayed
from astrarium.compute.traffic import with_repeats
from astrarium.errors import InputError
from astrarium.units import FlopRate, number_in

if TYPE_CHECKING:
    from astrarium.engine.plugins.compute import ComputeNodes

__all__ = ["roofline_astra_sim", "roofline_native", "roofline_of"]


def roofline_native(flops: npt.ArrayLike, size: npt.ArrayLike, peak: float, bandwidth: float,
                    latency: float = 0.0) -> I64:
    """Durations in ps of nodes with `flops` and `size` bytes, arrays [nodes]; `peak` flop/ns, `bandwidth` byte/ns,
    `latency` ns.

    Rounded once, half to even. Raises InputError beyond the clock's range.
    """
    work, moved = np.asarray(flops, np.float64), np.asarray(size, np.float64)
    access = moved / bandwidth if latency == 0 else np.where(moved > 0, latency + moved / bandwidth, 0.0)
    return to_ps(np.maximum(work / peak, access))


def roofline_of(nodes: ComputeNodes, peak: float, missing: float | None, buffer: float | None = None) -> I64:
    """Durations of nodes, ps: on the device by the roofline, on the host as recorded, or `missing` ns. Behind an
    on-chip `buffer` (bytes) products move what `traffic` counts."""
    memory = nodes.memory
    if memory.bandwidth is None:
        raise InputError("memory.bandwidth", "is missing", expected="what the roofline needs: the local bandwidth")
    unknown = np.isnan(nodes.num_ops)
    moved = nodes.tensor_bytes if buffer is None else with_repeats(nodes, buffer)
    if not nodes.host.any():
        _refuse(nodes, unknown)
        return roofline_native(nodes.num_ops, moved, peak, memory.bandwidth, memory.latency)
    duration = np.zeros(len(nodes), np.int64)
    host, device = np.flatnonzero(nodes.host), np.flatnonzero(~nodes.host)
    duration[host] = replayed(nodes, missing, host)
    _refuse(nodes, unknown & ~nodes.host)
    duration[device] = roofline_native(nodes.num_ops[device], moved[device], peak, memory.bandwidth, memory.latency)
    return duration


def _refuse(nodes: ComputeNodes, unknown: npt.NDArray[np.bool_]) -> None:
    for node in np.flatnonzero(unknown)[:1].tolist():
        raise nodes.refusal(node, "no num_ops, which the roofline needs", "num_ops, or compute.model: replay")


def roofline_astra_sim(flops: npt.ArrayLike, size: npt.ArrayLike, peak: float, bandwidth: float) -> I64:
    """Roofline durations by ASTRA-sim's arithmetic, ps [nodes]: flop/s and seconds in its order, truncated to whole ns.

    It has no duration for a node without bytes (it skips it) or without flops (0 / 0): both take 0 here.
    """
    work, moved = np.asarray(flops, np.float64), np.asarray(size, np.float64)
    tera = number_in(float(peak), FlopRate, "TFLOP/s")
    top = np.float64(peak * 1e9 if tera is None else tera * 1e12)
    rate = np.float64(bandwidth) * np.float64(1e9)
    runs = (work > 0) & (moved > 0)
    safe_work, safe_moved = np.where(runs, work, 1.0), np.where(runs, moved, 1.0)
    per_second = np.minimum(rate * (safe_work / safe_moved), top)
    return np.where(runs, truncated_ns(safe_work / per_second * 1e9), 0)
