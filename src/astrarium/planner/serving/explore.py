"""The best engines of a service, by branch and bound: the highest ceilings are served first, until no ceiling that is
left reaches the last of the wanted ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.planner.machine import Machine
from astrarium.planner.serving.ceiling import Ceiling, ceiling_of
from astrarium.planner.serving.engine import Engine
from astrarium.planner.serving.goal import Goal
from astrarium.planner.serving.pools import PoolsCeiling
from astrarium.planner.serving.service import Service
from astrarium.serving.find import REACH, TOLERANCE, FoundRate, Tried, find_rate, rate_of, step_of
from astrarium.serving.policy import Buckets, Policy
from astrarium.serving.servers import fleet_of
from astrarium.serving.steps.simulated import Known
from astrarium.units import format_bytes
from astrarium.workload.inference.footprint import NoRoomError

__all__ = ["Candidate", "Explored", "Lost", "Progress", "Trial", "explore"]

Pools = Callable[[Sequence[tuple[Engine, str, Ceiling]]], Iterable[tuple[Engine, Machine, PoolsCeiling]]]
SLOWEST = 1e-3      # requests/s: lower rates are not tried
LOWEST = 16     # times below its ceiling that a rate is looked for first, at most
SWEEP = (0.1, 0.25, 0.5, 0.75)      # of the found rate: loads of the front



class Candidate(Struct, frozen=True):
    """An engine on NPUs of its own (`machine`), with the ceiling of its rate and the best order that this allows."""

    engine: Engine
    machine: Machine
    design: Design
    policy: Policy
    ceiling: Ceiling | PoolsCeiling
    rate: float
    least: tuple[float, float]
    known: Known


class Trial(Struct, frozen=True):
    """An engine whose rate was searched: the highest that holds, and its order by the goal; `load`: what came of the
    rate that it has in the fleet; `found`: all rates that were tried; `lower`: shares SWEEP of the found rate."""

    candidate: Candidate
    found: FoundRate
    load: Tried
    order: tuple[float, float]
    lower: tuple[Tried, ...] = ()

    @property
    def rate(self) -> float:
        """The highest rate that holds."""
        assert self.found.best is not None
        return self.found.best.rate

    @property
    def key(self) -> tuple[tuple[float, float], str, Engine]:
        """Best first."""
        return self.order, self.candidate.machine.device, self.candidate.engine


class Lost(Struct, frozen=True):
    """An engine that is not in the table: `why`, and the `kind` of reason: memory, limits, ceiling, probe, slower,
    unknown. `npus`: NPUs whose memory the weights fill, if these are too large."""

    engine: Engine
    device: str
    kind: str
    why: str
    npus: float = 0.0


class Progress(Struct, frozen=True):
    """How far it is: candidates, looked at, the best so far."""

    candidates: int
    done: int
    found: tuple[Trial, ...]


class Explored(Struct, frozen=True):
    """`found`: the best, best first; `lost`: all others; `simulated`: streams that were served; `candidates`: all."""

    found: tuple[Trial, ...]
    lost: tuple[Lost, ...]
    simulated: int
    candidates: int


class _Search(Struct):
    service: Service
    goal: Goal
    top: int
    tell: Callable[[Progress], None] | None
    best: list[Trial] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    shared: dict[object, Known] = field(default_factory=dict)
    ceilings: list[tuple[Engine, str, Ceiling]] = field(default_factory=list)
    simulated: int = 0

    def lose(self, each: Candidate, kind: str, why: str) -> None:
        self.lost.append(Lost(each.engine, each.machine.device, kind, why))

    def candidate(self, engine: Engine, machine: Machine, pools: PoolsCeiling | None = None) -> Candidate | None:
        """The engine with its ceiling (of `pools`: theirs); None, and why, where it cannot serve."""
        def no(kind: str, why: str, npus: float = 0.0) -> None:
            self.lost.append(Lost(engine, machine.device, kind, why, npus))

        key = (machine.device, engine.layout, engine.weights, engine.cache, engine.prefill, engine.workers)
        known = self.shared.setdefault(key, {})
        try:
            design = self.service.design(machine, engine)
            policy = self.service.policy(engine, design)
            one = fleet_of(design, policy, Buckets(), known).instances[0]
            ceiling = pools or ceiling_of(self.service, one.front[0], one.offset / 1000)
        except NoRoomError as error:
            no("memory", f"has no room for a cache: weights take {format_bytes(error.weights)} of the "
               f"{format_bytes(error.room)} that an NPU has for all", engine.npus * error.weights / error.room)
            return None
        except InputError as error:
            no("memory" if error.path == "memory.capacity" else "unknown", error.message)
            return None
        if ceiling is None:
            no("memory", "its cache holds no whole request")
            return None
        if isinstance(ceiling, Ceiling):
            self.ceilings.append((engine, machine.device, ceiling))
            if ceiling.why:
                no("limits", ceiling.why)
                return None
        rate = ceiling.rate
        least = self.goal.order(machine.device, engine.npus, rate)
        return Candidate(engine, machine, design, policy, ceiling, rate, least, known)

    def serve(self, each: Candidate, rate: float) -> Tried:
        """What comes of a rate."""
        self.simulated += 1
        served = self.service.serve(each.design, each.policy, rate, each.known)
        return Tried(rate, *self.service.slo.worst(served), served)

    def trial(self, each: Candidate, worst: float) -> Trial | None:
        """The engine's rate; None, and why, where it cannot reach the value `worst`."""
        npus, tried = each.engine.npus, list[Tried]()
        needed = self.goal.needed(each.machine.device, npus, worst) if math.isfinite(worst) else 0.0
        start = max(each.ceiling.guess(), each.rate / LOWEST)
        if needed > 0:
            needed = rate_of(step_of(needed))
            probe = self.serve(each, needed)
            if not probe.holds:
                self.lose(each, "probe", f"{probe.why} at {needed:,.4g} requests/s an engine (the last line's)")
                return None
            tried.append(probe)
            start = max(start, needed)
        known = {one.rate: one for one in tried}

        def at(rate: float) -> Tried:
            if rate not in known:
                known[rate] = self.serve(each, rate)
            return known[rate]

        start = max(start, SLOWEST)
        reach = min(REACH, start / SLOWEST * (1 + TOLERANCE))
        found = find_rate(lambda rate: at(rate).served, self.service.slo, start, reach=reach)
        if found.best is None:
            assert found.beyond is not None
            self.lose(each, "limits", f"{found.beyond.why} at {found.beyond.rate:,.3g} requests/s")
            return None
        load = self.goal.load(npus, found.best.rate)
        return Trial(each, found, found.best if self.goal.rate is None else at(load),
                     self.goal.order(each.machine.device, npus, found.best.rate))

    def show(self, candidates: int, done: int) -> None:
        if self.tell is not None:
            self.tell(Progress(candidates, done, tuple(self.best)))


