"""The cast of the activation in the tables' rows of products of 8 and 4 bits, which time a linear layer.

    python tools/kernel_casts.py [DEVICE ...]

prints how much of its own kernels of a cast each table contains, and in multiples of the one that casts.

A product and its mirror image (m and n swapped) take equal times; the casts of their activations, m x k and n x k, do
not. So the difference of two such rows is one of casts, and its median over that of the measured casts says how much of
these a row contains. TensorRT-LLM's fp8 has two kernels (`computescale_perf` finds the scale of all,
`scale_matrix_perf` casts), the others one.
"""

from __future__ import annotations

import sys

import numpy as np

from astrarium.arrays import F64
from astrarium.compute.kernels.rows import Rows, casts, devices, read, streams
from astrarium.compute.kernels.table import Curve, along

NARROW = ("fp8", "fp8_block", "fp4")
LEAST = 5000.0      # ns by which the casts of mirror images must differ
NOISE = 0.03        # of a row's time
ENOUGH = 50         # such pairs


def curve(elements: F64, ns: F64) -> Curve:
    """Rising (elements, ns): the median of each octave."""
    octave = np.rint(np.log2(elements))
    points = [(2.0**each, float(np.median(ns[octave == each] / elements[octave == each])) * 2.0**each)
              for each in np.unique(octave)]
    rising = np.maximum.accumulate([ns for _, ns in points])
    return tuple((size, round(float(time), 1)) for (size, _), time in zip(points, rising))


def measured(device: str, name: str) -> Curve:
    """The cast's own rows on a device; where there are none, those of H100's streams."""
    elements, ns = casts(device, name, "trtllm")
    if not len(ns):
        size, ns = streams("h100_sxm")
        elements = size / 3.0
    return curve(elements, ns)


def summed(one: Curve, other: Curve) -> Curve:
    """Two kernels, one after the other."""
    return tuple((size, first + second) for (size, first), (_, second) in zip(one, other, strict=True))


def contained(rows: Rows, cast: Curve) -> tuple[float, int]:
    """(how many times a variant's rows contain a cast, pairs of mirror images that say so)."""
    _, m, n, k = rows.shape
    at = dict(zip(zip(m.tolist(), n.tolist(), k.tolist()), rows.ns.tolist()))
    pairs = np.array([(m * k, n * k, ns, at[n, m, k]) for (m, n, k), ns in at.items() if m > n and (n, m, k) in at])
    if not len(pairs):
        return 0.0, 0
    large, small, ns, mirror = pairs.T
    apart = along(cast, large) - along(cast, small)
    wide = apart > LEAST
    found, weight = ((ns - mirror) / np.where(wide, apart, 1.0))[wide], (apart / (NOISE * np.maximum(ns, mirror)))[wide]
    order = np.argsort(found)
    middle = np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2)
    return (float(found[order][middle]) if len(found) else 0.0), len(found)


def kernels_of(device: str, precision: str, variant: str) -> Curve:
    """The kernels of a variant's cast, by their own rows."""
    one = measured(device, "scale_matrix_perf")
    both = precision == "fp8" and variant.startswith("trtllm")
    return summed(measured(device, "computescale_perf"), one) if both else one


def casts_of(rows: Rows, device: str) -> dict[str, Curve]:
    """Variant -> cast in its rows, which are all of one precision."""
    precision = str(rows.precision[0])
    if precision not in NARROW:
        return {}
    found = {}
    for variant in np.unique(rows.variant).tolist():
        cast = kernels_of(device, precision, variant)
        times, pairs = contained(rows.where(rows.variant == variant), cast)
        if pairs >= ENOUGH:
            found[variant] = tuple((size, round(ns * times, 1)) for size, ns in cast)
    return found


def main() -> None:
    for device in sys.argv[1:] or devices():
        rows, one = read(device, "gemm"), measured(device, "scale_matrix_perf")
        for precision in NARROW:
            for variant, cast in (casts_of(some, device) if len((some := rows.where(rows.precision == precision)).ns)
                                  else {}).items():
                own = kernels_of(device, precision, variant)
                print(f"{device:20} {precision:10} {variant:20} {cast[-1][1] / own[-1][1]:.2f} of its kernels, "
                      f"{cast[-1][1] / one[-1][1]:.2f} scale_matrix")


if __name__ == "__main__":
    main()
