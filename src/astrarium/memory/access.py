"""Memory access time = latency + size / bandwidth, per tier (the formula of the ASTRA-sim tutorial's memory model)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from astrarium.arrays import F64
from astrarium.engine import plan
from astrarium.errors import UnsupportedError
from astrarium.memory.config import Memory, Remote, Tier
from astrarium.memory.pool import is_switched
from astrarium.units import Bandwidth

__all__ = ["access_ns", "behind", "plan_remote"]


_KINDS = {"none": plan.RemoteKind.NONE, "per_npu": plan.RemoteKind.PER_NPU, "per_node": plan.RemoteKind.PER_NODE,
          "pool": plan.RemoteKind.POOL}


@np.errstate(over="ignore")      # what is too long is refused where it becomes ps
def access_ns(size: npt.ArrayLike, level: Memory | Tier | Remote) -> F64:
    """Time in ns to move `size` bytes (any shape) to or from one level, alone; without a bandwidth, its latency. Of a
    tier that NPUs share one NPU has its part of the rate."""
    moved = np.asarray(size, np.float64)
    rate = level.rate if isinstance(level, Tier) else level.bandwidth
    if rate is None:
        return np.full(moved.shape, float(level.latency))
    return np.asarray(float(level.latency) + moved / float(rate))


def behind(memory: Memory) -> Remote:
    """What a trace's memory nodes reach: remote memory, else the only tier behind the local memory, each NPU its own.

    Where there is no remote memory and not exactly one tier: kind "none" (nodes do not say which tier they mean).
    """
    if memory.remote.kind != "none" or len(memory.tiers) != 1:
        return memory.remote
    tier = memory.tiers[0]
    rate = tier.bandwidth if tier.rate == float(tier.bandwidth) else Bandwidth.of(tier.rate)
    return Remote("per_npu", bandwidth=rate, latency=tier.latency)


def plan_remote(remote: Remote) -> plan.Remote:
    """Remote memory as the engine takes it; NONE where a plug-in takes its place, or the lowering has its times."""
    if not float(remote.latency).is_integer():
        raise UnsupportedError("memory.remote.latency", f"{remote.latency} is not whole ns", expected="whole ns")
    bandwidth = 1.0 if remote.bandwidth is None else float(remote.bandwidth)
    kind = plan.RemoteKind.NONE if is_switched(remote) else _KINDS.get(remote.kind, plan.RemoteKind.NONE)
    return plan.Remote(kind, int(remote.latency), bandwidth, remote.npus_per_node or 1)
