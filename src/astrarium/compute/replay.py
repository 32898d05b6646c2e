"""Replay: the time that the trace recorded, which Chakra keeps in whole microseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from astrarium.arrays import I64
from astrarium.compute.checked import LIMIT_PS
from astrarium.errors import InputError

if TYPE_CHECKING:
    from astrarium.engine.plugins.compute import ComputeNodes

__all__ = ["replay_astra_sim", "replay_native", "replayed"]

PS_PER_US = 1_000_000


def _ps(micros: npt.ArrayLike) -> I64:
    recorded = np.asarray(micros)
    most = LIMIT_PS // PS_PER_US
    for worst in (int(recorded.max()), int(recorded.min())) if recorded.size else ():
        if not 0 <= worst <= most:
            raise InputError("duration_micros", f"{worst} us is impossible", expected=f"0 to {most} us")
    return recorded.astype(np.int64) * PS_PER_US


def replay_native(micros: npt.ArrayLike, missing: float | None = None) -> tuple[I64, npt.NDArray[np.bool_]]:
    """(durations in ps, which have none) of nodes that recorded `micros` whole microseconds, arrays [nodes].

    A recorded 0 is no duration (the format cannot tell them apart): such a node takes `missing` ns where
    that is given, and else is marked, for the caller to refuse by name.
    """
    duration = _ps(micros)
    none = duration == 0
    if missing is None:
        return duration, none
    return np.where(none, np.int64(np.rint(missing * 1000)), duration), np.zeros_like(none)


def replayed(nodes: ComputeNodes, missing: float | None, chosen: I64 | None = None) -> I64:
    """Recorded durations of nodes (of `chosen` ones, indexes), ps; nodes without one take `missing` ns. Raises the
    nodes' refusal where that is not given."""
    recorded = nodes.duration if chosen is None else nodes.duration[chosen]
    duration, none = replay_native(recorded // PS_PER_US, missing)
    if none.any():
        first = int(np.flatnonzero(none)[0])
        place = first if chosen is None else int(chosen[first])
        kernel = nodes.node(place).kernel
        if kernel is not None and kernel.kind != "host":
            raise InputError("compute", "is missing: the workload is generated, and no trace has times of its kernels",
                             expected="a device of the catalog, or a model, such as {model: roofline, peak: ...}")
        raise nodes.refusal(place, "the trace recorded no duration for it",
                            "duration_micros, or compute.missing")
    return duration


def replay_astra_sim(micros: npt.ArrayLike, missing: float | None = None) -> tuple[I64, npt.NDArray[np.bool_]]:
    """Recorded durations by ASTRA-sim's rule, ps [nodes]: a node without one takes 1 ns. `missing` is ignored."""
    del missing
    duration = _ps(micros)
    return np.where(duration == 0, np.int64(1000), duration), np.zeros(duration.shape, np.bool_)
