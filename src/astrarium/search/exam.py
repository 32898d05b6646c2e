"""The exam of agents: seeds replay, constraints hold, and the median over seeds beats random search.

A problem is a space with a function of its points. `problems()` are three whose optimum is known by construction;
any other space with a function will do. Plug-in agents sit the same exam as the built-in ones.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.search.agents.base import AgentOptions, Told, Values
from astrarium.search.agents.sampling import Random
from astrarium.search.axes import Point
from astrarium.search.goal import Goal, Objective
from astrarium.search.space import Space

__all__ = ["Exam", "Problem", "best_after", "dominated_area", "front_after", "problems", "sit"]

GOAL = Goal((Objective("value", "0"),))      # agents look at the number of objectives only
PATIENCE = 50      # asks without anything new after which an agent is through


class Problem(Struct, frozen=True):
    """A space with the value of each point (less is better)."""

    name: str
    space: Space
    value: Callable[[Point], float]


class Exam(Struct, frozen=True):
    """Medians over seeds of the best value after equally many distinct points, of the agent and of random search. An
    agent with a `gain` above 1 beats random search."""

    problem: str
    agent: float
    random: float

    @property
    def gain(self) -> float:
        """The median of random search over that of the agent."""
        return self.random / self.agent if self.agent else math.inf


def problems() -> tuple[Problem, ...]:
    """Three problems, of about 10^9 points each; the optimum of each is 1."""
    return _bowl(), _pairs(), _tiers()


def _bowl() -> Problem:
    """Every knob has its own target; a product couples four of them."""
    powers = [2**power for power in range(8)]
    space = Space(None, variables={**{f"p{i}": powers for i in range(4)}, **{f"x{i}": range(20) for i in range(5)}},
                  where="p0 * p1 * p2 * p3 == 1024")
    target = space.point(space.count * 3 // 7)

    def value(point: Point) -> float:
        return 1.0 + float(sum((a - b) ** 2 for a, b in zip(point, target)))
    return Problem("bowl", space, value)


def _pairs() -> Problem:
    """Unordered values whose worth lies in pairs: a random table per neighbouring pair, the planted optimum best."""
    rng = random.Random(12)
    space = Space(None, variables={f"c{i}": ["a", "b", "c", "d"] for i in range(15)})
    planted = space.sample(rng)
    tables = [[[rng.uniform(0.5, 2.0) for _ in range(4)] for _ in range(4)] for _ in planted]
    for index, table in enumerate(tables):
        table[planted[index]][planted[(index + 1) % 15]] = 0.0

    def value(point: Point) -> float:
        return 1.0 + sum(tables[i][point[i]][point[(i + 1) % 15]] for i in range(15))
    return Problem("pairs", space, value)


def _tiers() -> Problem:
    """A worst-of-several runtime on a logarithmic scale, with many equal values: like a pipeline of network dims."""
    space = Space(None, variables={f"b{i}": range(1, 21) for i in range(7)},
                  where="b0 + b1 + b2 + b3 + b4 + b5 + b6 <= 70")
    loads = (1, 2, 4, 8, 16, 24, 15)      # of 70: each dim gets its share, and all take the same time

    def value(point: Point) -> float:
        return float(max(load / (index + 1) for load, index in zip(loads, point))) / (24 / 20)
    return Problem("tiers", space, value)


def best_after(options: AgentOptions, problem: Problem, distinct: int, seed: int) -> tuple[float, Sequence[Point]]:
    """Run an agent until it has visited `distinct` distinct points, or proposes nothing new. Returns the best value and
    the points in the order of their first visit. Raises InputError if the agent leaves the space, or breaks the
    protocol of `Agent`."""
    seen = _visited(options, problem.space, lambda point: (problem.value(point),), GOAL, distinct, seed)
    return min((value for value, in seen.values()), default=math.inf), tuple(seen)


def front_after(options: AgentOptions, space: Space, values: Callable[[Point], Values], goal: Goal, distinct: int,
                seed: int) -> list[Values]:
    """Run an agent on several objectives (less is better). Returns the values of the front of the first `distinct`
    distinct points."""
    found = sorted(set(_visited(options, space, values, goal, distinct, seed).values()))
    return [one for one in found if math.isfinite(sum(one))
            and not any(other != one and all(a <= b for a, b in zip(other, one)) for other in found)]


def _visited(options: AgentOptions, space: Space, value: Callable[[Point], Values], goal: Goal, distinct: int,
             seed: int) -> dict[Point, Values]:
    agent = options.start(space, goal, seed)
    seen: dict[Point, Values] = {}
    idle = 0
    while len(seen) < distinct and idle < PATIENCE:
        points = agent.ask(options.batch)
        if not points:
            break
        if len(points) > options.batch:
            raise InputError("agent", f"gives {len(points)} points when asked for {options.batch}")
        before = len(seen)
        values: list[Values] = []
        for point in points:
            if space.number(point) < 0:
                raise InputError("agent", f"proposes {point}, which is not in the space")
            values.append(value(point))
            if len(seen) < distinct:
                seen.setdefault(point, values[-1])
        agent.tell([Told(point, value) for point, value in zip(points, values)])
        idle = 0 if len(seen) > before else idle + 1
    return seen


def sit(options: AgentOptions, problem: Problem, distinct: int, seeds: Sequence[int]) -> Exam:
    """Examine an agent on one problem. Raises InputError if a seed does not replay, or a constraint is broken."""
    found = []
    for seed in seeds:
        best, points = best_after(options, problem, distinct, seed)
        found.append(best)
        if seed == seeds[0] and best_after(options, problem, distinct, seed)[1] != points:
            raise InputError("agent", f"takes another way when seed {seed} is given again")
    rival = [best_after(Random(), problem, distinct, seed + 1000)[0] for seed in seeds]
    return Exam(problem.name, statistics.median(found), statistics.median(rival))


def dominated_area(values: Sequence[Sequence[float]], worst: Sequence[float]) -> float:
    """Hypervolume of a front of two objectives (less is better): the area between its points and `worst`. Points that
    are not better than `worst` in both add nothing."""
    area, height = 0.0, float(worst[1])
    for first, second in sorted((each[0], each[1]) for each in values):
        if first < worst[0] and second < height:
            area += (worst[0] - first) * (height - second)
            height = second
    return area
