"""Kernels that pass chunks round a ring, each GPU to the one at distance 1 (put, Simple or LL).

The sum of chunk c begins at GPU c + 1 and ends at c, so at step s a GPU deals with the chunk at position -1 - s.
"""

from __future__ import annotations

from astrarium.gpu.engine import Place
from astrarium.gpu.kernels.writer import KernelAlgorithm, Sync, Writer
from astrarium.vocab import CommOp

__all__ = ["RING", "all_gather", "all_reduce", "reduce_scatter"]


def all_gather(w: Writer) -> None:
    """Everyone passes on what it got last; n - 1 steps."""
    source, target = w.buffer("input", 1), w.buffer("output", w.shape.gpus)
    lines = _lines(w, "gathered", target)
    for piece in w.pieces():
        w.begin(piece)
        w.copy(w.at(source, 0), w.at(target, 0), w.at(lines, -1, 1))
        _pass_on(w, lines, target)
        w.end()


def reduce_scatter(w: Writer) -> None:
    """Everyone adds its part to what it got last and passes the sum on; n - 1 steps."""
    source, target = w.buffer("input", w.shape.gpus), w.buffer("output", 1)
    scratch = w.buffer("sums", w.shape.gpus, flags=w.shape.flags)
    for piece in w.pieces():
        w.begin(piece)
        _sum_up(w, source, scratch, [w.at(target, 0)])
        w.end()


def all_reduce(w: Writer) -> None:
    """reduce_scatter, then all_gather; 2 (n - 1) steps."""
    source, target = w.buffer("input", w.shape.gpus), w.buffer("output", w.shape.gpus)
    scratch, lines = w.buffer("sums", w.shape.gpus, flags=w.shape.flags), _lines(w, "gathered", target)
    for piece in w.pieces():
        w.begin(piece)
        _sum_up(w, source, scratch, [w.at(target, 0), w.at(lines, -1, 1)])
        _pass_on(w, lines, target)
        w.end()


def _lines(w: Writer, name: str, target: int) -> int:
    """Where chunks that are passed on arrive: with LL lines with flags, else their place in the output."""
    return w.buffer(name, w.shape.gpus, flags=w.shape.flags) if w.shape.flags else target


def _sum_up(w: Writer, source: int, scratch: int, last: list[Place]) -> None:
    """The sums of `n - 1` steps; the last one goes to `last`. Step s writes to position s of the next GPU."""
    n, before = w.shape.gpus, None
    for s in range(n):
        targets = last if s == n - 1 else [w.at(scratch, s, 1)]
        own = w.at(source, -1 - s)
        before = _step(w, f"sum {s}", before, [own] if s == 0 else [w.at(scratch, s - 1), own], targets, s < n - 1)


def _pass_on(w: Writer, lines: int, target: int) -> None:
    """Chunks from the GPU before, of which the own one is on its way to the next: n - 1 arrive, n - 2 go on."""
    n = w.shape.gpus
    before = _sent(w, "gathered 0") if n > 1 else None
    for s in range(1, n):
        ends = s == n - 1
        targets = [] if ends else [w.at(lines, -s - 1, 1)]
        targets += [w.at(target, -s)] if w.shape.flags else []
        before = _step(w, f"gathered {s}", before, [w.at(lines, -s)], targets, not ends)


def _step(w: Writer, name: str, before: Sync | None, sources: list[Place], targets: list[Place],
          sends: bool) -> Sync | None:
    """Wait for what comes, work on it, and tell the next GPU if something was sent."""
    if before is not None:
        w.acquire(before)
    if targets:
        w.pause()
        w.reduce(sources, *targets)
    return _sent(w, name) if sends else None


def _sent(w: Writer, name: str) -> Sync | None:
    """Tell the next GPU that what was stored there is complete; lines with flags say so themselves."""
    if w.shape.flags:
        return None
    sync = w.semaphore(name, 1)
    w.release(sync, [1])
    return sync


RING = KernelAlgorithm({CommOp.ALL_REDUCE: all_reduce, CommOp.ALL_GATHER: all_gather,
                        CommOp.REDUCE_SCATTER: reduce_scatter}, get=False)
