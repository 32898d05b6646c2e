"""The fastest layouts of a job on a machine, by branch and bound: the lowest bounds are simulated first, until no
lower bound that is left is below the slowest of the wanted ones."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.bounds.costs import Costs, costs_of
from astrarium.bounds.pipeline import Replicas, Shape, replicas_of
from astrarium.bounds.timed import wires_of
from astrarium.bounds.wires import Wires
from astrarium.errors import InputError, StallError, StoppedError
from astrarium.lower.kept import Kept
from astrarium.planner.job import Job
from astrarium.planner.layout import Layout, layouts
from astrarium.planner.lower_bound import (
    LowerBound,
    canonical,
    lower_bound_of,
    mesh_of_layout,
    recipe_of_layout,
    shape_of_layout,
)
from astrarium.planner.machine import Machine
from astrarium.planner.objective import TIME, Objective
from astrarium.planner.shortlist import Line
from astrarium.result import Result
from astrarium.search.limits import Guard, Limits
from astrarium.simulate import simulate
from astrarium.workload.footprint import footprints
from astrarium.workload.mesh import Mesh
from astrarium.workload.training import recipe_of
from astrarium.workload.transformer import Transformer

__all__ = ["Candidate", "Explored", "Progress", "Queue", "Trial", "busy_of", "explore", "memory_of", "workload_of"]


class Candidate(Struct, frozen=True):
    """A layout that may fit, with its lower bounds; `least`: that of the objective."""

    layout: Layout
    bound: LowerBound
    least: float


class Trial(Struct, frozen=True):
    """A layout that was looked at: bytes of the fullest rank, ns of a step, and the objective (NaN: it does not fit, or
    `problem` says why); `least`: lower bound of the objective. `line`: the figures of one
    of the best; `makespan`: ns of the run."""

    layout: Layout
    bound: LowerBound
    memory: float
    time: float = math.nan
    problem: str = ""
    value: float = math.nan
    least: float = 0.0
    line: Line | None = None
    makespan: float = math.nan

    @property
    def order(self) -> tuple[float, float, Layout]:
        """Best first. Layouts that move the same bytes through a port (to rounding) are in the order of their runs."""
        return float(f"{self.value:.9g}"), self.makespan, self.layout


class Progress(Struct, frozen=True):
    """How far it is on a device: layouts that the rules allow, those left of them that may fit, simulated; the fastest
    so far, and as many of the next ones in line, lowest bound first, as `top` lacks."""

    device: str
    layouts: int
    left: int
    simulated: int
    found: tuple[Trial, ...]
    waiting: tuple[Candidate, ...]


class Explored(Struct, frozen=True):
    """`found`: the best, best first. `layouts` that the rules allow; `too_large`: those whose memory does not fit, as
    far as they were looked at. `unknown`: layouts that were not finished within the limit, with lower bounds below the
    last that was found. `least`: the lowest bound of the layouts that were not simulated; what was found below it is
    the best of the space. `refused`: why layouts were left out before, such as sizes that do not divide the model.
    `smallest`: bytes that the fullest rank needs at least, of the layouts that do not fit. `looked`: every layout that
    was simulated, or whose exact memory was. `left`: ep -> the lowest (lower bound of the objective, layout) of those
    that were not; `eps`: all that layouts have. `bounds`: gives the lower bounds of any layout, of the objective and of
    memory."""

    found: tuple[Trial, ...]
    layouts: int
    too_large: int
    simulated: int
    unknown: tuple[Trial, ...]
    least: float = math.inf
    refused: str = ""
    smallest: float = math.inf
    looked: tuple[Trial, ...] = ()
    left: Mapping[int, tuple[float, Layout]] = field(default_factory=dict)
    bounds: Callable[[Layout], tuple[float, float] | None] = lambda _: None
    eps: tuple[int, ...] = ()


class _Search(Struct, dict=True):
    """What layouts of one job on one machine share."""

    job: Job
    machine: Machine
    kept: Kept
    guard: Guard
    objective: Objective = TIME
    costs: dict[Layout, Costs | None] = field(default_factory=dict)
    shapes: dict[tuple[Layout, int, int], Shape] = field(default_factory=dict)
    replicas: dict[tuple[Mesh, int, bool], Replicas] = field(default_factory=dict)
    selects: dict[tuple[bool, ...], bool] = field(default_factory=dict)
    refused: str = ""       # why a size of the model does not divide, of the first layout
    alike: str = ""         # why layouts of selective recomputation are left out

    @cached_property
    def wires(self) -> Wires:
        return wires_of(self.machine.network, self.machine.collective)

    def candidate(self, layout: Layout) -> Candidate | None:
        """A layout with its lower bounds; None where a size of the model does not divide, or where recomputing
        attention's core changes nothing (one flash kernel keeps none of it)."""
        blocks = canonical(layout)
        if layout.recompute == "selective" and not self._selects(blocks):
            self.alike = "recompute selective changes nothing, as attention is one kernel (--fix recompute=none)"
            return None
        costs = self._costs(blocks)
        if costs is None:
            return None
        parts = blocks, layout.pp, layout.virtual_stages
        if parts not in self.shapes:
            self.shapes[parts] = shape_of_layout(self.job, costs, layout.pp, layout.virtual_stages)
        mesh = mesh_of_layout(layout.tp, layout.cp, layout.ep, layout.dp, layout.pp)
        ranks = mesh, layout.zero, layout.tp_sequence
        if ranks not in self.replicas:
            self.replicas[ranks] = replicas_of(costs, mesh, layout.zero, self.wires)
        bound = lower_bound_of(self.job, layout, costs, self.shapes[parts], self.replicas[ranks])
        return Candidate(layout, bound, self.objective.bound(bound))

    def bounds(self, layout: Layout) -> tuple[float, float] | None:
        """Lower bounds of a layout's objective and memory."""
        found = self.candidate(layout)
        return None if found is None else (found.least, found.bound.memory)

    def _selects(self, blocks: Layout) -> bool:
        """Whether recomputing attention's core changes the blocks; that depends on which axes there are alone."""
        axes = blocks.tp > 1, blocks.cp > 1, blocks.ep > 1, blocks.tp_sequence
        if axes not in self.selects:
            costs, plainer = self._costs(blocks), self._costs(replace(blocks, recompute="none"))
            if costs is None or plainer is None:
                return True
            self.selects[axes] = not costs.same(plainer)
        return self.selects[axes]

    def _costs(self, blocks: Layout) -> Costs | None:
        if blocks not in self.costs:
            try:
                recipe = recipe_of_layout(self.job, blocks, self.kept.forms)
            except InputError as error:
                recipe, self.refused = None, self.refused or str(error)
            self.costs[blocks] = None if recipe is None else \
                costs_of(recipe, self.machine.compute, self.machine.memory, self.wires)
        return self.costs[blocks]

    def trial(self, candidate: Candidate) -> tuple[Trial, Result | None]:
        """Its memory, and, if that fits, its simulated time and objective, with the recorded run."""
        layout, bound, least = candidate.layout, candidate.bound, candidate.least
        try:
            workload = workload_of(self.job, layout)
            design, memory = self.machine.design(workload), memory_of(workload, self.kept)
        except InputError as error:
            return Trial(layout, bound, math.nan, problem=str(error), least=least), None
        if memory > self.machine.room:
            return Trial(layout, bound, memory, least=least), None
        try:
            result, _ = self.guard.step(lambda: simulate(design, kept=self.kept), 0.0)
        except (InputError, StallError, StoppedError) as error:
            return Trial(layout, bound, memory, problem=str(error).splitlines()[0], least=least), None
        time, busy = float(result.at_least), busy_of(result) if self.objective.per_busy_ns > 0 else 0.0
        return Trial(layout, bound, memory, time, "", self.objective.value(time, busy), least,
                     makespan=float(result.makespan)), result


