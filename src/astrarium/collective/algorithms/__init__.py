"""The built-in collective algorithms: one line each, loaded when first asked for.

A builder is `build(op, n, options) -> vocab.Schedule` for every n >= 1 and for every op that its line names. Rooted
operations (broadcast, reduce, gather, scatter) have their root at position 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

from msgspec import Struct

from astrarium.collective.algorithms.options import Options
from astrarium.errors import InputError, UnsupportedError, nearest
from astrarium.registry import load, names
from astrarium.vocab import CommOp, Schedule

__all__ = ["ALGORITHMS", "Algorithm", "Options", "build", "canonical_op", "has_op", "supporting"]

Builder = Callable[[CommOp, int, Options], Schedule]

_ALL = frozenset({CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL, CommOp.BROADCAST,
                  CommOp.REDUCE, CommOp.GATHER, CommOp.SCATTER, CommOp.BARRIER})
_IN_SWITCH = _ALL - {CommOp.ALL_TO_ALL, CommOp.GATHER, CommOp.SCATTER}


class Algorithm(Struct, frozen=True):
    """A registry line: where the builder is ("module:function"), one sentence, and the operations it has. `in_switch`:
    it needs switches that compute."""

    builder: str
    sentence: str
    ops: frozenset[CommOp]
    in_switch: bool = False


_HERE = "astrarium.collective.algorithms"
ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType({
    "ring": Algorithm(
        f"{_HERE}.ring:build", "Everyone talks to the next one round a ring: least traffic, n - 1 steps.", _ALL),
    "ring_two_way": Algorithm(
        f"{_HERE}.ring_two_way:build", "Two rings, half of the payload each, one per direction of the links.",
        frozenset({CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL})),
    "direct": Algorithm(
        f"{_HERE}.direct:build", "Everyone talks to everyone else at once: one step (two for all_reduce).", _ALL),
    "halving_doubling": Algorithm(
        f"{_HERE}.halving_doubling:build",
        "Partners at doubling distance exchange halving shares: least traffic in ceil(log2 n) steps.", _ALL),
    "double_binary_tree": Algorithm(
        f"{_HERE}.double_binary_tree:build",
        "Two complementary binary trees, half of the payload each, pipelined block by block.",
        frozenset({CommOp.ALL_REDUCE, CommOp.BROADCAST, CommOp.REDUCE, CommOp.BARRIER})),
    "bruck": Algorithm(
        f"{_HERE}.bruck:build", "Peers at doubling distance, growing bundles: fewest messages for small payloads.",
        frozenset({CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL, CommOp.BARRIER})),
    "binomial_tree": Algorithm(
        f"{_HERE}.binomial_tree:build", "One binomial tree that carries the whole payload: ceil(log2 n) steps per way.",
        frozenset({CommOp.ALL_REDUCE, CommOp.BROADCAST, CommOp.REDUCE, CommOp.GATHER, CommOp.SCATTER,
                   CommOp.BARRIER})),
    "nvls": Algorithm(
        f"{_HERE}.in_switch:nvls", "A switch adds and multicasts what NPUs read and write through it (NVLink SHARP).",
        _IN_SWITCH, in_switch=True),
    "sharp": Algorithm(
        f"{_HERE}.in_switch:sharp",
        "Switches add on the way up and multicast on the way down: the payload once each way.",
        _IN_SWITCH, in_switch=True),
})


def canonical_op(op: CommOp) -> CommOp:
    """The operation that the schedules know: reduce_scatter_block is reduce_scatter with equal blocks."""
    return CommOp.REDUCE_SCATTER if op == CommOp.REDUCE_SCATTER_BLOCK else CommOp(op)


def has_op(algorithm: str, op: CommOp) -> bool:
    """Whether an algorithm has `op`, as far as is known before it is built: a plug-in may have all."""
    return algorithm not in ALGORITHMS or op in ALGORITHMS[algorithm].ops


def supporting(op: CommOp) -> tuple[str, ...]:
    """Names of the algorithms that have `op` on any network, in registry order."""
    return tuple(name for name, line in ALGORITHMS.items() if canonical_op(op) in line.ops and not line.in_switch)


def build(algorithm: str, op: CommOp, n: int, options: Options | None = None, *, path: str = "collective") -> Schedule:
    """The schedule of `algorithm` (built-in or plug-in) for `op` on `n` participants.

    Raises InputError for an unknown name or n < 1, UnsupportedError when a built-in lacks the operation, PluginError
    for a plug-in that makes no schedule.
    """
    if n < 1:
        raise InputError(path, f"a group of {n} participants", expected="at least 1")
    op = canonical_op(op)
    if algorithm in ALGORITHMS and op not in ALGORITHMS[algorithm].ops:
        raise UnsupportedError(path, f"algorithm {algorithm!r} has no {op.name.lower()}",
                               expected="one of " + ", ".join(supporting(op)))
    if algorithm not in ALGORITHMS and algorithm not in names("algorithm"):
        raise InputError(path, f"unknown algorithm {algorithm[:60]!r}",
                         expected="one of " + ", ".join(names("algorithm")),
                         did_you_mean=nearest(algorithm, names("algorithm")))
    builder = cast(Builder, load("algorithm", algorithm))
    if algorithm in ALGORITHMS:
        return builder(op, n, options or Options())
    from astrarium.collective.algorithms.plugin import plugin_schedule

    return plugin_schedule(algorithm, builder, op, n, options or Options())
