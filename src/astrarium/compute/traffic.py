"""Memory traffic of matrix products behind an on-chip buffer, as COMET counts it (Kadiyala et al., arXiv 2211.16648).

A product has the operands U [m, k] and V [k, n] and the result W [m, n], in bytes. Where one of the three fits the
buffer S, each passes once: U + V + W. Else the buffer holds a part of U while all of V passes, or a part of V while all
of U passes, whichever is less: min(ceil(U/S) * V + U, ceil(V/S) * U + V) + W. (The equation is recalled, not read: the
paper's body was not available.) It is never below the least that any schedule can do, 2mnk / sqrt(S) - 2S elements
(Smith, van de Geijn et al., "A tight I/O lower bound for matrix multiplication", arXiv 1702.02017).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from astrarium.arrays import F64
from astrarium.compute.kernels.machine import BYTES

if TYPE_CHECKING:
    from astrarium.engine.plugins.compute import ComputeNodes
    from astrarium.vocab import Kernel

__all__ = ["WIDTH", "product_traffic", "repeated_bytes", "with_repeats"]


WIDTH: Mapping[str, float] = MappingProxyType({**BYTES, "fp4": 0.5})
"""Bytes of one element of an operand; without the scales of block formats, which workloads leave out as well."""


def product_traffic(left: npt.ArrayLike, right: npt.ArrayLike, result: npt.ArrayLike, buffer: float) -> F64:
    """Bytes between memory and chip of products with operands of `left` and `right` bytes and `result` bytes (any
    shape), behind a buffer of `buffer` bytes."""
    u, v, w = (np.asarray(each, np.float64) for each in (left, right, result))
    return np.asarray(u + v + w + _again(u, v, w, buffer))


def _again(u: F64, v: F64, w: F64, buffer: float) -> F64:
    """What passes more than once."""
    passes = np.minimum(np.maximum(np.ceil(u / buffer) - 1, 0) * v, np.maximum(np.ceil(v / buffer) - 1, 0) * u)
    return np.asarray(np.where(w <= buffer, 0.0, passes))


def repeated_bytes(kernels: Sequence[Kernel], buffer: float) -> F64:
    """Bytes [kernels] that the operands of products pass beyond once, over all launches; 0 for other kernels."""
    found = np.zeros(len(kernels))
    chosen = [number for number, kernel in enumerate(kernels) if kernel.kind in ("gemm", "grouped_gemm")]
    if not chosen:
        return found
    second = [number for number in chosen if len(kernels[number].shape) > 4]      # the other product of experts
    shapes = np.array([kernels[number].shape[:4] for number in chosen] + [
        (*kernels[number].shape[:2], kernels[number].shape[3], kernels[number].shape[4]) for number in second],
        np.float64)
    chosen += second
    width = np.array([WIDTH[kernels[number].precision] for number in chosen])
    batch, m, n, k = shapes.T
    grouped = np.array([kernels[number].kind == "grouped_gemm" for number in chosen])
    rows = np.where(grouped, m / batch, m)
    times = batch * [max(1, kernels[number].launches) for number in chosen]
    np.add.at(found, chosen, times * _again(rows * k * width, k * n * width, rows * n * width, buffer))
    return found


def with_repeats(nodes: ComputeNodes, buffer: float) -> F64:
    """Bytes [nodes] that nodes move behind a buffer of `buffer` bytes: their own, and what products pass again. A node
    that names no kernel moves its own."""
    moved = np.asarray(nodes.tensor_bytes, np.float64)
    if nodes.kernel is None and nodes.operators is not None:
        kernel, kernels = nodes.operators()
    elif nodes.kernel is not None:
        kernel, kernels = nodes.kernel, tuple(nodes.kernels)
    else:
        return moved
    return np.asarray(moved + np.append(repeated_bytes(kernels, buffer), 0.0)[kernel])
