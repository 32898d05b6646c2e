"""A search by a built-in agent, as far as the limits of an operation allow at a time."""

from __future__ import annotations

import time
from typing import Annotated, Any

from msgspec import Meta, Struct

from astrarium.errors import InputError
from astrarium.service.answer import Answer, Number, Progress
from astrarium.service.context import Context
from astrarium.service.operations.fields import command
from astrarium.service.operations.study import Measures, SpaceFile, _close, _study

__all__ = ["Search", "command_of", "search"]

SHARE = 0.6     # of the CPU time of an operation, after which a search answers with what it has


class Search(Struct, frozen=True, forbid_unknown_fields=True):
    """Search a space with a built-in algorithm (catalog('agent'): tpe, bayesian, genetic, ant_colony, nsga2 for several
    objectives, exact for a proof...). Trials are stored in the study; if the limit of CPU time comes first, the answer
    says how far it is, and the same call goes on."""

    space: SpaceFile
    study: Annotated[str, Meta(description="Name of the study file.", examples=["network.study"])]
    minimize: Measures = []
    maximize: Measures = []
    require: Annotated[list[str], Meta(description="Conditions that designs must meet.",
                                       examples=[["peak_memory <= memory.capacity"]])] = []
    agent: Annotated[str, Meta(description="Name of the algorithm; default: the file's, else the usual one.")] = ""
    trials: Annotated[int, Meta(ge=1, description="Trials of the study in the end, stored ones included.")] = 200
    seed: Annotated[int, Meta(ge=0, description="Seed of the algorithm.")] = 0
    best: Annotated[str, Meta(description="Save the best design under this name.", examples=["best.yaml"])] = ""


class _EnoughError(Exception):
    """The CPU time of this operation is used."""


def search(request: Search, context: Context) -> Answer:
    """See `Search`."""
    from astrarium.report.tables.study import shown, study_best, study_plain, study_tables
    from astrarium.search.best import ranked, thinned
    from astrarium.search.goal import goal_of
    from astrarium.search.searchfile import load_search
    from astrarium.search.study import DEFAULT
    from astrarium.search.study import search as searched
    from astrarium.search.subject import dump_base, subject_of

    said, path = command_of(request, context), _study(request.study, context, new=True)
    name = context.file(request.space, "space")
    if request.best:
        context.folder.new(request.best, "best")
    file = load_search(name)
    agent = request.agent or file.agent or DEFAULT
    asked: Any = request.minimize or request.maximize
    minimize, maximize = (request.minimize, request.maximize) if asked else (file.minimize, file.maximize)
    minimize = minimize or (() if maximize else subject_of(file.space.base).usual or ())
    _close(context)
    first = goal_of(minimize, maximize).objectives[0].name
    until, reached = time.process_time() + SHARE * context.limits.seconds, 0

    def tell(state: Any) -> None:
        nonlocal reached
        reached = state.trials
        best = None if state.best is None else Number(first, first, state.best, "", shown(first, state.best))
        found = "" if best is None else f", best {first} {best.text}"
        context.tell(Progress(state.trials, state.planned, f"{state.trials:,} of {state.planned:,} trials{found}, "
                              f"{state.refused:,} refused", best))
        if time.process_time() > until and state.fresh:
            raise _EnoughError

    try:
        study = searched(file.space, minimize, maximize=maximize, require=[*file.require, *request.require],
                         cases=file.cases, agent=agent, options=file.options if agent == file.agent else None,
                         trials=request.trials, seed=request.seed, study=path, limit=(_limit(context),), progress=tell)
    except _EnoughError:
        return Answer(title=request.study, found={"trials": reached, "planned": request.trials, "ended": False},
                      notes=(f"{reached:,} of {request.trials:,} trials are stored: the CPU time of one call is used; "
                             "the same call goes on from there (search_report shows the best so far)",))
    if request.best and study.best is not None:
        dump_base(study.plan.space.design(study.best.point), request.best)
    listed = study.top if len(study.plan.goal.objectives) == 1 else thinned(study.front, len(study.top))
    ten = study_best(study, path) if time.process_time() < until else \
        ranked(study.plan.space, study.plan.goal, listed, simulate=False)       # memory that runs again would need
    numbers = [Number(each, f"{each} of the best trial", value, "", f"{value:.6g}")
               for each, value in study.objectives().items()]
    return Answer(title=request.study, numbers=tuple(numbers), tables=tuple(study_tables(study, name, ten)),
                  notes=study.notes, files=(request.study, *([request.best] if request.best and study.best else [])),
                  found=study_plain(study, ten) | {"ended": True}, command=said, result=study)


def command_of(request: Search, context: Context) -> str:
    """The command line of a search. Raises InputError for an unknown agent, more trials than are allowed, and a space
    that is none."""
    from astrarium.search.searchfile import load_search
    from astrarium.search.study import DEFAULT

    if request.trials > context.limits.designs:
        raise InputError("trials", f"{request.trials:,} is more than is allowed here",
                         expected=f"at most {context.limits.designs:,}")
    name = context.file(request.space, "space")
    agent = load_search(name).agent
    words = [name, "--agent", _agent(request.agent or agent or DEFAULT)]
    words += ["--trials", str(request.trials), "--study", request.study]
    words += [] if not request.seed else ["--seed", str(request.seed)]
    for flag, measures in (("--minimize", request.minimize), ("--maximize", request.maximize)):
        named = measures.items() if isinstance(measures, dict) else ((each, each) for each in measures)
        words += [word for key, each in named for word in (flag, each if key == each else f"{key}={each}")]
    words += [word for each in request.require for word in ("--require", each)]
    return command("search", words, "--limit", _limit(context))


def _limit(context: Context) -> str:
    """CPU time of one design."""
    return f"{context.limits.design:g} s"


def _agent(name: str) -> str:
    """The name of an agent that runs here."""
    from astrarium.errors import nearest
    from astrarium.registry import built_ins

    known = [each for each in built_ins("agent") if each not in ("command", "http", "assistant", "ppo")]
    if name not in known:
        raise InputError("agent", f"{name[:60]!r} is not an algorithm here", expected="one of " + ", ".join(known),
                         did_you_mean=nearest(name, known))
    return name
