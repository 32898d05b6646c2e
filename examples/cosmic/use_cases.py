"""The best designs of the use cases (multi-model, chat, QA), each tried in the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runs import MIXES, Found, cases_of
from spaces import Setup, objective, space

from astrarium.search.evaluate import Evaluator
from astrarium.search.goal import goal_of
from astrarium.search.limits import limits_of

REWARD, LIMIT = "perf_per_bandwidth", "10 s"


def best_designs(found: Sequence[Found]) -> dict[tuple[str, int], Found]:
    """(use case, seed) -> the search with the best design under performance/bandwidth."""
    best: dict[tuple[str, int], Found] = {}
    for each in found:
        key = each.run.setup.stack, each.run.seed
        if each.run.setup.reward == REWARD and each.best is not None \
                and (key not in best or each.best < (best[key].best or 0)):
            best[key] = each
    return best


def trying(use_case: str) -> Callable[[Mapping[str, Any]], float | None]:
    """A function from the knobs of a design to its objective in a use case; None if it is refused. A knob that the
    design does not name is as in the base."""
    setup = Setup(use_case, REWARD)
    made = space(setup)
    judge = Evaluator(made, goal_of(objective(setup), cases=cases_of(setup)), limits=limits_of(LIMIT))

    def value(values: Mapping[str, Any]) -> float | None:
        point = made.point_of({axis.name: values.get(axis.name, axis.otherwise) for axis in made.axes})
        verdict = judge(point)
        return verdict.values[0] if made.number(point) >= 0 and verdict.values is not None else None
    return value


def losses(found: Sequence[Found]) -> dict[tuple[str, str], list[float]]:
    """(use case, another) -> per seed the objective with the best design of the other, over that with its own best; a
    design that the use case refuses has no ratio."""
    best = best_designs(found)
    ratios: dict[tuple[str, str], list[float]] = {}
    for use_case in MIXES:
        tried = trying(use_case)
        for (other, seed), theirs in best.items():
            own = best.get((use_case, seed))
            if other == use_case or own is None or own.best is None:
                continue
            value = tried(theirs.values)
            if value is not None:
                ratios.setdefault((use_case, other), []).append(value / own.best)
    return ratios
