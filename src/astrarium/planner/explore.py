"""The fastest layouts of a job on a machine, by branch and bound: the lowest floors are simulated first, until no floor
that is left is below the slowest of the wanted ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.errors import InputError, StallError, StoppedError
from astrarium.lower.kept import Kept
from astrarium.planner.costs import Costs, canonical, costs_of, recipe_of_layout
from astrarium.planner.floor import Floor, floor_of, mesh_of_layout
from astrarium.planner.job import Job
from astrarium.planner.layout import Layout, layouts, workload_fields
from astrarium.planner.machine import Machine
from astrarium.planner.objective import TIME, Objective
from astrarium.planner.wires import Wires
from astrarium.result import Result
from astrarium.search.limits import Guard, Limits
from astrarium.simulate import simulate
from astrarium.workload.footprint import footprints
from astrarium.workload.training import recipe_of
from astrarium.workload.transformer import Transformer

__all__ = ["Candidate", "Explored", "Progress", "Trial", "busy_of", "candidates", "explore", "memory_of",
           "workload_of"]


class Candidate(Struct, frozen=True):
    """A layout that may fit, with its floors; `least`: that of the objective."""

    layout: Layout
    floor: Floor
    least: float

    @property
    def order(self) -> tuple[float, Layout]:
        """Lowest floor of the objective first."""
        return self.least, self.layout


class Trial(Struct, frozen=True):
    """A layout that was looked at: bytes of the fullest rank, ns of a step, and the objective (NaN: it does not fit, or
    `problem` says why nobody knows); `least`: floor of the objective."""

    layout: Layout
    floor: Floor
    memory: float
    time: float = math.nan
    problem: str = ""
    value: float = math.nan
    least: float = 0.0


class Progress(Struct, frozen=True):
    """How far it is on a device: layouts that the rules allow, those left of them that may fit, simulated; the fastest
    so far, and the next ones in line, whose floors nothing of theirs is below."""

    device: str
    layouts: int
    left: int
    simulated: int
    found: tuple[Trial, ...]
    waiting: tuple[Candidate, ...]


class Explored(Struct, frozen=True):
    """`found`: the best, best first. `layouts` that the rules allow; `too_large`: those whose memory does not
    fit, as far as they were looked at. `unknown`: layouts that were not finished within the limit, with floors below
    the last that was found; without any, nothing in the space is better than `found`."""

    found: tuple[Trial, ...]
    layouts: int
    too_large: int
    simulated: int
    unknown: tuple[Trial, ...]


class _Search(Struct, dict=True):
    """What layouts of one job on one machine share."""

    job: Job
    machine: Machine
    kept: Kept
    guard: Guard
    objective: Objective = TIME
    costs: dict[Layout, Costs | None] = field(default_factory=dict)

    @cached_property
    def wires(self) -> Wires:
        return Wires(self.machine.network, self.machine.collective.model)

    def candidate(self, layout: Layout) -> Candidate | None:
        """A layout with its floors; None where a size of the model does not divide, or where recomputing attention's
        core changes nothing (one flash kernel keeps none of it)."""
        costs = self._costs(canonical(layout))
        if costs is None:
            return None
        if layout.recompute == "selective":
            plainer = self._costs(canonical(replace(layout, recompute="none")))
            if plainer is not None and costs.same(plainer):
                return None
        floor = floor_of(self.job, layout, costs, self.wires)
        return Candidate(layout, floor, self.objective.floor(floor))

    def _costs(self, layout: Layout) -> Costs | None:
        if layout not in self.costs:
            try:
                recipe = recipe_of_layout(self.job, layout, self.kept.forms)
            except InputError:
                recipe = None
            mesh = mesh_of_layout(layout.tp, layout.cp, layout.ep, layout.dp, layout.pp)
            self.costs[layout] = None if recipe is None else \
                costs_of(self.job, self.machine, recipe, self.wires, mesh)
        return self.costs[layout]

    def trial(self, candidate: Candidate) -> Trial:
        """Its memory, and, if that fits, its simulated time and objective."""
        layout, floor, least = candidate.layout, candidate.floor, candidate.least
        record = self.objective.per_busy_ns > 0
        try:
            workload = workload_of(self.job, layout)
            design, memory = self.machine.design(workload), memory_of(workload, self.kept)
        except InputError as error:
            return Trial(layout, floor, math.nan, problem=str(error), least=least)
        if memory > self.machine.capacity:
            return Trial(layout, floor, memory, least=least)
        try:
            result, _ = self.guard.step(lambda: simulate(design, record=record, kept=self.kept), 0.0)
        except (InputError, StallError, StoppedError) as error:
            return Trial(layout, floor, memory, problem=str(error).splitlines()[0], least=least)
        time, busy = float(result.makespan), busy_of(result) if record else 0.0
        return Trial(layout, floor, memory, time, "", self.objective.value(time, busy), least)


def busy_of(result: Result) -> float:
    """ns for which NPUs compute, in the mean."""
    return float(result.ranks.compute[result.outcome.row].mean()) / 1000


def workload_of(job: Job, layout: Layout, **fields: Any) -> Transformer:
    """The workload of a layout; `fields` win over its own. Raises InputError where the rules refuse it."""
    return job.workload(**{**workload_fields(layout), "stage_layers": job.stage_layers(layout.parts), **fields})


def memory_of(workload: Transformer, kept: Kept) -> float:
    """Bytes of the fullest rank."""
    return max(each.total for each in footprints(recipe_of(workload, kept.forms)))


def candidates(search: _Search, every: Iterator[Layout]) -> tuple[list[Candidate], int, int]:
    """(layouts whose floor of memory fits, lowest floor of the objective first; how many there are; how many are too
    large)."""
    found: list[Candidate] = []
    total = large = 0
    for layout in every:
        candidate = search.candidate(layout)
        if candidate is None:
            continue
        total += 1
        if candidate.floor.memory > search.machine.capacity:
            large += 1
        else:
            found.append(candidate)
    return sorted(found, key=lambda each: each.order), total, large


def explore(job: Job, machine: Machine, *, top: int = 5, fixed: Mapping[str, Sequence[Any]] | None = None,
            jobs: int = 1, limit: float | None = None, kept: Kept | None = None,
            progress: Callable[[Progress], None] | None = None, objective: Objective = TIME,
            below: float = math.inf) -> Explored:
    """The `top` best layouts by an objective. `fixed` as in `layouts`; `jobs` simulations at a time; `limit`: CPU
    seconds that one may take; `below`: layouts whose floor of the objective is not below it are left out. Raises
    InputError where the rules leave no layout."""
    search = _Search(job, machine, kept or Kept(), Guard(Limits(seconds=limit)), objective)
    left, total, large = candidates(search, layouts(job, machine.npus, machine.host, fixed))
    done: list[Trial] = []
    best: list[Trial] = []
    place = 0

    def tell() -> None:
        if progress is not None:
            simulated = sum(not math.isnan(trial.time) for trial in done)
            progress(Progress(machine.device, total, len(left) - place, simulated, tuple(best),
                              tuple(left[place:place + top])))

    tell()
    with ThreadPoolExecutor(jobs) as pool:
        while place < len(left) and left[place].least < (best[-1].value if len(best) == top else below):
            group = left[place:place + jobs]
            place += len(group)
            done += list(pool.map(search.trial, group) if jobs > 1 else map(search.trial, group))
            timed = [trial for trial in done if not math.isnan(trial.time)]
            best = sorted(timed, key=lambda trial: (trial.value, trial.layout))[:top]
            tell()
    last = best[-1].value if len(best) == top else math.inf
    return Explored(tuple(best), total, large + sum(trial.memory > machine.capacity for trial in done),
                    sum(not math.isnan(trial.time) for trial in done),
                    tuple(trial for trial in done if trial.problem and trial.least < last))
