"""The verb: a space and what it is searched for in, a study out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from astrarium.errors import InputError
from astrarium.search.agents.base import AgentOptions, Options, agent_options
from astrarium.search.goal import Case, Goal, goal_of
from astrarium.search.limits import Limits, limits_of
from astrarium.search.space import Space
from astrarium.search.store import MEMORY, Store
from astrarium.search.study import Plan, Progress, Study, conduct
from astrarium.search.workers import Workers
from astrarium.units import Bytes

__all__ = ["cache_of", "chosen_agent", "default_agent", "search"]


def search(space: Space, minimize: Any = (), *, maximize: Any = (), require: str | Sequence[str] = (),
           cases: Sequence[Case] = (), agent: str | Options | None = None, options: Mapping[str, Any] | None = None,
           trials: int = 200, seed: int = 0, jobs: int = 1, processes: bool = False, ray: str | None = None,
           study: str | os.PathLike[str] | None = None, limit: str | Sequence[str] | Limits = (),
           cache: str | int = "512 MiB", progress: Callable[[Progress], None] | None = None) -> Study:
    """Search a space.

    `minimize` and `maximize`: `makespan`, another figure or name (`runtime_x_cost`), an expression, a function of
    (design, result), or several; `require`: conditions on designs and figures; `cases`: several workloads.
    `agent` and its `options`: see `astrarium list agent`; None: annealing, or nsga2 for several objectives. `jobs`
    evaluates so many designs at a time, in threads or in `processes`, and `ray` (`local`, `auto`, `host:port`) as many
    as a Ray cluster has CPUs; the trials are the same.
    `study`: the file that keeps them; the same call goes on where it stopped. `limit`: what one design may take, "10 s"
    of CPU time or "8 GB" of memory, or both; one that takes more is a trial without values, which says so. `cache`:
    what a process holds of workloads, traces and collectives for later designs, text or bytes; no result depends on it.
    Raises InputError before the first trial for whatever is wrong.
    """
    goal = goal_of(minimize, maximize, require, cases)
    plan = Plan(space, goal, chosen_agent(default_agent(goal) if agent is None else agent, options), seed)
    with Workers(plan.space, goal, jobs, "processes" if processes else "threads", ray, limits_of(limit),
                 cache_of(cache)) as workers, Store(MEMORY if study is None else os.fspath(study)) as store:
        return conduct(plan, trials, store, workers, progress)


def cache_of(given: str | int) -> int:
    """Bytes of caches, as a person writes them. Raises InputError."""
    try:
        size = int(Bytes(given)) if isinstance(given, str) else given
    except InputError:
        size = 0
    if size <= 0:
        raise InputError("cache", f"{given!r} is no size", expected='one such as "2 GB"')
    return size


def default_agent(goal: Goal) -> str:
    """The name of the agent that searches where nobody names one."""
    return "annealing" if len(goal.objectives) == 1 else "nsga2"


def chosen_agent(agent: str | Options, options: Mapping[str, Any] | None) -> AgentOptions:
    """An agent by name with options, or options as they are."""
    if isinstance(agent, str):
        return agent_options(agent, options)
    if not isinstance(agent, Options):
        raise InputError("agent", f"{agent!r} is not an agent", expected="a name, or the options of an agent")
    return cast(AgentOptions, msgspec.structs.replace(agent, **options) if options else agent)
