"""The best designs of a study, with the memory and the cost of each, and the trials that none beats."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from astrarium.cost import FIGURES
from astrarium.errors import InputError
from astrarium.search.evaluate import Evaluator
from astrarium.search.goal import Goal, Judge, Objective
from astrarium.search.limits import Limits
from astrarium.search.space import Space
from astrarium.search.store import Trial

__all__ = ["COSTS", "RUNS", "Front", "Ranked", "Top", "differing", "dominated_area", "ranked"]

BEST = 10
NONE: Mapping[bytes, float] = MappingProxyType({})
RUNS = 30.0         # seconds that trials took which run again for their memory
COSTS = ("system_cost", "network_cost")     # the first that a design says enough for


class Top:
    """The best distinct designs of trials as they come, by the first objective; the earlier of equals first."""

    def __init__(self, sign: float):
        self.sign = sign
        self._kept: list[tuple[float, int, Trial]] = []

    def add(self, trial: Trial) -> None:
        """Look at one more trial; infeasible ones and designs known before do not count."""
        values = trial.verdict.values
        if trial.same_as is not None or values is None or not trial.verdict.feasible:
            return
        worth = self.sign * values[0]
        if len(self._kept) < BEST or worth < self._kept[-1][0]:
            self._kept.append((worth, trial.number, trial))
            self._kept.sort(key=lambda each: each[:2])
            del self._kept[BEST:]

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The best first."""
        return tuple(trial for _, _, trial in self._kept)


class Front:
    """Trials that no other beats in every objective (Pareto); of equal ones the first stays. `signs`: -1 where more is
    better. With one objective it is the best trial."""

    def __init__(self, signs: Sequence[float]):
        self.signs = tuple(signs)
        self._kept: list[tuple[tuple[float, ...], Trial]] = []

    def add(self, trial: Trial) -> None:
        """Look at one more trial; infeasible ones do not count."""
        verdict = trial.verdict
        if verdict.values is None or not verdict.feasible:
            return
        value = tuple(sign * each for sign, each in zip(self.signs, verdict.values))
        for other, _ in self._kept:
            if all(a <= b for a, b in zip(other, value)):
                return
        self._kept = [(other, kept) for other, kept in self._kept if not all(b <= a for a, b in zip(other, value))]
        self._kept.append((value, trial))

    @property
    def best(self) -> Trial | None:
        """The first of the trials that are best in the first objective."""
        return min(self._kept, key=lambda each: (each[0], each[1].number), default=((), None))[1]

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The front, by its first objective."""
        return tuple(trial for _, trial in sorted(self._kept, key=lambda each: (each[0], each[1].number)))


def dominated_area(values: Sequence[Sequence[float]], worst: Sequence[float]) -> float:
    """Hypervolume of a front of two objectives (less is better): the area between its points and `worst`. Points that
    are not better than `worst` in both add nothing."""
    area, height = 0.0, float(worst[1])
    for first, second in sorted((each[0], each[1]) for each in values):
        if first < worst[0] and second < height:
            area += (worst[0] - first) * (height - second)
            height = second
    return area


class Ranked(Struct, frozen=True):
    """A trial; the highest use of memory in bytes (None: the workload does not say, or it was not run again for it);
    US dollars of the kind `cost_of` (None: the design does not say enough)."""

    trial: Trial
    memory: float | None
    cost: float | None
    cost_of: str


def ranked(space: Space, goal: Goal, trials: Sequence[Trial], *, simulate: bool = True,
           memory_of: Mapping[bytes, float] = NONE, progress: Callable[[int, int], None] | None = None) -> list[Ranked]:
    """Memory and cost of trials: what they were judged by, else what their designs say, else `memory_of` a design, else
    (`simulate`) another run that records memory, for as many as took `RUNS` seconds together. `progress` is told how
    many are looked at, of how many."""
    figures = Judge(space, goal).figures if not any(callable(each.measure) for each in goal.objectives) else ()
    left, judge, found = RUNS if simulate else 0.0, None, list[Ranked]()
    for trial in trials:
        if progress is not None:
            progress(len(found), len(trials))
        known = dict(zip(figures, trial.verdict.figures))
        memory = known.get("peak_memory", memory_of.get(trial.design))
        if memory is None and trial.verdict.seconds < left:
            left -= trial.verdict.seconds
            judge = judge or Evaluator(space, Goal((Objective("peak_memory", "peak_memory"),), (), goal.cases),
                                       limits=Limits(RUNS))
            values = judge(trial.point).values
            memory = None if values is None else values[0]
        kind, cost = next(_costs(space, trial, known), ("", None))
        found.append(Ranked(trial, memory, cost, kind))
    return found


def _costs(space: Space, trial: Trial, known: dict[str, float]) -> Iterator[tuple[str, float | None]]:
    for name in COSTS:
        if name in known:
            yield name, known[name]
            continue
        figure = FIGURES[name]
        with contextlib.suppress(InputError):
            design = space.design(trial.point)
            if figure.check is not None:
                figure.check(design)
            if figure.of_design is not None:
                yield name, figure.of_design(design)


def differing(space: Space, trials: Sequence[Trial]) -> list[tuple[str, list[object]]]:
    """(knob, its value in each trial) of knobs that are not the same in all of them."""
    values = [space.values(trial.point) for trial in trials]
    names = dict.fromkeys(name for each in values for name in each)
    rows = [(name, [each.get(name) for each in values]) for name in names]
    return [(name, row) for name, row in rows if any(value != row[0] for value in row)]
