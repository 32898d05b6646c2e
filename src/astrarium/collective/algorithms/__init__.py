"""The collective algorithms, by name: built-in ones, loaded when first asked for, and those of plug-ins.

Rooted operations (broadcast, reduce, gather, scatter) have their root at position 0.
"""

from __future__ import annotations

from functools import cache

from astrarium.collective.algorithms.algorithm import Algorithm, Bound, never
from astrarium.collective.algorithms.options import Options
from astrarium.errors import InputError, UnsupportedError, nearest
from astrarium.registry import Kind, built_ins, load, names
from astrarium.vocab import CommOp, Schedule

__all__ = ["Algorithm", "Bound", "Options", "algorithm_of", "bound", "build", "candidates", "canonical_op", "has_op",
           "steps", "supporting"]


def canonical_op(op: CommOp) -> CommOp:
    """The operation that the schedules know: reduce_scatter_block is reduce_scatter with equal blocks."""
    return CommOp.REDUCE_SCATTER if op == CommOp.REDUCE_SCATTER_BLOCK else CommOp(op)


def algorithm_of(name: str) -> Algorithm:
    """The algorithm of a name. Raises InputError with the nearest match for an unknown one, PluginError for a plug-in
    that is none."""
    if name in built_ins("algorithm"):
        return _built_in(name)
    from astrarium.collective.algorithms.plugin import plugin_algorithm

    return plugin_algorithm(name, load("algorithm", name))


@cache
def _built_in(name: str) -> Algorithm:
    found = load("algorithm", name)
    assert isinstance(found, Algorithm)
    return found


def has_op(name: str, op: CommOp) -> bool:
    """Whether an algorithm has `op`, as far as is known before it is built: a plug-in may refuse it."""
    return canonical_op(op) in algorithm_of(name).ops


def supporting(op: CommOp) -> tuple[str, ...]:
    """Names of the built-in algorithms that have `op` on any network, in registry order."""
    every = ((name, algorithm_of(name)) for name in built_ins("algorithm"))
    return tuple(name for name, each in every if canonical_op(op) in each.ops and not each.in_switch)


def candidates() -> tuple[str, ...]:
    """Names of the algorithms at which `choice: auto` may look somewhere, in registry order."""
    return tuple(name for name in names("algorithm") if algorithm_of(name).candidate is not never)


def bound(name: str, op: CommOp, n: int, blocks: int) -> Bound | None:
    """What an algorithm may cost at most for a schedule of so many blocks (all its messages in flight at once), None
    where that is not known."""
    algorithm = algorithm_of(name)
    return algorithm.bound(op, n, blocks) if op in algorithm.ops else None


def steps(name: str, op: CommOp, n: int) -> int:
    """Latencies that the algorithm pays one after the other, unpipelined; n - 1 where no bound is known, as of a name
    that only a plug-in's schedule has."""
    known = bound(name, op, n, 2) if name in Kind("algorithm") else None
    return known.steps if known else n - 1


def build(algorithm: str, op: CommOp, n: int, options: Options | None = None, *, path: str = "collective") -> Schedule:
    """The schedule of `algorithm` (built-in or plug-in) for `op` on `n` participants, for n >= 1.

    Raises InputError for an unknown name or n < 1, UnsupportedError when an algorithm lacks the operation, PluginError
    for a plug-in that makes no schedule.
    """
    if n < 1:
        raise InputError(path, f"a group of {n} participants", expected="at least 1")
    op = canonical_op(op)
    if algorithm not in Kind("algorithm"):
        raise InputError(path, f"unknown algorithm {algorithm[:60]!r}",
                         expected="one of " + ", ".join(names("algorithm")),
                         did_you_mean=nearest(algorithm, names("algorithm")))
    found = algorithm_of(algorithm)
    if op not in found.ops:
        raise UnsupportedError(path, f"algorithm {algorithm!r} has no {op.name.lower()}",
                               expected="one of " + ", ".join(supporting(op)))
    return found.build(op, n, options or Options())
