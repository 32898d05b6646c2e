"""Kernels in which every GPU deals with every other one at once.

put, Simple: write to peers, fence, raise their semaphores, wait for one's own. put, LL: write lines that carry their
flag; who needs one waits for it. get: wait until all have begun (so their data are there), then read from peers.
Positions go by distance (`writer`): position d holds what a GPU has for the one at distance d, and what comes from
there.
"""

from __future__ import annotations

from astrarium.gpu.engine import Place
from astrarium.gpu.kernels.writer import KernelAlgorithm, Writer
from astrarium.vocab import CommOp

__all__ = ["ALL_PAIRS", "ONE_SHOT", "all_gather", "all_reduce", "all_to_all", "one_shot", "reduce_scatter"]


def all_gather(w: Writer) -> None:
    """Everyone's chunk goes to everyone."""
    source, target = w.buffer("input", 1), w.buffer("output", w.shape.gpus)
    _exchange(w, source, target, spread=False)


def all_to_all(w: Writer) -> None:
    """The chunk at position d goes to the GPU at distance d."""
    source, target = w.buffer("input", w.shape.gpus), w.buffer("output", w.shape.gpus)
    _exchange(w, source, target, spread=True)


def _exchange(w: Writer, source: int, target: int, *, spread: bool) -> None:
    n, peers = w.shape.gpus, range(1, w.shape.gpus)
    scratch = w.buffer("received", n, flags=w.shape.flags) if w.shape.flags else target
    for piece in w.pieces():
        w.begin(piece)
        if w.shape.get:
            w.meet("ready")
            w.copy(w.at(source, 0), w.at(target, 0))
            w.copies([(w.at(source, -d if spread else 0, d), w.at(target, d)) for d in peers])
        else:
            w.copies([(w.at(source, d if spread else 0), w.at(scratch, -d, d)) for d in peers])
            w.copy(w.at(source, 0), w.at(target, 0))
            if w.shape.flags:
                w.copies([(w.at(scratch, d), w.at(target, d)) for d in peers])
            else:
                w.meet("sent", fence=True)
        w.end()


def reduce_scatter(w: Writer) -> None:
    """The chunk at position d is added up on the GPU at distance d."""
    source, target = w.buffer("input", w.shape.gpus), w.buffer("output", 1)
    scratch = -1 if w.shape.get else w.buffer("received", w.shape.gpus, flags=w.shape.flags)
    for piece in w.pieces():
        w.begin(piece)
        _add(w, source, scratch, [w.at(target, 0)])
        w.end()


def _add(w: Writer, source: int, scratch: int, targets: list[Place]) -> None:
    """Bring together what all have for this GPU, and store the sum."""
    peers = range(1, w.shape.gpus)
    if w.shape.get:
        w.meet("ready")
        parts = [w.at(source, -d, d) for d in peers]
    else:
        w.copies([(w.at(source, d), w.at(scratch, -d, d)) for d in peers])
        if not w.shape.flags:
            w.meet("parts", fence=True)
        parts = [w.at(scratch, d) for d in peers]
    w.reduce([w.at(source, 0), *parts], *targets)


def all_reduce(w: Writer) -> None:
    """Two shots: the chunk at position d is added up at distance d, which sends the sum to all."""
    n, peers = w.shape.gpus, range(1, w.shape.gpus)
    source, target = w.buffer("input", n), w.buffer("output", n)
    scratch = -1 if w.shape.get else w.buffer("received", n, flags=w.shape.flags)
    sums = w.buffer("sums", n, flags=w.shape.flags) if w.shape.flags else target
    for piece in w.pieces():
        w.begin(piece)
        _add(w, source, scratch, [w.at(target, 0), *(w.at(sums, -d, d) for d in peers)])
        if w.shape.flags:
            w.copies([(w.at(sums, d), w.at(target, d)) for d in peers])
        else:
            w.meet("sums", fence=True)
        w.end()


def one_shot(w: Writer) -> None:
    """all_reduce in one shot: everyone gets everything and adds it up. The payload is one chunk."""
    n, peers = w.shape.gpus, range(1, w.shape.gpus)
    source, target = w.buffer("input", 1), w.buffer("output", 1)
    scratch = -1 if w.shape.get else w.buffer("received", n, flags=w.shape.flags)
    for piece in w.pieces():
        w.begin(piece)
        if w.shape.get:
            w.meet("ready")
            parts = [w.at(source, 0, d) for d in peers]
        else:
            w.copies([(w.at(source, 0), w.at(scratch, -d, d)) for d in peers])
            if not w.shape.flags:
                w.meet("parts", fence=True)
            parts = [w.at(scratch, d) for d in peers]
        w.reduce([w.at(source, 0), *parts], w.at(target, 0))
        w.end()


ALL_PAIRS = KernelAlgorithm({CommOp.ALL_REDUCE: all_reduce, CommOp.ALL_GATHER: all_gather,
                             CommOp.REDUCE_SCATTER: reduce_scatter, CommOp.ALL_TO_ALL: all_to_all})
ONE_SHOT = KernelAlgorithm({CommOp.ALL_REDUCE: one_shot}, whole=True)