def busy_of(result: Result) -> float:
    """ns for which NPUs compute, in the mean."""
    return float(result.ranks.compute[result.outcome.row].mean()) / 1000


def workload_of(job: Job, layout: Layout, **fields: Any) -> Transformer:
    """The workload of a layout; `fields` win over its own. Raises InputError where the rules refuse it."""
    return job.workload(**{**layout.plain, "stage_layers": job.stage_layers(layout.parts), **fields})


def memory_of(workload: Transformer, kept: Kept) -> float:
    """Bytes of the fullest rank."""
    return max(each.total for each in footprints(recipe_of(workload, kept.forms)))


class Queue:
    """The layouts that are left, lowest bound of the objective first. A layout that recomputes everything has no lower
    bound than the same one that recomputes nothing, and waits with that bound until its own one is needed;
    but for one of a single micro-batch, whose longer backward pass hides behind the reduction of gradients, and whose
    forward pass is shorter by what it does not keep. (Clocks that follow from what runs rise by less than a pass more
    takes.)"""

    def __init__(self, search: _Search, every: Iterable[Layout]) -> None:
        self._search = search
        self._left: list[tuple[float, Layout, Candidate | None]] = []
        self.total = self.large = 0
        self.eps: set[int] = set()
        self.smallest = math.inf        # bytes, of those that are too large
        full, least = list[Layout](), dict[Layout, float]()
        for layout in every:
            self.eps.add(layout.ep)
            if layout.recompute == "full":
                full.append(layout)
            elif (found := self._add(layout)) is not None and layout.recompute == "none":
                least[layout] = found.least
        for layout in full:
            bound = least.get(replace(layout, recompute="none"))
            if bound is None or layout.dp * layout.micro_batch == search.job.global_batch:
                self._add(layout)
            else:
                self.total += 1
                self._left.append((bound, layout, None))
        heapq.heapify(self._left)

    def __len__(self) -> int:
        return len(self._left)

    @property
    def least(self) -> float:
        """The lowest bound; infinite where none is left."""
        return self._left[0][0] if self._left else math.inf

    def least_of_ep(self) -> dict[int, tuple[float, Layout]]:
        """ep -> the lowest bound of the layouts that are left, with its layout."""
        found: dict[int, tuple[float, Layout]] = {}
        for bound, layout, _ in self._left:
            if layout.ep not in found or (bound, layout) < found[layout.ep]:
                found[layout.ep] = bound, layout
        return found

    def _add(self, layout: Layout) -> Candidate | None:
        found = self._search.candidate(layout)
        if found is not None:
            self.total += 1
            self._keep(found)
        return found

    def _keep(self, found: Candidate) -> None:
        if found.bound.memory > self._search.machine.room:
            self.large += 1
            self.smallest = min(self.smallest, found.bound.memory)
        else:
            heapq.heappush(self._left, (found.least, found.layout, found))

    def pop(self, below: float) -> Candidate | None:
        """The next layout, where its lower bound is below a limit."""
        while self._left and self._left[0][0] < below:
            _, layout, found = heapq.heappop(self._left)
            if found is not None:
                return found
            found = self._search.candidate(layout)
            if found is not None:
                self._keep(found)
        return None

    def first(self, count: int, below: float = math.inf) -> tuple[Candidate, ...]:
        """The next ones in line, with lower bounds below a limit."""
        found = list(islice(iter(lambda: self.pop(below), None), count))
        for each in found:
            self._keep(each)
        return tuple(found)


