"""Products of experts: one weight matrix for each group of rows, all groups in one kernel.

Rows of the tables time both products of an expert layer (up and gate, then down) and the activation between them; the
base is the sum of both rooflines. A kernel that is one product takes its own roofline and the efficiency of the pair.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TypeAlias

import numpy as np

from astrarium.arrays import F64
from astrarium.compute.kernels.machine import BYTES, WEIGHT_BYTES, Machine
from astrarium.compute.kernels.table import Described, log2

__all__ = ["COLUMNS", "at_random", "describe"]

Roof: TypeAlias = tuple[F64, F64]
COLUMNS = ("groups", "m", "n", "k", "second", "share", "skew")
"""`m`: rows of all groups; `second`: columns of the second product's operand, 0 where there is none; `share`: devices
over which the experts are spread; `skew`: exponent of the power law of rows over groups, 0 where they are equal."""


def describe(shape: F64, precision: str, machine: Machine, option: F64) -> Described:
    """Base time and features, f64 [7, n] in the order of COLUMNS."""
    groups, m, n, k, _, share, skew = shape
    busy = groups * _chosen(m / groups)
    (compute, access), second = _roofs(shape, precision, machine, m, busy)
    first = np.maximum(compute, access)
    base = first + np.maximum(*second) + machine.launch
    waves = busy * np.ceil(np.maximum(m / busy, 1.0) / 128) * np.ceil(n / 128) / machine.units
    features = (log2(groups), log2(m), log2(m / groups), log2(n), log2(k), log2(n / k), log2(compute / access),
                log2(first), log2(waves), log2(share), skew, option, log2(m * share), log2(busy))
    return Described(base, features)


def at_random(shape: F64, precision: str, machine: Machine) -> F64:
    """Time of a layer whose experts are chosen at random over that of balanced rows, by rooflines, [n]; 1 with a skew.

    Rows without skew are balanced by a stride: tokens share out as many experts as there can be, each as often as the
    others. Choices at random leave some out, and where experts are on several ranks the busiest counts: the mean and,
    for experts that are independent, as many standard deviations as the largest of so many normal numbers has (Blom's
    approximation).
    """
    groups, m, _, _, _, share, skew = shape
    ranks, which = np.unique(share, return_inverse=True)
    hit = _chosen(m / groups)
    apart = np.array([NormalDist().inv_cdf((each - 0.375) / (each + 0.25)) for each in ranks])[which]
    busy = np.minimum(groups * hit + apart * np.sqrt(groups * hit * (1 - hit)), groups)
    rows = m + apart * np.sqrt(m * (1 - 1 / share))

    def time(rows: F64, busy: F64) -> F64:
        first, second = _roofs(shape, precision, machine, rows, busy)
        found: F64 = np.maximum(*first) + np.maximum(*second) + machine.launch
        return found

    return np.where(skew == 0, time(rows, busy) / time(m, np.minimum(m, groups)), 1.0)


def _chosen(rows: F64) -> F64:
    """Share of groups that have a row, at random, with `rows` a group on average."""
    found: F64 = -np.expm1(-rows)
    return found


def _roofs(shape: F64, precision: str, machine: Machine, rows: F64, busy: F64) -> tuple[Roof, Roof]:
    """(arithmetic, memory) of the first product and of the second, ns, for `rows` rows of `busy` groups."""
    _, _, n, k, second, _, _ = shape
    size, weight = BYTES[precision], WEIGHT_BYTES[precision]

    def roof(columns: F64, inner: F64) -> tuple[F64, F64]:
        moved = size * rows * inner + weight * busy * columns * inner + 2.0 * rows * columns
        return 2 * rows * columns * inner / machine.peak(precision), moved / machine.bandwidth

    return roof(n, k), roof(k * (second > 0), second)
