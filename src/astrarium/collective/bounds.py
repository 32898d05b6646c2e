"""What each built-in algorithm may cost: the bounds that the exam holds it to.

A bound is (blocks sent, blocks received) by the busiest participant and (steps) messages in the longest chain.
Sources are the papers that the algorithms' modules name; halving_doubling's extra ceil(log2 n) is what a left-over
member adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.vocab import CommOp, Schedule

if TYPE_CHECKING:
    from astrarium.collective.exam import Proof

__all__ = ["Bound", "bound", "check_bound", "steps"]


class Bound(Struct, frozen=True):
    """Upper bounds: blocks sent and received by one participant, and messages in a chain."""

    sent: int
    received: int
    steps: int


Formula = Callable[[int, int], Bound]  # (participants, blocks)


def _log2(n: int) -> int:
    return (n - 1).bit_length()


def _extra(n: int) -> int:
    return 0 if n & (n - 1) == 0 else _log2(n)


def _ring_items(n: int) -> int:
    return n * (n - 1) // 2


def _two_way_items(n: int) -> int:
    near, far = n // 2, (n - 1) // 2
    return (near * (near + 1) + far * (far + 1)) // 2


def _halving_items(n: int) -> int:
    return n // 2 * _log2(n) if n & (n - 1) == 0 else n * _log2(n)


def _bruck_items(n: int) -> int:
    return sum(bin(distance).count("1") for distance in range(1, n))


def _two_tree_steps(n: int, blocks: int) -> int:
    """Twice the height; beyond 8 blocks per tree, late blocks on their way up wait for early ones on their way down."""
    return 2 * (n.bit_length() - 1) + max(0, blocks // 2 - 8) // 4


def _same(sent: int, steps: int) -> Bound:
    return Bound(sent, sent, steps)


_RING: dict[CommOp, Formula] = {
    CommOp.ALL_REDUCE: lambda n, b: _same(2 * (n - 1), 2 * (n - 1)),
    CommOp.ALL_TO_ALL: lambda n, b: _same(_ring_items(n), n - 1),
    CommOp.BROADCAST: lambda n, b: _same(b, n - 1), CommOp.REDUCE: lambda n, b: _same(b, n - 1),
} | dict.fromkeys((CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.GATHER, CommOp.SCATTER, CommOp.BARRIER),
                  lambda n, b: _same(n - 1, n - 1))

_RING_TWO_WAY: dict[CommOp, Formula] = {
    CommOp.ALL_REDUCE: lambda n, b: _same(4 * (n - 1), 2 * (n - 1)),
    CommOp.ALL_TO_ALL: lambda n, b: _same(_two_way_items(n), n // 2),
} | dict.fromkeys((CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER), lambda n, b: _same(2 * (n - 1), n - 1))

_DIRECT: dict[CommOp, Formula] = {
    CommOp.ALL_REDUCE: lambda n, b: _same(2 * (n - 1), 2),
    CommOp.BROADCAST: lambda n, b: Bound(n - 1, 1, 1), CommOp.SCATTER: lambda n, b: Bound(n - 1, 1, 1),
    CommOp.REDUCE: lambda n, b: Bound(1, n - 1, 1), CommOp.GATHER: lambda n, b: Bound(1, n - 1, 1),
} | dict.fromkeys((CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL, CommOp.BARRIER),
                  lambda n, b: _same(n - 1, 1))

_HALVING: dict[CommOp, Formula] = {
    CommOp.ALL_REDUCE: lambda n, b: _same(2 * (n - 1) + _extra(n), 2 * _log2(n)),
    CommOp.REDUCE_SCATTER: lambda n, b: Bound(n - 1, n - 1 + _extra(n), _log2(n)),
    CommOp.ALL_GATHER: lambda n, b: Bound(n - 1 + _extra(n), n - 1, _log2(n)),
    CommOp.BARRIER: lambda n, b: Bound(n - 1 + _extra(n), n - 1, _log2(n)),
    CommOp.ALL_TO_ALL: lambda n, b: _same(_halving_items(n), _log2(n)),
    CommOp.SCATTER: lambda n, b: Bound(n - 1, n // 2, _log2(n)),
    CommOp.GATHER: lambda n, b: Bound(n // 2, n - 1, _log2(n)),
    CommOp.BROADCAST: lambda n, b: Bound(2 * (n - 1) + _extra(n), n - 1 + n // 2, 2 * _log2(n)),
    CommOp.REDUCE: lambda n, b: Bound(n - 1 + n // 2, 2 * (n - 1) + _extra(n), 2 * _log2(n)),
}

_TWO_TREES: dict[CommOp, Formula] = {
    CommOp.ALL_REDUCE: lambda n, b: _same(2 * b, _two_tree_steps(n, b)),
    CommOp.BARRIER: lambda n, b: _same(2 * b, _two_tree_steps(n, b)),
    CommOp.BROADCAST: lambda n, b: _same(b, _log2(n + 1)),
    CommOp.REDUCE: lambda n, b: Bound(b, b + b // 2, _log2(n + 1)),
}

_BRUCK: dict[CommOp, Formula] = {
    CommOp.ALL_GATHER: lambda n, b: _same(n - 1, _log2(n)), CommOp.REDUCE_SCATTER: lambda n, b: _same(n - 1, _log2(n)),
    CommOp.BARRIER: lambda n, b: _same(n - 1, _log2(n)),
    CommOp.ALL_TO_ALL: lambda n, b: _same(_bruck_items(n), _log2(n)),
}

_BINOMIAL: dict[CommOp, Formula] = {
    CommOp.BROADCAST: lambda n, b: Bound(_log2(n), 1, _log2(n)),
    CommOp.REDUCE: lambda n, b: Bound(1, _log2(n), _log2(n)),
    CommOp.ALL_REDUCE: lambda n, b: _same(_log2(n), 2 * _log2(n)),
    CommOp.BARRIER: lambda n, b: _same(_log2(n), 2 * _log2(n)),
    CommOp.SCATTER: lambda n, b: Bound(n - 1, n - 1, _log2(n)),
    CommOp.GATHER: lambda n, b: Bound(n - 1, n - 1, _log2(n)),
}

_SHARP: dict[CommOp, Formula] = {
    CommOp.ALL_GATHER: lambda n, b: Bound(b // n, b, 2), CommOp.REDUCE_SCATTER: lambda n, b: Bound(b, b // n, 2),
} | dict.fromkeys((CommOp.ALL_REDUCE, CommOp.BROADCAST, CommOp.REDUCE, CommOp.BARRIER), lambda n, b: _same(b, 2))

_NVLS: dict[CommOp, Formula] = _SHARP | {
    CommOp.ALL_REDUCE: lambda n, b: _same(b + b // n, 2 * (1 + (b // n + 1) // 2))}

_BOUNDS: Mapping[str, Mapping[CommOp, Formula]] = MappingProxyType({
    "ring": _RING, "ring_two_way": _RING_TWO_WAY, "direct": _DIRECT, "halving_doubling": _HALVING,
    "double_binary_tree": _TWO_TREES, "bruck": _BRUCK, "binomial_tree": _BINOMIAL,
    "nvls": _NVLS, "sharp": _SHARP})


def bound(algorithm: str, op: CommOp, n: int, blocks: int) -> Bound | None:
    """The bound of a built-in algorithm (all its messages in flight at once), None where there is none."""
    formula = _BOUNDS.get(algorithm, {}).get(op)
    return formula(n, blocks) if formula else None


def steps(algorithm: str, op: CommOp, n: int) -> int:
    """Latencies that the algorithm pays one after the other, unpipelined; n - 1 where no bound is known."""
    known = bound(algorithm, op, n, 2)
    return known.steps if known else n - 1


def check_bound(schedule: Schedule, proof: Proof, limit: Bound, *, path: str = "collective") -> None:
    """InputError when a proved schedule sends, receives or waits more than `limit` allows."""
    for what, has, may in (("sends", int(proof.sent.max(initial=0)), limit.sent),
                           ("receives", int(proof.received.max(initial=0)), limit.received),
                           ("has a chain of", proof.steps, limit.steps)):
        if has > may:
            unit = "messages" if what.startswith("has") else f"blocks of {schedule.blocks}"
            raise InputError(f"{path}.{schedule.algorithm}",
                             f"{schedule.op.name.lower()} on {schedule.n} participants {what} {has} {unit}",
                             expected=f"at most {may}")
