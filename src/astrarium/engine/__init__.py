"""Time and events: executes a Plan. Knows nothing about models, files or units."""

from __future__ import annotations

from astrarium.engine._native import HAVE_CORE
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Plan

__all__ = ["HAVE_CORE", "Outcome", "Plan", "execute"]


def execute(plan: Plan, *, record: bool = False, fold: bool = True, pure: bool = False) -> Outcome:
    """Run `plan` to its end.

    `record` keeps every node's start and end and the traffic of links. `fold` lets equal ranks run once where that is
    provably exact. `pure` runs the pure-Python engine, which also runs (unfolded) where there is no compiled core.
    Raises StallError when ranks wait for each other, TraceError and UnsupportedError as their names say.
    """
    if HAVE_CORE and not pure:
        from astrarium.engine._native import run

        return run(plan, record=record, fold=fold)
    from astrarium.engine.reference import execute as reference

    return reference(plan, record=record)
