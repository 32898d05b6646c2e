"""Tree-structured Parzen estimator (Optuna)."""

from __future__ import annotations

import warnings
from typing import Annotated, ClassVar

from astrarium.config import Knob
from astrarium.search.agents.base import Agent, Batch, Options, one_objective
from astrarium.search.agents.optuna_bridge import Bridge, optuna_module
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Tpe"]


class Tpe(Options, frozen=True, kw_only=True):
    """Optuna's TPESampler: densities of good and of other points, per knob (Bergstra et al. 2011)."""

    tag: ClassVar[str] = "tpe"
    batch: Batch = 1
    startup: Annotated[int, Knob("Random points before the model is used.", ge=1)] = 20
    multivariate: Annotated[bool, Knob("Model knobs together rather than one by one.")] = True

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """A search from its beginning. Raises InputError where Optuna is absent."""
        one_objective("tpe", goal)
        optuna = optuna_module("tpe")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=self.startup,
                                                 multivariate=self.multivariate, constant_liar=self.batch > 1)
        return Bridge(optuna, sampler, space)
