"""Planning from what runs today: launch arguments in, a Shortlist with the job's own line out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from astrarium.lower.kept import Kept
from astrarium.network.config import Network
from astrarium.planner.budget import check_budget
from astrarium.planner.explore import Progress
from astrarium.planner.launch import Today, as_framework, npus_of, read_launch, today_of
from astrarium.planner.layout import Layout, layouts
from astrarium.planner.machine import Machine, device_names
from astrarium.planner.measured import Measured, measured_of, single_changes
from astrarium.planner.objective import objective_of
from astrarium.planner.planning import LIMIT, TOP, line_of, makers_of, planned, settings_for
from astrarium.planner.shortlist import Line, Shortlist
from astrarium.planner.terms import Terms, terms_of
from astrarium.simulate import simulate
from astrarium.workload.transformer import Transformer

__all__ = ["plan_from"]


def plan_from(path: str, device: str | Sequence[str], *, model: str | None = None, gpus: int | None = None,
              seq: int | None = None, global_batch: int | None = None, network: str | Network | None = None,
              compute: str | None = None, collectives: str | None = None, stack: str | None = None, top: int = TOP,
              fixed: Mapping[str, Sequence[Any]] | None = None, jobs: int = 1, limit: float | None = LIMIT,
              progress: Callable[[Progress], None] | None = None, objective: str = "time",
              cost: str | Mapping[str, Any] | None = None, budget: str | None = None, power: str | None = None,
              lift: Sequence[str] = (), reserve: str | float | None = None, exact: bool = False,
              certify: bool = False, ignore: Sequence[str] = (), measured: str | None = None, **settings: Any
              ) -> Shortlist:
    """Plan a job that runs today, from its launch arguments. Other arguments are those of `plan`.

    Args:
        path: A file of launch arguments: Megatron-LM .sh, NeMo .yaml, DeepSpeed .json, torchtitan .toml. They override
            the stack, which is that of the framework if `stack` is None.
        model, gpus, seq, global_batch: Values that the file does not have.
        ignore: Keys of the file to ignore.
        measured: What a step takes today: a time ("21.3s"), or MFU ("38%").

    Returns:
        The layouts; `Shortlist.today` is the job's layout on the first device. With `measured`, `Shortlist.changes` of
        one part of it, those with `no_gain`, and `Shortlist.factor` from predicted to measured steps.

    Raises:
        InputError: As `plan`; also for unknown keys, and keys that matter and are not predicted.
    """
    launch, step = read_launch(path, ignore), None if measured is None else measured_of(measured)
    terms = terms_of(objective, cost, budget, power)
    npus = npus_of(launch, path, gpus)
    devices = device_names(device)
    launch, stack, fixed = as_framework(launch, devices, compute, collectives, stack, fixed or {})
    machines = [make(npus) for make, _ in makers_of(devices, network, compute, collectives, stack, terms, reserve)]
    launch = replace(launch, settings=settings_for(machines[0], launch.settings))
    now = today_of(launch, path, model=model, npus=gpus, seq=seq, global_batch=global_batch, **settings)
    for machine in machines:
        check_budget(machine, now.job, terms)
    found = planned(now.job, machines, now.model, top=top, fixed=fixed, jobs=jobs, limit=limit, progress=progress,
                    today=now, terms=terms, lift=lift, exact=exact, certify=certify)
    found = replace(found, framework=launch.framework)
    return found if step is None else _measured(found, step, now, machines[0], terms, lift)


def _measured(found: Shortlist, measured: Measured, now: Today, machine: Machine, terms: Terms,
              lift: Sequence[str]) -> Shortlist:
    """The answer with the measured step of today, and what one change would bring."""
    assert found.today is not None
    kept, goal = Kept(), objective_of(terms.objective, machine, now.job)

    def line(layout: Layout, workload: Transformer) -> Line:
        return line_of(now.job, machine, goal, layout, simulate(machine.design(workload), kept=kept), workload)

    every = layouts(now.job, machine.npus, machine.host, None, lift)
    changes, no_gain = single_changes(now, found.today, machine, every, kept, line)
    return replace(found, measured=measured.of(found.today), changes=changes, no_gain=no_gain)
