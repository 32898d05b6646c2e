"""Bayesian optimisation with a Gaussian process (Optuna's GPSampler, on PyTorch)."""

from __future__ import annotations

import warnings
from typing import Annotated, ClassVar

from astrarium.config import Knob
from astrarium.search.agents.base import Agent, Batch, Options, one_objective
from astrarium.search.agents.optuna_bridge import Bridge, optuna_module
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Bayesian"]


class Bayesian(Options, frozen=True, kw_only=True):
    """Optuna's GPSampler: Matern kernel with a length scale per knob, log expected improvement. Its time grows with the
    cube of the trials: meant for a few hundred. COSMIC ran scikit-optimize's BayesSearchCV with seeds 1 to 4."""

    tag: ClassVar[str] = "bayesian"
    batch: Batch = 1
    startup: Annotated[int, Knob("Random points before the model is used.", ge=1)] = 20

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """A search from its beginning. Raises InputError where a library is absent."""
        one_objective("bayesian", goal)
        optuna = optuna_module("bayesian", "torch", "scipy", extra="bayesian")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=self.startup, deterministic_objective=True)
        return Bridge(optuna, sampler, space, model=True, seed=seed)
