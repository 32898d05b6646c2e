"""all_reduce kernels that only read from peers: all meet, read what they need and add it up.

Inference engines' own all_reduces are of this kind. In one shot everyone reads everything; all meet again before
anybody's input changes. In two shots everyone reads and adds its own chunk, all meet, and everyone reads the sums.
There each release fences by itself, as `st.release.sys` to each peer does.
"""

from __future__ import annotations

from astrarium.gpu.kernels.writer import KernelAlgorithm, Writer
from astrarium.vocab import CommOp

__all__ = ["ONE_SHOT_READ", "TWO_SHOT_READ", "one_shot", "two_shot"]


def one_shot(w: Writer) -> None:
    """Everyone reads everything. The payload is one chunk."""
    source, target = w.buffer("input", 1), w.buffer("output", 1)
    for piece in w.pieces():
        w.begin(piece)
        w.meet("ready")
        w.reduce([w.at(source, 0, d) for d in range(w.shape.gpus)], w.at(target, 0))
        w.meet("read")
        w.end()


def two_shot(w: Writer) -> None:
    """Everyone reads its chunk of all inputs, adds, and reads the sums of all."""
    n = w.shape.gpus
    source, target, sums = w.buffer("input", n), w.buffer("output", n), w.buffer("sums", 1)
    for piece in w.pieces():
        w.begin(piece)
        w.meet("ready")
        w.reduce([w.at(source, -d, d) for d in range(n)], w.at(sums, 0))
        w.meet("sums", fence=True, each=True)
        w.copies([(w.at(sums, 0, d), w.at(target, d)) for d in range(n)])
        w.end()


ONE_SHOT_READ = KernelAlgorithm({CommOp.ALL_REDUCE: one_shot}, put=False, whole=True)
TWO_SHOT_READ = KernelAlgorithm({CommOp.ALL_REDUCE: two_shot}, put=False)
