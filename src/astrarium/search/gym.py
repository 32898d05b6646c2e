"""Spaces as Gymnasium environments, for any reinforcement-learning library.

    import gymnasium, astrarium.search.gym
    env = gymnasium.make("Astrarium/Design-v0", space="space.yaml", minimize="makespan")

An action is one value index per knob; what is not feasible is moved to the nearest feasible design (`info["point"]`).
The reward is ln(base / value): the base design's objective over that of the design, so 0 is as good as the base and
ln 2 twice as good; an infeasible design has the reward `penalty`. Needs the extra `search`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from typing import IO, Any, SupportsFloat

import numpy as np
import numpy.typing as npt

from astrarium.errors import InputError
from astrarium.search.agents.base import Told, needed
from astrarium.search.axes import Point
from astrarium.search.dialogue import Dialogue
from astrarium.search.evaluate import Evaluator
from astrarium.search.goal import goal_of
from astrarium.search.searchfile import load_space
from astrarium.search.space import Space
from astrarium.search.trial import Verdict

gymnasium: Any = needed("the environment", "search", "gymnasium", "gymnasium.spaces")

__all__ = ["ENVIRONMENT", "DesignEnv", "action_space", "action_wish"]

ENVIRONMENT = "Astrarium/Design-v0"
LEVELS = 33      # values of an action for a knob that is a continuum

Observation = npt.NDArray[np.float32]


def action_space(space: Space) -> Any:
    """A MultiDiscrete with one entry per knob; a continuum has 33 levels."""
    return gymnasium.spaces.MultiDiscrete([axis.size or LEVELS for axis in space.axes])


def action_wish(space: Space, action: Sequence[int]) -> list[float]:
    """Convert an action to a wish of `Projector.project`."""
    found: list[float] = []
    for axis, index in zip(space.axes, action):
        if axis.size:
            found.append(int(index))
        else:
            found.append(axis.domain.low + int(index) / (LEVELS - 1) * (axis.domain.high - axis.domain.low))
    return found


class DesignEnv(gymnasium.Env):      # type: ignore[misc]
    """A space as an environment. An episode is `steps` designs; the observation is the last design (each knob's index
    over its range, -1 to 1) and its reward; `log` is a file to which every step is added as a line of JSON."""

    metadata: dict[str, Any] = {"render_modes": []}      # noqa: RUF012

    def __init__(self, space: Space | str, minimize: Any = (), *, maximize: Any = (), require: str | Sequence[str] = (),
                 steps: int = 16, penalty: float = -10.0, log: str | None = None, render_mode: None = None):
        """Raises InputError if the goal does not fit the space, or does not have exactly one objective."""
        self.space = space if isinstance(space, Space) else load_space(space)
        goal = goal_of(minimize, maximize, require)
        if len(goal.objectives) != 1:
            raise InputError("minimize", "the reward is made of one objective", expected="one")
        self.render_mode = render_mode
        self.steps, self.penalty, self._step = steps, penalty, 0
        self._judge = Evaluator(self.space, goal)
        self._dialogue = Dialogue(self.space, goal, self._judge.judge.figures)
        self._sign = -1.0 if goal.objectives[0].maximize else 1.0
        self._base = self._base_value()
        self._log: IO[str] | None = None
        if log is not None:
            self._log = open(os.fspath(log), "a", encoding="utf-8")      # noqa: SIM115
        self.action_space = action_space(self.space)
        count = len(self.space.axes)
        self.observation_space = gymnasium.spaces.Box(
            np.array([-1.0] * count + [-abs(penalty)], np.float32),
            np.array([1.0] * count + [abs(penalty)], np.float32))

    def _base_value(self) -> float:
        """The objective of the feasible design nearest to the base, or of the first that has one. Raises InputError."""
        wish = [_held(axis) for axis in self.space.axes]
        for point in (self.space.projector.project(wish), *map(self.space.point, range(min(64, self.space.count)))):
            verdict = self._judge(point)
            if verdict.values is not None and verdict.values[0] > 0:
                return verdict.values[0]
        raise InputError("base", "neither it nor one of 64 designs of the space has an objective above 0")

    def reset(self, *, seed: int | None = None,
              options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:      # noqa: ARG002
        """Start an episode; its first observation is zeros."""
        super().reset(seed=seed)
        self._step = 0
        return np.zeros(len(self.space.axes) + 1, np.float32), {}

    def step(self, action: Sequence[int]) -> tuple[Observation, SupportsFloat, bool, bool, dict[str, Any]]:
        """Judge one design. `info`: point, objective (None: it has none), and `trial`, what an agent in a program of
        its own is told of it (`Dialogue.told`): values, figures, the margin of each requirement, why it was refused."""
        point = self.space.projector.project(action_wish(self.space, action))
        verdict = self._judge(point)
        reward = self._reward(verdict)
        self._step += 1
        told = self._dialogue.told(Told(point, (), verdict, self._step - 1))
        info = {"point": point, "objective": None if verdict.values is None else verdict.values[0], "trial": told}
        if self._log is not None:
            line = {"step": self._step, "action": [int(each) for each in action], "observation": list(point),
                    "reward": reward, "objective": info["objective"]}
            self._log.write(json.dumps(line) + "\n")
        return self._observation(point, reward), reward, False, self._step >= self.steps, info

    def _reward(self, verdict: Verdict) -> float:
        if verdict.values is None or not verdict.feasible or verdict.values[0] <= 0:
            return self.penalty
        most = abs(self.penalty)
        return min(most, max(-most, self._sign * math.log(self._base / verdict.values[0])))

    def _observation(self, point: Point, reward: float) -> Observation:
        found = []
        for axis, index in zip(self.space.axes, point):
            if axis.size:
                found.append(2 * index / (axis.size - 1) - 1 if axis.size > 1 and index >= 0 else -1.0)
            else:
                found.append(2 * (index - axis.domain.low) / ((axis.domain.high - axis.domain.low) or 1) - 1)
        return np.array([*found, reward], np.float32)

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()


def _held(axis: Any) -> float:
    if not axis.size:
        held = axis.otherwise
        return axis.domain.low if held is None else float(held)
    return axis.values.index(axis.otherwise) if axis.otherwise in axis.values else 0


if ENVIRONMENT not in gymnasium.registry:
    gymnasium.register(ENVIRONMENT, entry_point="astrarium.search.gym:DesignEnv")
