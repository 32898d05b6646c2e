"""Time and events: executes a Plan. Knows nothing about models, files or units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from astrarium.engine._native import HAVE_CORE, Measurements, core_only
from astrarium.engine._oracle import oracle
from astrarium.engine.limit import Limit
from astrarium.engine.outcome import Outcome, Record
from astrarium.engine.plan import Backend, Order, Plan
from astrarium.engine.program_order import in_program_order, run_in_order
from astrarium.errors import UnsupportedError
from astrarium.lazy import lazy

if TYPE_CHECKING:
    from astrarium.engine.plugins.given import Plugins
    from astrarium.engine.source import run_source
    from astrarium.engine.strides import Stride

__all__ = ["HAVE_CORE", "Limit", "Measurements", "Outcome", "Plan", "Record", "core_only", "execute",
           "execute_in_order", "execute_jobs", "pace", "run_source"]
__getattr__ = lazy(__name__)      # runs that decide as they go need run_source, and no others


def execute(plan: Plan, *, record: Record = False, fold: bool = True, pure: bool = False,
            plugins: Plugins | None = None, kept: Measurements | None = None, hurried: bool = False,
            note: Callable[[str], None] | None = None, most: int | None = None) -> Outcome:
    """Run `plan` to its end.

    `record` keeps every node's start and end and the traffic of links; "nodes": without the traffic. `fold` lets equal
    ranks run once where that is provably exact. `pure` runs the pure-Python engine (`astrarium.oracle`: every rank, and
    not ASTRA-sim's rules), which also runs if there is no compiled core.
    `plugins` take part in the run (engine.plugins); then nothing is folded. `kept` spares folded runs what others
    measured. `hurried`: a StallError of a folded run comes at once, without sentences. `note` is told, before it
    begins, why and for how long every rank will be simulated where folding gives up.
    `most` (ps): the compiled core ends a run under our own rules with BeyondError once the makespan is sure to be
    larger; other engines run to the end.
    Raises StallError when ranks wait for each other, TraceError and UnsupportedError as their names say,
    PluginError for a plug-in that fails.
    """
    if plugins is not None and plugins.in_run:
        return _with_plugins(plan, plugins, record, pure)
    if plan.network.backend == Backend.FOREIGN:
        raise UnsupportedError("network.backend", "a plug-in's, and the run has none", expected="a network plug-in")
    return _alone(plan, record=record, fold=fold, pure=pure, kept=kept, hurried=hurried, note=note,
                  most=most)


def _alone(plan: Plan, *, record: Record, fold: bool, pure: bool, kept: Measurements | None, hurried: bool,
           note: Callable[[str], None] | None, most: int | None) -> Outcome:
    """`execute` without plug-ins."""
    if HAVE_CORE and not pure:
        from astrarium.engine._native import run

        return run(plan, record=record, fold=fold, kept=kept, hurried=hurried, note=note, most=most)
    return oracle().execute(plan, record=bool(record))


def execute_in_order(plan: Plan, *, record: Record, fold: bool, pure: bool = False, kept: Measurements | None = None,
                     note: Callable[[str], None] | None = None, most: int | None = None) -> tuple[Plan, Outcome]:
    """(what ran, its Outcome): `execute`, and where ranks wait for each other, again in program order (see
    `program_order`)."""
    run = partial(_alone, record=record, fold=fold, pure=pure, kept=kept, note=note, most=most)
    ranks, outcome = run_in_order(plan, lambda each, hurried: run(each, hurried=hurried))
    return _ordered(plan, ranks), outcome


def execute_jobs(plan: Plan, first: Sequence[int], *, record: Record, pure: bool = False,
                 kept: Measurements | None = None, note: Callable[[str], None] | None = None,
                 most: int | None = None) -> tuple[Plan, Outcome]:
    """`execute_in_order`, folded, of several jobs: sets of them that share nothing are separate runs (`apart`).
    `first`: the first rank of each job, and how many ranks all have."""
    from astrarium.engine.apart import execute_apart

    run = partial(_alone, record=record, fold=True, pure=pure, note=note, most=most,
                  kept=Measurements() if kept is None else kept)
    ranks, outcome = execute_apart(plan, first, lambda each, hurried: run(each, hurried=hurried))
    return _ordered(plan, ranks), outcome


def _ordered(plan: Plan, ranks: npt.NDArray[np.int64]) -> Plan:
    """The plan as it ran: these ranks in program order."""
    ordered = in_program_order(plan, ranks) if ranks.size else plan
    assert ordered is not None
    return ordered


def pace(phases: Sequence[Sequence[Stride]], paths: Sequence[Sequence[int]], chunks: Sequence[int], limit: int,
         entry: float) -> float:
    """When the last of a collective's chunks ends, in ns: see `engine.strides.pace`, which runs if there is no core."""
    if HAVE_CORE:
        from astrarium.engine._native import pace as compiled

        return compiled(phases, paths, chunks, limit, entry)
    from astrarium.engine.strides import pace as in_python

    return in_python(phases, paths, chunks, limit, entry)


def _with_plugins(plan: Plan, plugins: Plugins, record: Record, pure: bool) -> Outcome:
    if plan.policy.order != Order.CANONICAL:
        raise UnsupportedError("compat", "ASTRA-sim's rule book has its own networks and schedulers",
                               expected="no plug-ins, or compat: none")
    if plan.attached and (plugins.network is not None or plan.network.backend == Backend.FOREIGN):
        raise UnsupportedError("memory", "memories at switches, on a plug-in's network", expected="closed_form, "
                               "contention or fluid")
    if plugins.network is not None:
        plan = replace(plan, network=replace(plan.network, backend=Backend.FOREIGN))
    elif plan.network.backend == Backend.FOREIGN:
        raise UnsupportedError("network.backend", "a plug-in's, and the run has none", expected="a network plug-in")
    team = plugins.team(plan.network)
    if HAVE_CORE and not pure:
        from astrarium.engine._native import run_with

        return run_with(plan, team, record=bool(record))
    return oracle().execute(plan, record=bool(record), team=team)
