"""A schedule from a plug-in's algorithm: made and looked over before anything runs it."""

from __future__ import annotations

from collections.abc import Callable

from astrarium.collective.algorithms.options import Options
from astrarium.engine.reference.check_schedule import check_schedule
from astrarium.errors import AstrariumError, InternalError, PluginError
from astrarium.vocab import CommOp, Schedule

__all__ = ["plugin_schedule"]


def plugin_schedule(name: str, builder: Callable[[CommOp, int, Options], Schedule], op: CommOp, n: int,
                    options: Options) -> Schedule:
    """What `builder` makes of `op` on `n` participants. Raises PluginError where it raises, or makes something else, or
    a schedule that names what it does not have; errors of ours pass: it may refuse an operation. Whether the schedule
    does what the operation promises is for `collective.exam` to say, in the plug-in's tests.
    """
    who = f"algorithm plug-in {name}"
    try:
        made: object = builder(op, n, options)
    except AstrariumError:
        raise
    except Exception as error:
        raise PluginError(who, f"raised {type(error).__name__}: {error}") from error
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
