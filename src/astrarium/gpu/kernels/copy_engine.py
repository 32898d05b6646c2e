"""Kernels of copy engines: all GPUs meet, engines push chunks to their peers' memory, all meet again; no compute unit.

So do NCCL's copy-engine collectives (https://github.com/NVIDIA/nccl, src/ce_coll.cc, commit 5067397c, ncclCeAllGather:
all ranks are ready, one copy per rank, all are complete).
"""

from __future__ import annotations

from astrarium.gpu.kernels.writer import KernelAlgorithm, Writer
from astrarium.vocab import CommOp

__all__ = ["COPY_ENGINE", "all_gather", "all_to_all"]


def all_gather(w: Writer) -> None:
    """Everyone's chunk goes to everyone."""
    _push(w, w.buffer("input", 1), w.buffer("output", w.shape.gpus), spread=False)


def all_to_all(w: Writer) -> None:
    """The chunk at position d goes to the GPU at distance d."""
    _push(w, w.buffer("input", w.shape.gpus), w.buffer("output", w.shape.gpus), spread=True)


def _push(w: Writer, source: int, target: int, *, spread: bool) -> None:
    for piece in w.pieces():
        w.begin(piece)
        w.meet("ready")
        w.copies([(w.at(source, d if spread else 0), w.at(target, -d, d)) for d in range(1, w.shape.gpus)])
        w.copy(w.at(source, 0), w.at(target, 0))
        w.meet("copied", fence=True)
        w.end()


COPY_ENGINE = KernelAlgorithm({CommOp.ALL_GATHER: all_gather, CommOp.ALL_TO_ALL: all_to_all}, get=False, flags=False,
                              engines=True)
