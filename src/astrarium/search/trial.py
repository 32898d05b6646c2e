"""Trials and their verdicts, and the best of them: the ten best designs, the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from astrarium.search.axes import Point
from astrarium.search.limits import STOPPED

__all__ = ["BEYOND", "Front", "Near", "Nearest", "Progress", "Top", "Trial", "Verdict"]

BEST = 10
BEYOND = "beyond the cap"      # how the reasons of trials begin that were stopped as their objective cannot be good


class Verdict(Struct, frozen=True):
    """The result of a trial. `values`: the objectives (None if the design was refused); `figures`: those of the goal,
    in their order; `slacks`: the margin by which each requirement is met (negative: it is not); `problem`: why the
    design was refused; `seconds`: wall-clock seconds of the evaluation; `bound`: the first objective, less is better,
    is at least this (of a design beyond the cap that did not run)."""

    values: tuple[float, ...] | None
    figures: tuple[float, ...] = ()
    slacks: tuple[float, ...] = ()
    problem: str = ""
    seconds: float = 0.0
    bound: float | None = None

    @property
    def feasible(self) -> bool:
        """Whether the design has values and meets every requirement."""
        return self.values is not None and all(slack >= 0 for slack in self.slacks)

    @property
    def stopped(self) -> bool:
        """Whether the design was stopped at a limit, so that its values are not known."""
        return self.problem.startswith(STOPPED)

    @property
    def beyond(self) -> bool:
        """Whether the design was stopped because its objective is sure to be worse than the cap of the study."""
        return self.problem.startswith(BEYOND)


class Trial(Struct, frozen=True):
    """One trial. `round`: the ask that proposed it; `design`: hash of what was simulated; `same_as`: an earlier
    trial of the same design, whose results these are."""

    number: int
    round: int
    point: Point
    design: bytes
    same_as: int | None
    verdict: Verdict


class Progress(Struct):
    """The progress of a study: reported at its start, after every batch, and within a batch every second."""

    trials: int
    planned: int
    best: float | None
    seconds: float
    fresh: int      # trials of this run, without those that were stored before
    refused: int = 0      # trials without values: a model refused the design, a requirement did, or a limit ended it


class Top:
    """Collects the best distinct designs by the first objective; of equal ones the earlier comes first. `sign`: -1 if
    more is better, else 1."""

    def __init__(self, sign: float):
        self.sign = sign
        self._kept: list[tuple[float, int, Trial]] = []

    def add(self, trial: Trial) -> None:
        """Add a trial; infeasible ones and repeated designs do not count."""
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
        """The collected trials, the best first."""
        return tuple(trial for _, _, trial in self._kept)


class Nearest(Struct, frozen=True):
    """The trial that comes nearest to meeting all requirements. `missed` [requirements]: trials that miss each."""

    trial: Trial
    missed: tuple[int, ...]


class Near:
    """Collects the trials that come nearest to meeting all requirements: no other misses each of them by less."""

    def __init__(self, requirements: int):
        self._missed = [0] * requirements
        self._most = [0.0] * requirements        # by which a trial missed it
        self._kept: list[tuple[tuple[float, ...], Trial]] = []

    def add(self, trial: Trial) -> None:
        """Add a trial; those that meet all requirements, or of which no margins are known, do not count."""
        short = tuple(max(0.0, -slack) for slack in trial.verdict.slacks)
        if not any(short):
            return
        self._missed = [count + (each > 0) for count, each in zip(self._missed, short, strict=True)]
        self._most = list(map(max, self._most, short))
        if any(all(a <= b for a, b in zip(other, short)) for other, _ in self._kept):
            return
        self._kept = [(other, kept) for other, kept in self._kept if not all(b <= a for a, b in zip(other, short))]
        self._kept.append((short, trial))

    @property
    def found(self) -> Nearest | None:
        """The nearest trial: each miss counts as a share of the largest miss of its requirement."""
        def far(each: tuple[tuple[float, ...], Trial]) -> tuple[float, int]:
            return sum(miss / most for miss, most in zip(each[0], self._most) if miss), each[1].number

        return Nearest(min(self._kept, key=far)[1], tuple(self._missed)) if self._kept else None


class Front:
    """Collects the Pareto front: trials that no other trial equals or beats in every objective; of equal ones the first
    stays. `signs`: per objective -1 if more is better, else 1. With one objective the front is the best trial."""

    def __init__(self, signs: Sequence[float]):
        self.signs = tuple(signs)
        self._kept: list[tuple[tuple[float, ...], Trial]] = []

    def add(self, trial: Trial) -> None:
        """Add a trial; infeasible ones do not count."""
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
        """The best trial by the first objective; None if there is none."""
        return min(self._kept, key=lambda each: (each[0], each[1].number), default=((), None))[1]

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The front, sorted by the first objective."""
        return tuple(trial for _, trial in sorted(self._kept, key=lambda each: (each[0], each[1].number)))
