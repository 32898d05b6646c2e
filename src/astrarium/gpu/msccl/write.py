"""Built-in kernels as MSCCL programs.

A workgroup is a channel: chunk c of the kernel is chunks c * workgroups + channel. A thread block of MSCCL has one peer
to send to and one to receive from. So a workgroup of `ring` is one thread block; one of `all_pairs` or `one_shot` is a
thread block per distance, and sums, of two operands each, wait for the ones before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from astrarium.errors import UnsupportedError
from astrarium.gpu.kernels.build import write_kernel
from astrarium.gpu.kernels.settings import Kernels
from astrarium.gpu.msccl.xml import COLLS, Algo, Block, Gpu, Step
from astrarium.vocab import CommOp

__all__ = ["kernel_algo"]

Spot = tuple[str, int]
Wait = tuple[int, int]


def kernel_algo(op: CommOp, gpus: int, kernels: Kernels | None = None, *, path: str = "kernels") -> Algo:
    """The program of a built-in kernel on `gpus` GPUs. Raises InputError and UnsupportedError at `path` for a kernel
    that does not exist, or that a program cannot express: MSCCL only sends."""
    kernels = Kernels() if kernels is None else kernels
    write_kernel(op, gpus, 1, kernels, path=path)
    if kernels.direction != "put" or kernels.algorithm not in _BUILDERS or kernels.protocol not in _PROTOCOLS:
        raise UnsupportedError(path, f"{kernels.name} in an MSCCL program", expected="put, with simple or ll, of "
                               + ", ".join(_BUILDERS))
    made = [_Rank(rank, gpus, kernels.workgroups, op, kernels.algorithm) for rank in range(gpus)]
    for each in made:
        for channel in range(kernels.workgroups):
            _BUILDERS[kernels.algorithm](each, channel)
    words = {found: word for word, found in reversed(COLLS.items())}
    whole = kernels.workgroups * (1 if kernels.algorithm == "one_shot" else gpus)
    inputs = kernels.workgroups if op == CommOp.ALL_GATHER else whole
    outputs = kernels.workgroups if op == CommOp.REDUCE_SCATTER else whole
    return Algo(kernels.name, words[op], whole, False,
                tuple(Gpu(each.rank, {"i": inputs, "o": outputs, "s": 0}, tuple(each.blocks)) for each in made),
                _PROTOCOLS[kernels.protocol])


class _Rank:
    """A GPU's thread blocks while they are written."""

    def __init__(self, rank: int, n: int, channels: int, op: CommOp, algorithm: str):
        self.rank, self.n, self.channels, self.op = rank, n, channels, op
        self.whole = algorithm == "one_shot"
        self.blocks: list[Block] = []

    def input(self, distance: int, channel: int) -> Spot:
        """The chunk of the input for the GPU at a distance."""
        alone = self.whole or self.op == CommOp.ALL_GATHER
        return "i", (0 if alone else (self.rank + distance) % self.n) * self.channels + channel

    def output(self, distance: int, channel: int) -> Spot:
        """The chunk of the output of, or from, the GPU at a distance."""
        alone = self.whole or self.op == CommOp.REDUCE_SCATTER
        return "o", (0 if alone else (self.rank + distance) % self.n) * self.channels + channel

    def block(self, to: int, source: int, channel: int, steps: list[Step]) -> None:
        """A thread block that sends to one distance and receives from another; 0: from no rank."""
        send, recv = ((self.rank + way) % self.n if way else -1 for way in (to, source))
        self.blocks.append(Block(len(self.blocks), send, recv, channel, tuple(steps), 0))


def _step(kind: str, source: Spot, target: Spot, wait: Wait | None = None) -> Step:
    return Step(kind, source, target, 1, wait, 0)


def _ring(r: _Rank, channel: int) -> None:
    """Sums of n - 1 steps, the last of which is complete, then what is complete goes round."""
    n, here = r.n, r.output(0, channel)
    steps: list[Step] = []
    if r.op == CommOp.ALL_GATHER:
        own = r.input(0, channel)
        steps += [_step("cpy", own, here), _step("s", own, here)]
    else:
        kinds = ["s", *["rrs"] * (n - 2), "rrc" if r.op == CommOp.REDUCE_SCATTER else "rrcs"]
        steps += [_step(kind, r.input(-1 - s, channel), here) for s, kind in enumerate(kinds)]
    if r.op != CommOp.REDUCE_SCATTER:
        places = [r.output(-s, channel) for s in range(1, n)]
        steps += [_step("rcs" if place != places[-1] else "r", place, place) for place in places]
    r.block(1, -1, channel, steps)


def _all_pairs(r: _Rank, channel: int) -> None:
    """A thread block per distance d: sends to d, receives from -d."""
    first, n, sums = len(r.blocks), r.n, r.op in (CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER)
    here = r.output(0, channel)
    for d in range(1, n):
        steps = [_step("s", r.input(d, channel), r.output(0, channel))]
        if sums:
            before = r.input(0, channel) if d == 1 else here
            steps.append(_step("rrc", before, here, None if d == 1 else (first + d - 2, 1)))
        if r.op == CommOp.ALL_REDUCE and not r.whole:
            steps.append(_step("s", here, here, None if d == n - 1 else (first + n - 2, 1)))
        if not sums or (r.op == CommOp.ALL_REDUCE and not r.whole):
            there = r.output(-d, channel)
            steps.append(_step("r", there, there))
        r.block(d, -d, channel, steps)
    if not sums:
        r.block(0, 0, channel, [_step("cpy", r.input(0, channel), here)])


_BUILDERS: Mapping[str, Callable[[_Rank, int], None]] = {"ring": _ring, "all_pairs": _all_pairs, "one_shot": _all_pairs}
_PROTOCOLS = {"simple": "Simple", "ll": "LL"}
