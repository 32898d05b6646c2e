"""Covariance matrix adaptation evolution strategy (Optuna, with the package cmaes)."""

from __future__ import annotations

import warnings
from typing import ClassVar

from astrarium.errors import InputError
from astrarium.search.agents.base import Agent, Batch, Options, one_objective
from astrarium.search.agents.optuna_bridge import Bridge, optuna_module
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["CmaEs"]


class CmaEs(Options, frozen=True, kw_only=True):
    """Optuna's CmaEsSampler on value indexes; knobs without an order are treated as if they had one."""

    tag: ClassVar[str] = "cma_es"
    batch: Batch = 16

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """A search from its beginning; the batch is the population. Raises InputError where a library is absent."""
        one_objective("cma_es", goal)
        optuna = optuna_module("cma_es", "cmaes")
        if len(space.axes) < 2:
            raise InputError("agent", "cma_es needs two knobs or more", expected="another agent")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.CmaEsSampler(seed=seed, popsize=self.batch, with_margin=False,
                                                   independent_sampler=optuna.samplers.RandomSampler(seed=seed),
                                                   warn_independent_sampling=False)
        return Bridge(optuna, sampler, space, lamarckian=False, ordered=True)
