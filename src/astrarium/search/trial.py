"""Trials and their verdicts, and the best of them: the ten best designs, the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from astrarium.search.axes import Point
from astrarium.search.limits import STOPPED

__all__ = ["Front", "Top", "Trial", "Verdict", "dominated_area"]

BEST = 10


class Verdict(Struct, frozen=True):
    """What a trial found. `values`: the objectives as they are (None where the design cannot be judged); `slacks`: by
    how much each requirement is met (negative: not); `problem`: why the design was refused."""

    values: tuple[float, ...] | None
    figures: tuple[float, ...] = ()
    slacks: tuple[float, ...] = ()
    problem: str = ""
    seconds: float = 0.0

    @property
    def feasible(self) -> bool:
        """Whether there are values and every requirement is met."""
        return self.values is not None and all(slack >= 0 for slack in self.slacks)

    @property
    def stopped(self) -> bool:
        """Whether the design ended at a limit, so that nobody knows what it is worth."""
        return self.problem.startswith(STOPPED)


class Trial(Struct, frozen=True):
    """One trial. `round`: the ask that proposed it; `design`: hash of what was simulated; `same_as`: an earlier
    trial of the same design, whose results these are."""

    number: int
    round: int
    point: Point
    design: bytes
    same_as: int | None
    verdict: Verdict


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