def explore(job: Job, machine: Machine, *, top: int = 5, every: Iterable[Layout] | None = None, jobs: int = 1,
            limit: float | None = None, kept: Kept | None = None, progress: Callable[[Progress], None] | None = None,
            objective: Objective = TIME, below: float = math.inf, effort: float = math.inf,
            line_of: Callable[[Layout, Result], Line] | None = None) -> Explored:
    """The `top` best of the layouts `every` (left out: all that the rules allow) by an objective. `jobs` simulations at
    a time; `limit`: CPU seconds that one may take; `below`: layouts whose lower bound of the objective is not below it
    are left out; `effort`: events of simulations after which only layouts that may be better than the best one are
    simulated; `line_of`: what makes the lines of the best. Raises InputError where the rules leave no layout."""
    search = _Search(job, machine, kept or Kept(), Guard(Limits(seconds=limit)), objective)
    left = Queue(search, layouts(job, machine.npus, machine.host) if every is None else every)
    done: list[Trial] = []
    best: list[Trial] = []
    spent = 0

    def worst() -> float:
        if len(best) < top:
            return below
        return min(below, best[-1 if spent < effort else 0].value)

    def tell() -> None:
        if progress is not None:
            simulated = sum(not math.isnan(trial.time) for trial in done)
            waiting = left.first(top - len(best), worst())
            progress(Progress(machine.device, left.total, len(left), simulated, tuple(best), waiting))

    tell()
    with ThreadPoolExecutor(jobs) as pool:
        while group := list(islice(iter(lambda: left.pop(worst()), None), jobs)):
            for trial, result in pool.map(search.trial, group) if jobs > 1 else map(search.trial, group):
                done.append(trial)
                spent += 0 if result is None else result.outcome.events
                if result is not None and (len(best) < top or trial.order < best[-1].order):
                    line = None if line_of is None else line_of(trial.layout, result)
                    best = sorted([*best, replace(trial, line=line)], key=lambda each: each.order)[:top]
            tell()
    last = best[-1].value if len(best) == top else math.inf
    return Explored(tuple(best), left.total, left.large + sum(trial.memory > machine.room for trial in done),
                    sum(not math.isnan(trial.time) for trial in done),
                    tuple(trial for trial in done if trial.problem and trial.least < last), left.least,
                    search.refused or search.alike,
                    min([left.smallest, *(trial.memory for trial in done if trial.memory > machine.room)]), tuple(done),
                    left.least_of_ep(), search.bounds, tuple(sorted(left.eps)))
