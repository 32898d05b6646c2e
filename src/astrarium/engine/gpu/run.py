"""Check a launch and run it: in the compiled core, or in Python where there is none."""

from __future__ import annotations

from astrarium.engine.gpu._native import have_core, run_compiled
from astrarium.engine.gpu.check import check
from astrarium.engine.gpu.values import Finished, Launch

__all__ = ["run_launch"]


def run_launch(launch: Launch, *, fold: bool = True, pure: bool = False) -> Finished:
    """Run `launch` to its end.

    `fold`: where all GPUs do the same, simulate one of them: same integers. `pure`: in Python. Raises InputError for a
    launch that is broken, StallError when workgroups wait for ever.
    """
    check(launch)
    if have_core() and not pure:
        return run_compiled(launch, fold=fold)
    from astrarium.engine.gpu.reference import run

    return run(launch, fold=fold)
