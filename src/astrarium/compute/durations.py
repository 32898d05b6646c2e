"""The duration functions of each rule book: one table, no other place asks which one is in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.compute.replay import replay_astra_sim, replay_native
from astrarium.compute.roofline import roofline_astra_sim, roofline_native

__all__ = ["DURATIONS", "Durations"]


class Durations(Struct, frozen=True):
    """`roofline(flops, bytes, peak, bandwidth)` -> ps; `replay(micros, missing ns)` -> (ps, which have none)."""

    roofline: Callable[..., I64]
    replay: Callable[[npt.ArrayLike, float | None], tuple[I64, npt.NDArray[np.bool_]]]


DURATIONS: Mapping[str, Durations] = MappingProxyType({
    "none": Durations(roofline_native, replay_native),
    "astra_sim": Durations(roofline_astra_sim, replay_astra_sim),
})
