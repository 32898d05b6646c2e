"""COMET's hybrid memory (Kadiyala et al., arXiv 2211.16648): one bandwidth for data spread over several memories.

A pass over M_i bytes in each memory takes sum(M_i / BW_i) where one access follows the other, so all of it moves at
M_total / sum(M_i / BW_i): the mean of the bandwidths, harmonic, weighted by bytes. What is known of the paper's body is
an abstract; the equation is recalled, not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, isfinite

from astrarium import InputError

__all__ = ["hybrid_bandwidth"]


def hybrid_bandwidth(sizes: Sequence[float], bandwidths: Sequence[float]) -> float:
    """Bandwidth, byte/ns, of data of which `sizes[i]` bytes lie in a memory of `bandwidths[i]` byte/ns.

    Args:
        sizes: Bytes in each memory, 0 or more, not all 0.
        bandwidths: Bandwidth of each memory, above 0; that of a memory without bytes does not count.

    Raises:
        InputError: where the lengths differ, no memory holds a byte, or a number is negative or not finite.
    """
    if len(sizes) != len(bandwidths):
        raise InputError("bandwidths", f"{len(bandwidths)} for {len(sizes)} sizes", expected="one for every size")
    for number, size in enumerate(sizes):
        if not (isfinite(size) and size >= 0):
            raise InputError(f"sizes[{number}]", f"{size:g}", expected="bytes, 0 or more")
    for number, bandwidth in enumerate(bandwidths):
        if not (isfinite(bandwidth) and bandwidth > 0):
            raise InputError(f"bandwidths[{number}]", f"{bandwidth:g}", expected="a bandwidth above 0 byte/ns")
    total = fsum(sizes)
    if total == 0:
        raise InputError("sizes", "hold no byte in any memory", expected="at least one size above 0")
    return total / fsum(size / bandwidth for size, bandwidth in zip(sizes, bandwidths, strict=True))
