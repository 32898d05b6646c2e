"""An agent of one's own: climbers that change one knob at a time, and start anew where no change helps any more.

A class of options (fields are what `--option` sets) makes the search; the search is asked for points and told what they
are worth. It sits the exam of the built-in agents, then looks for a network.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import astrarium as ar
from astrarium.plugins import Knob
from astrarium.search import Agent, Batch, Goal, Options, Point, Space, Told, one_objective, problems, sit


class Climb(Options, frozen=True, kw_only=True):
    """As many climbers as the batch."""

    tag: ClassVar[str] = "climb"
    batch: Batch = 4
    patience: Annotated[int, Knob("Moves that do not help after which a climber starts anew.", ge=1)] = 40

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        one_objective("climb", goal)
        return Climbers(self, space, seed)


class Climbers:
    def __init__(self, options: Climb, space: Space, seed: int):
        self.options, self.space, self.rng = options, space, random.Random(seed)
        self.at: list[Point | None] = [None] * options.batch
        self.value, self.idle = [math.inf] * options.batch, [0] * options.batch

    def ask(self, count: int) -> list[Point]:
        return [self.move(point) for point in self.at[:count]]

    def move(self, point: Point | None) -> Point:
        if point is None:
            return self.space.sample(self.rng)
        place = self.rng.randrange(len(self.space.axes))
        return self.space.projector.moved(point, place, self.rng, 0.3)     # moves others where constraints ask for it

    def tell(self, told: Sequence[Told]) -> None:
        for number, each in enumerate(told):
            point, (value,) = each.point, each.values
            better = value < self.value[number]
            self.idle[number] = 0 if better else self.idle[number] + 1
            if better or (self.at[number] is None and math.isfinite(value)):
                self.at[number], self.value[number] = point, value
            if self.idle[number] > self.options.patience:
                self.at[number], self.value[number], self.idle[number] = None, math.inf, 0


def main() -> None:
    for problem in problems():
        print(f"{problem.name}: {sit(Climb(), problem, 300, range(5)).gain:.2f} times as good as random search")
    base = ar.load_design(Path(__file__).parent.parent / "search" / "design.yaml")
    space = ar.Space(base, {"network.dims[*].npus": [4, 8, 16], "network.dims[*].bandwidth": ["100 GB/s", "200 GB/s"],
                            "collective.chunks": [1, 2, 4, 8, 16]}, "network.npus == 1024")
    study = ar.search(space, "runtime_x_cost", agent=Climb(patience=20), trials=100, seed=1)
    print(f"{study.trials} trials: {study.objectives()['runtime_x_cost']:.4g}")


if __name__ == "__main__":
    main()
