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

__all__ = ["Search", "search"]

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
    seed: Annotated[int, Meta(ge=0)] = 0
    best: Annotated[str, Meta(description="Save the best design under this name.", examples=["best.yaml"])] = ""


class _EnoughError(Exception):
    """The CPU time of this operation is used."""


def search(request: Search, context: Context) -> Answer:
    """See `Search`."""
    from astrarium.search.searchfile import load_search
    from astrarium.search.study import DEFAULT
    from astrarium.search.study import search as searched
    from astrarium.search.subject import dump_base, subject_of

    if request.trials > context.limits.designs:
        raise InputError("trials", f"{request.trials:,} is more than is allowed here",
                         expected=f"at most {context.limits.designs:,}")
    name, path = context.file(request.space, "space"), _study(request.study, context, new=True)
    best = context.folder.new(request.best, "best") if request.best else ""
    file = load_search(name)
    agent = _agent(request.agent or file.agent or DEFAULT)
    asked: Any = request.minimize or request.maximize
    minimize, maximize = (request.minimize, request.maximize) if asked else (file.minimize, file.maximize)
    minimize = minimize or (() if maximize else subject_of(file.space.base).usual or ())
    _close(context)
    until = time.process_time() + SHARE * context.limits.seconds
    reached = 0

    def tell(state: Any) -> None:
        nonlocal reached
        reached = state.trials
        found = "" if state.best is None else f", best {state.best:.6g}"
        context.tell(Progress(state.trials, state.planned, f"{state.trials:,} of {state.planned:,} trials{found}"))
        if time.process_time() > until and state.fresh:
            raise _EnoughError

    words = [name, "--agent", agent, "--trials", str(request.trials), "--study", request.study]
    words += [] if not request.seed else ["--seed", str(request.seed)]
    try:
        study = searched(file.space, minimize, maximize=maximize, require=[*file.require, *request.require],
                         cases=file.cases, agent=agent, options=file.options if agent == file.agent else None,
                         trials=request.trials, seed=request.seed, study=path, limit=_limit(context), progress=tell)
    except _EnoughError:
        return Answer(title=request.study, found={"trials": reached, "planned": request.trials, "ended": False},
                      notes=(f"{reached:,} of {request.trials:,} trials are stored: the CPU time of one call is used; "
                             "the same call goes on from there (search_report shows the best so far)",))
    from astrarium.report.tables.study import study_best, study_plain, study_tables

    if best and study.best is not None:
        dump_base(study.plan.space.design(study.best.point), request.best)
    ten = study_best(study, path)
    numbers = [Number(each, f"{each} of the best trial", value, "", f"{value:.6g}")
               for each, value in study.objectives().items()]
    return Answer(title=request.study, numbers=tuple(numbers), tables=tuple(study_tables(study, name, ten)),
                  notes=study.notes, files=(request.study, *([request.best] if best and study.best else [])),
                  found=study_plain(study, ten) | {"ended": True}, command=command("search", words))


def _limit(context: Context) -> tuple[str, ...]:
    """No design takes all the time of a call."""
    return (f"{context.limits.seconds / 4:g} s",)


def _agent(name: str) -> str:
    """The name of an agent that runs here."""
    from astrarium.errors import nearest
    from astrarium.registry import built_ins

    known = [each for each in built_ins("agent") if each not in ("command", "http", "assistant", "ppo")]
    if name not in known:
        raise InputError("agent", f"{name[:60]!r} is not an algorithm here", expected="one of " + ", ".join(known),
                         did_you_mean=nearest(name, known))
    return name
