"""The best trial, and the trials that none beats."""

from __future__ import annotations

from collections.abc import Sequence

from astrarium.search.store import Trial

__all__ = ["Front", "dominated_area"]


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
