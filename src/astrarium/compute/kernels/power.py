"""What a power limit leaves of a data sheet's peak.

Large products run at the power limit of a device, not at the clock of its data sheet, and what a joule buys depends on
how operands reach the matrix units: from registers, by each warp (`mma`: Ampere, Ada, consumer Blackwell); from shared
memory, by four warps (`wgmma`: Hopper); from shared memory into tensor memory (`tcgen05`: Blackwell of data centres)
(NVIDIA, PTX ISA, sections on matrix instructions). Flops per joule of the devices differ by 9 % at most from their
instruction's mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from astrarium.errors import InputError, nearest

__all__ = ["PER_JOULE", "TYPICAL", "sustained"]

PER_JOULE: Mapping[str, float] = MappingProxyType({"mma": 0.622, "wgmma": 1.088, "tcgen05": 1.376})
"""Instruction -> 1e12 bf16 flops a joule: of the devices that have it the geometric mean of (median rate of products
that take more than 200 us at the peak) / (power limit). `tools/fit_kernels.py generic` prints them."""

TYPICAL = 0.71
"""What is left of the peak where nothing is known of power: the geometric mean of those devices."""


def sustained(peak: float, watts: float, matrix: str, per_joule: Mapping[str, float] = PER_JOULE) -> float:
    """The part of a bf16 peak (flop/ns) that a power limit leaves, at most 1: that of all precisions.
    Raises InputError for an unknown instruction."""
    if matrix not in per_joule:
        raise InputError("compute.matrix", f"{matrix[:60]!r} is not known", expected="one of " + ", ".join(per_joule),
                         did_you_mean=nearest(matrix, per_joule))
    return min(1.0, watts * per_joule[matrix] * 1e3 / peak)
