"""Products of experts: one weight matrix for each group of rows, all groups in one kernel.

Rows of the tables time both products of an expert layer (up and gate, then down) and the activation between them; the
base is the sum of both rooflines. A kernel that is one product takes its own roofline and the efficiency of the pair.
"""

from __future__ import annotations

import numpy as np

from astrarium.compute.kernels.machine import BYTES, WEIGHT_BYTES, Machine
from astrarium.compute.kernels.table import F64, Described, log2

__all__ = ["COLUMNS", "describe"]

COLUMNS = ("groups", "m", "n", "k", "second", "share", "skew")
"""`m`: rows of all groups; `second`: columns of the second product's operand, 0 where there is none; `share`: devices
over which the experts are spread; `skew`: exponent of the power law of rows over groups, 0 where they are equal."""


def describe(shape: F64, precision: str, machine: Machine, option: F64) -> Described:
    """Base time and features, f64 [7, n] in the order of COLUMNS."""
    groups, m, n, k, second, share, skew = shape
    size, weight = BYTES[precision], WEIGHT_BYTES[precision]
    busy = groups * -np.expm1(-m / groups)

    def roof(columns: F64, inner: F64) -> tuple[F64, F64]:
        moved = size * m * inner + weight * busy * columns * inner + 2.0 * m * columns
        return 2 * m * columns * inner / machine.peak(precision), moved / machine.bandwidth

    (compute, access), (compute_2, access_2) = roof(n, k), roof(k * (second > 0), second)
    base = np.maximum(compute, access) + np.maximum(compute_2, access_2) + machine.launch
    first = np.maximum(compute, access)
    waves = busy * np.ceil(np.maximum(m / busy, 1.0) / 128) * np.ceil(n / 128) / machine.units
    features = (log2(groups), log2(m), log2(m / groups), log2(n), log2(k), log2(n / k), log2(compute / access),
                log2(first), log2(waves), log2(share), skew, option, log2(m * share), log2(busy))
    return Described(base, features)