def explore(service: Service, goal: Goal, every: Sequence[tuple[Engine, Machine]], *, top: int = 5,
            tell: Callable[[Progress], None] | None = None, pools: Pools | None = None) -> Explored:
    """The `top` best of engines by a goal, each on a machine of as many NPUs as it has. `pools`: what makes pools of
    engines with their ceilings; None: there are none."""
    search = _Search(service, goal, top, tell)
    made = [search.candidate(engine, machine) for engine, machine in every]
    if pools is not None:
        made += [search.candidate(engine, machine, ceiling) for engine, machine, ceiling in pools(search.ceilings)]
    left = sorted((each for each in made if each is not None),
                  key=lambda each: (each.least, each.machine.device, each.engine))
    for place, each in enumerate(left):
        search.show(len(left), place)
        worst = search.best[-1].order[0] if len(search.best) == top else math.inf
        if each.least[0] > worst:
            for other in left[place:]:
                search.lose(other, "ceiling", f"at most {other.rate:,.4g} requests/s an engine")
            break
        try:
            found = search.trial(each, worst)
        except InputError as error:
            search.lose(each, "unknown", error.message)
            continue
        if found is not None:
            search.best.append(found)
            search.best.sort(key=lambda trial: trial.key)
            for beaten in search.best[top:]:
                search.lose(beaten.candidate, "slower", f"{beaten.rate:,.4g} requests/s an engine")
            del search.best[top:]
    search.show(len(left), len(left))
    swept = [replace(trial, lower=tuple([search.serve(trial.candidate, share * trial.rate) for share in SWEEP
                                         if share * trial.rate >= SLOWEST])) for trial in search.best]
    return Explored(tuple(swept), tuple(search.lost), search.simulated, len(made))
