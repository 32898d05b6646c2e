"""A plug-in's algorithm: what it makes and says is looked over before anything uses it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from astrarium.collective.algorithms.algorithm import Algorithm, Bound, Case, Counts, never
from astrarium.collective.algorithms.options import Options
from astrarium.engine.reference.check_schedule import check_schedule
from astrarium.errors import AstrariumError, InternalError, PluginError
from astrarium.vocab import CommOp, Schedule

__all__ = ["plugin_algorithm"]


def plugin_algorithm(name: str, found: object) -> Algorithm:
    """What a plug-in registered, an `Algorithm` or only its `build`, with every answer checked. Its functions raise
    PluginError where the plug-in's raise, or give something else than they should; errors of ours pass: it may refuse
    an operation. Whether a schedule does what the operation promises is for `collective.exam` to say, in the plug-in's
    tests."""
    who = f"algorithm plug-in {name}"
    if not isinstance(found, Algorithm):
        if not callable(found):
            raise PluginError(who, f"is an object of {type(found).__qualname__}, neither an Algorithm nor its build")
        found = Algorithm(found)
    return replace(
        found, build=partial(_schedule, who, found), bound=partial(_bound, who, found),
        counts=partial(_counts, who, found), messages=partial(_asked, who, found.messages),
        candidate=never if found.candidate is never else partial(_asked, who, found.candidate),
        exact=never)     # nothing but a proof makes an estimate a lower bound


def _asked(who: str, function: Callable[..., Any], *args: object) -> Any:
    try:
        return function(*args)
    except AstrariumError:
        raise
    except Exception as error:
        raise PluginError(who, f"raised {type(error).__name__}: {error}") from error


def _bound(who: str, algorithm: Algorithm, op: CommOp, n: int, blocks: int) -> Bound | None:
    found = _asked(who, algorithm.bound, op, n, blocks)
    if found is not None and not isinstance(found, Bound):
        raise PluginError(who, f"bound() gave an object of {type(found).__qualname__}, which is no Bound")
    return found


def _counts(who: str, algorithm: Algorithm, case: Case) -> Sequence[Counts] | None:
    found = _asked(who, algorithm.counts, case)
    if found is not None and not (isinstance(found, (list, tuple)) and found
                                  and all(isinstance(row, Counts) for row in found)):
        raise PluginError(who, "counts() gave neither Counts nor None")
    return found


def _schedule(who: str, algorithm: Algorithm, op: CommOp, n: int, options: Options) -> Schedule:
    made: object = _asked(who, algorithm.build, op, n, options)
    if not isinstance(made, Schedule):
        raise PluginError(who, f"gave {'None' if made is None else f'an object of {type(made).__qualname__}'}, "
                               "which is no Schedule")
    if made.op != op or made.n != n:
        raise PluginError(who, f"gave a schedule of {made.op!r} on {made.n} participants for {op!r} on {n}")
    if made.blocks < 1:
        raise PluginError(who, f"gave a schedule of {made.blocks} blocks")
    try:
        check_schedule(made)
    except InternalError as error:
        raise PluginError(who, f"gave a broken schedule: {str(error).rpartition(': ')[2]}") from error
    return made
