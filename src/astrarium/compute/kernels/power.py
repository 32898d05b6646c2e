"""What power leaves of a chip: of a data sheet's peak in short runs, and of its highest clock in long ones.

Large products run at the power limit of a device, not at the clock of its data sheet, and what a joule buys depends on
how operands reach the matrix units: from registers, by each warp (`mma`: Ampere, Ada, consumer Blackwell); from shared
memory, by four warps (`wgmma`: Hopper); from shared memory into tensor memory (`tcgen05`: Blackwell of data centres)
(NVIDIA, PTX ISA, sections on matrix instructions). Flops per joule of the devices differ by 9 % at most from their
instruction's mean.

Rows of kernels are of short runs (milliseconds), in which a chip may draw more than its limit; in a long run its mean
power keeps to the limit. With c the clock as a share of the highest one, and voltage in proportion to the clock,

    P(c) = idle + (byte x bytes + flop x flops x c^2 + active x units x c^3 x busy) / span

for kernels that take `busy` and runs that last `span`; c is the highest at which P keeps to the limit. Leakage is in
`idle`; memory has its own voltage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.errors import InputError, nearest

__all__ = ["CHIPS", "PER_JOULE", "TYPICAL", "Chip", "Clocked", "Load", "Mix", "chip_of", "clocked", "effective",
           "sustained"]

PER_JOULE: Mapping[str, float] = MappingProxyType({"mma": 0.622, "wgmma": 1.088, "tcgen05": 1.376})
"""Instruction -> 1e12 bf16 flops a joule: of the devices that have it the geometric mean of (median rate of products
that take more than 200 us at the peak) / (power limit), in short runs. `tools/fit_kernels.py generic` prints them. In a
long run it is 0.95 on H100 (GH100 below)."""

TYPICAL = 0.71
"""What is left of the peak where nothing is known of power: the geometric mean of those devices."""

STEPS = 40      # bisections of a clock
NEWTON = 4      # steps from the highest clock
LOWEST = 0.2    # of the highest clock
FOLLOWS = 0.5
"""Share of a product's time in a short run that goes with 1 / clock: products at 0.697 to 0.712 of H100's highest clock
take 1.197 to 1.213 times as long as in a short run (of which the first milliseconds are not at the highest clock)."""


class Chip(Struct, frozen=True):
    """What a chip draws. `limit`, W; its `highest` clock, cycle/ns. At that clock: `flop`, nJ of a bf16 flop of a
    product (other formats: in proportion to 1 / peak), and `active`, W of a busy unit beside. At any: `idle`, W, and
    `byte`, nJ of a byte of memory."""

    limit: float
    highest: float
    idle: float
    flop: float
    active: float
    byte: float


GH100 = Chip(limit=700.0, highest=1.98, idle=80.0, flop=1.795e-3, active=0.303, byte=0.0314)
"""Of one H100 SXM: `flop` and `active` by the clocks of seven sustained products (`benchmarks/pytorch_steps.py`);
`limit`, `idle`: catalog/devices.toml; `byte`: 3.92 pJ/bit of HBM2 (M. O'Connor et al., "Fine-Grained DRAM", MICRO
2017)."""

CHIPS: Mapping[str, Chip] = MappingProxyType({"h100_sxm": GH100, "h200_sxm": GH100})
"""Devices with measured kernels -> their chip. H200's is H100's (NVIDIA H200 data sheet: equal peaks, equal limit)."""


class Load(Struct, frozen=True):
    """Kernels of a run: `flops` of products, in bf16 ones; `bytes` of memory; `busy`, effective clock -> ns of all
    kernels; `least`: ns that the run lasts at least (a host's time)."""

    flops: float
    bytes: float
    busy: Callable[[float], float]
    least: float = 0.0


class Mix(Struct, frozen=True, eq=False):
    """What many sets of kernels load a chip of `units` under a `limit` (W) with, [4, sets]: flops and bytes (see Load);
    ns at the highest clock; and ns that each unit of 1 / share - 1 adds. Sums of columns are those of unions."""

    chip: Chip
    units: int
    limit: float
    sets: F64

    def highest(self) -> tuple[F64, F64]:
        """(share, room) [sets]: the clock of each as a share of the highest one, from above; and how it rises at most
        with `other` ns of other kernels: to share x (1 + other / (room - other)).

        With T(c) = a + b / c, the clock solves  g(c) = c (drawn(c) - (limit - idle) T(c)) = 0,  a polynomial that is
        convex where c > 0 and g(0) <= 0. So Newton's steps from c = 1 stay above the root. Other kernels take at least
        (limit - idle) other c from g, since they draw no less than nothing; a tangent of what is left lies below it,
        and its zero above the root.
        """
        chip, left = self.chip, self.limit - self.chip.idle
        flops, size, busy, more = self.sets
        active, steady = chip.active * self.units, busy - more
        fourth, third = active * steady, chip.flop * flops + active * more
        first, constant = chip.byte * size - left * steady, left * more
        share = np.ones(busy.shape)
        for _ in range(NEWTON):
            above = np.maximum(0.0, fourth * share**4 + third * share**3 + first * share - constant)
            slope = 4 * fourth * share**3 + 3 * third * share**2 + first
            share = share - above / np.where(above > 0, slope, 1.0)
        slope = 4 * fourth * share**3 + 3 * third * share**2 + first
        return np.maximum(share, LOWEST), slope / left


class Clocked(Struct, frozen=True):
    """A chip in a long run: its mean `clock` (cycle/ns), as a `share` of the highest, and mean `watts` of kernels."""

    clock: float
    share: float
    watts: float


def chip_of(device: str) -> Chip:
    """The chip of a device. Raises InputError for one whose power was not measured."""
    if device not in CHIPS:
        raise InputError("compute.clock", f"no sustained clocks of {device} were measured", expected="a number, or one "
                         "of " + ", ".join(CHIPS), did_you_mean=nearest(device, CHIPS))
    return CHIPS[device]


def effective(share: float) -> float:
    """The clock as a share of that of short runs, as products bound by arithmetic see it: they take 1 / it."""
    return 1 / (1 + FOLLOWS * (1 / share - 1))


def clocked(chip: Chip, units: int, limit: float, load: Load) -> Clocked:
    """The highest clock at which the mean power of a load keeps to a limit (W). Raises InputError where a fifth of the
    highest does not."""
    def watts(share: float, least: float) -> float:
        busy = load.busy(effective(share))
        drawn = load.bytes * chip.byte + load.flops * chip.flop * share**2 + busy * chip.active * units * share**3
        return chip.idle + drawn / max(busy, least, 1.0)

    low, high = LOWEST, 1.0
    if watts(high, load.least) <= limit:
        low = high
    elif (least := watts(low, load.least)) > limit:
        raise InputError("compute.power", f"{limit:g} W cannot be kept: the lowest clock draws {least:.0f} W",
                         expected=f"at least {least:.0f} W")
    for _ in range(STEPS if low < high else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if watts(middle, load.least) <= limit else (low, middle)
    return Clocked(low * chip.highest, low, watts(low, 0.0))


def sustained(peak: float, watts: float, matrix: str, per_joule: Mapping[str, float] = PER_JOULE) -> float:
    """The part of a bf16 peak (flop/ns) that a power limit leaves in short runs, at most 1: that of all precisions.
    Raises InputError for an unknown instruction."""
    if matrix not in per_joule:
        raise InputError("compute.matrix", f"{matrix[:60]!r} is not known", expected="one of " + ", ".join(per_joule),
                         did_you_mean=nearest(matrix, per_joule))
    return min(1.0, watts * per_joule[matrix] * 1e3 / peak)
