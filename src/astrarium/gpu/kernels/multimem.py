"""Kernels in which the switch adds and copies (NVLS: multimem.ld_reduce and multimem.st).

Everyone loads its own chunk from all GPUs at once, which the switch answers with the sum, and stores to all at once.
"""

from __future__ import annotations

from astrarium.gpu.kernels.writer import KernelAlgorithm, Writer
from astrarium.vocab import CommOp

__all__ = ["NVLS", "all_gather", "all_reduce", "reduce_scatter"]


def all_reduce(w: Writer) -> None:
    """Everyone stores its sum to all."""
    source, target = w.buffer("input", w.shape.gpus), w.buffer("output", w.shape.gpus)
    for piece in w.pieces():
        w.begin(piece)
        w.meet("ready")
        w.copy(w.all(source), w.all(target))
        w.meet("stored", fence=True)
        w.end()


def reduce_scatter(w: Writer) -> None:
    """Everyone keeps its sum; inputs are read until all have met."""
    source, target = w.buffer("input", w.shape.gpus), w.buffer("output", 1)
    for piece in w.pieces():
        w.begin(piece)
        w.meet("ready")
        w.copy(w.all(source), w.at(target, 0))
        w.meet("read")
        w.end()


def all_gather(w: Writer) -> None:
    """Everyone stores its chunk to all."""
    source, target = w.buffer("input", 1), w.buffer("output", w.shape.gpus)
    for piece in w.pieces():
        w.begin(piece)
        w.copy(w.at(source, 0), w.all(target))
        w.meet("stored", fence=True)
        w.end()


NVLS = KernelAlgorithm({CommOp.ALL_REDUCE: all_reduce, CommOp.ALL_GATHER: all_gather,
                        CommOp.REDUCE_SCATTER: reduce_scatter}, get=False, flags=False)
