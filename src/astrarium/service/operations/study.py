"""A search by an assistant, step by step: it proposes designs, we evaluate them. The agents' protocol (design/0003)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from astrarium.errors import InputError
from astrarium.report.tables.table import Table
from astrarium.service.answer import Answer, Progress
from astrarium.service.context import Context

if TYPE_CHECKING:
    from astrarium.service.session import Session, State

__all__ = ["Start", "Step", "key_of", "start", "step"]

BEST, LAST = 10, 10      # trials of a summary
LONGEST = 60            # characters of a problem in a table

SpaceFile = Annotated[str | dict[str, Any], Meta(
    description="The space: a file of the folder or its content. `base`: a design file; `choices`: path of a field -> "
                "list of values, or {from:, to:, step:}; `constraints`: expressions over paths; `derived`: path -> "
                "expression.",
    examples=[{"base": "design.yaml", "choices": {"collective.chunks": [1, 2, 4, 8],
                                                  "network.dims[1].bandwidth": ["50 GB/s", "100 GB/s"]},
               "constraints": ["network.dims[0].npus * network.dims[1].npus == 64"]}])]
Measures = Annotated[list[str] | dict[str, str], Meta(
    description="Objectives: figures of catalog('figure') or expressions over figures and paths; a mapping names them.",
    examples=[["makespan"], {"time_x_cost": "makespan * network_cost"}])]
StudyName = Annotated[str, Meta(description="A study of the folder.", examples=["mine.study"])]


class Start(Struct, frozen=True, forbid_unknown_fields=True):
    """Begin (or go on with) a search in which you are the agent. Answers the knobs with their legal values and units,
    the constraints, the goal, and the base design's result. Then call search_step with designs that you propose. Trials
    are stored in the study, which may be continued at any time; none is run twice. For a search by a built-in
    algorithm use search_agent."""

    space: SpaceFile
    study: Annotated[str, Meta(description="Name of the study file; one of the same space and goal goes on.",
                               examples=["mine.study"])]
    minimize: Measures = []
    maximize: Measures = []
    require: Annotated[list[str], Meta(description="Conditions that designs must meet.",
                                       examples=[["peak_memory <= memory.capacity"]])] = []
    batch: Annotated[int, Meta(ge=1, le=1000, description="Designs that you may propose at a time.")] = 16


def start(request: Start, context: Context) -> Answer:
    """See `Start`."""
    from astrarium.search.agents.outside import Assistant
    from astrarium.search.goal import goal_of
    from astrarium.search.searchfile import load_search
    from astrarium.search.starts import starts_of
    from astrarium.search.studyfile import Plan
    from astrarium.search.subject import subject_of
    from astrarium.service.session import Session

    name, path = context.file(request.space, "space"), _study(request.study, context, new=True)
    file = load_search(name)
    asked = bool(request.minimize or request.maximize)
    minimize: Any = request.minimize if asked else file.minimize
    maximize: Any = request.maximize if asked else file.maximize
    minimize = minimize or (() if maximize else subject_of(file.space.base).usual or ())
    goal = goal_of(minimize, maximize, [*file.require, *request.require], file.cases)
    plan = Plan(file.space, goal, Assistant(batch=request.batch))
    starts = starts_of(plan.space, (), base=True)
    _close(context)
    session = Session(msgspec.structs.replace(plan, starts=starts.points), path, context.limits)
    session.tell = _telling(context)
    state = _opened(session, context)
    return _answer(request.study, session, state, opening=True, notes=starts.notes)


class Step(Struct, frozen=True, forbid_unknown_fields=True):
    """One step of a search in which you are the agent: propose designs, and hear for each the objectives, figures,
    margins of the requirements (below 0: not met) and why it was refused. Or `explain` two designs: why do their
    makespans differ, by knob. A proposal that breaks a constraint is refused with the nearest feasible design, and
    costs nothing. Without any of them: the state of the study (best and last trials)."""

    study: StudyName
    propose: Annotated[list[dict[str, Any]], Meta(
        description="Designs, each a value for every knob as search_start listed them (knobs with `when` only where "
                    "this holds).",
        examples=[[{"collective.chunks": 4, "network.dims[1].bandwidth": "100 GB/s"}]])] = []
    explain: Annotated[list[dict[str, Any]], Meta(description="Two designs, as in `propose`.")] = []
    note: Annotated[str, Meta(description="Why you propose these; for readers of the log.", max_length=2000)] = ""


def step(request: Step, context: Context) -> Answer:
    """See `Step`."""
    session, state = _session(request.study, context)
    session.tell = _telling(context)
    if request.propose or request.explain:
        line = msgspec.json.encode({"propose": request.propose, "explain": request.explain, "note": request.note})
        state = session.step(line)
    elif state is None:
        from astrarium.service.session import State

        state = State((), session.ended)
    return _answer(request.study, session, state)


def key_of(operation: str, request: Mapping[str, Any]) -> str:
    """The worker that an operation needs: that of its study."""
    return f"study {request.get('study')}" if operation in ("search_start", "search_step", "search_agent") else ""


def _study(name: str, context: Context, *, new: bool) -> str:
    """The name of a study file, which is its path in the folder."""
    if new:
        context.folder.new(name, "study", (".study",))
    elif not name.endswith(".study"):
        raise InputError("study", f"{name!r} has another ending", expected="a name that ends in .study")
    else:
        context.folder.path(name, "study")
    return os.path.normpath(name)


def _session(name: str, context: Context) -> tuple[Session, State | None]:
    """The open study, or the one of the file; with what was said when it opened just now."""
    from astrarium.search.agents.outside import Assistant
    from astrarium.search.studyfile import load_study
    from astrarium.service.session import Session

    path = _study(name, context, new=False)
    held: Session | None = context.held.get("session")
    if held is not None and held.path == path:
        return held, None
    plan = load_study(path).plan
    if not isinstance(plan.agent, Assistant):
        raise InputError("study", f"{name!r} is a study of agent {plan.agent_name}",
                         expected="a study that search_start has made; search_agent goes on with this one")
    _close(context)
    session = Session(plan, path, context.limits)
    session.tell = _telling(context)
    return session, _opened(session, context)


def _opened(session: Session, context: Context) -> State:
    """Keep a session that asks for the first time, and what it says."""
    state = session.wait()
    context.held["session"] = session
    return state


def _close(context: Context) -> None:
    """A worker holds one study."""
    held: Session | None = context.held.pop("session", None)
    if held is not None and not held.ended:
        held.step(b'{"stop": true}')


def _telling(context: Context) -> Any:
    def tell(state: Any) -> None:
        context.tell(Progress(state.trials, None, f"{state.trials:,} trials"))

    return tell


def _answer(name: str, session: Session, state: State, *, opening: bool = False,
            notes: Sequence[str] = ()) -> Answer:
    """What was said, as messages and as tables."""
    trials = [each for each in state.messages if each["type"] == "trial"]
    others = [each for each in state.messages if each["type"] in ("refused", "explanation")]
    found: dict[str, Any] = {"study": name, "ended": state.ended}
    if opening:
        found["space"] = session.opening
    if len(trials) > session.plan.agent.batch or not (trials or others):
        found["history"] = _history(session)
        trials = []
    found |= {"trials": trials, **({"refused": others[0]} if others and others[0]["type"] == "refused" else {}),
              **({"explanation": others[0]} if others and others[0]["type"] == "explanation" else {})}
    tables = [*(_opening_tables(session.opening) if opening else ()), *_trial_tables("trials", trials, session),
              *_history_tables(found.get("history"), session), *_other_tables(others)]
    return Answer(title=name, tables=tuple(tables), notes=tuple(notes), found=found)


def _history(session: Session) -> dict[str, Any]:
    """How many trials there are, the best and the last of them."""
    from astrarium.search.agents.base import Told
    from astrarium.search.studyfile import load_study
    from astrarium.search.trial import Top, Trial

    top, last, count = Top(-1.0 if session.plan.goal.objectives[0].maximize else 1.0), list[Any](), 0
    for trial in load_study(session.path).trials():
        top.add(trial)
        last, count = [*last[1 - LAST:], trial], count + 1

    def said(trial: Trial) -> dict[str, Any]:
        return session.dialogue.told(Told(trial.point, (), trial.verdict, trial.number))

    return {"count": count, "best": list(map(said, top.trials[:BEST])), "last": list(map(said, last))}


def _opening_tables(opening: Mapping[str, Any]) -> Iterable[Table]:
    rows = [(each["name"], _values(each), str(each["base"]), each["help"] + (f" (only where {each['when']})"
                                                                           if each["when"] else ""))
            for each in opening["knobs"]]
    yield Table(f"knobs ({opening['designs']:,} designs)", "<<<<", rows, ("knob", "values", "base", ""))
    goal = [(f"{each['sense']} {each['name']}", str(each["measure"])) for each in opening["objectives"]]
    goal += [("require", each) for each in opening["requirements"]]
    goal += [("constraint", each) for each in opening["constraints"]]
    goal += [(f"{path} =", text) for path, text in opening["derived"].items()]
    yield Table("goal", "<<", goal)


def _values(knob: Mapping[str, Any]) -> str:
    if "values" in knob:
        return ", ".join(_plain(each) for each in knob["values"])
    return f"{knob['from']} to {knob['to']}" + (" (logarithmic)" if knob["log"] else "")


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _trial_tables(title: str, trials: Sequence[Mapping[str, Any]], session: Session) -> Iterable[Table]:
    if not trials:
        return
    from astrarium.report.tables.study import shown

    names = [each.name for each in session.plan.goal.objectives]
    knobs = list(dict.fromkeys(knob for each in trials for knob in each["values"]))
    rows = []
    for each in trials:
        values = each["objectives"] or {}
        state = "" if each["feasible"] else each["problem"][:LONGEST] or _missed(each)
        rows.append((str(each["trial"]), *(shown(name, values[name]) if name in values else "-" for name in names),
                     state, *(_plain(each["values"].get(knob, "")) for knob in knobs)))
    yield Table(title, ">" * (1 + len(names)) + "<" * (1 + len(knobs)), rows, ("trial", *names, "", *knobs))


def _missed(trial: Mapping[str, Any]) -> str:
    return "; ".join(f"misses {text} by {-slack:.6g}" for text, slack in trial["slacks"].items() if slack < 0)


def _history_tables(history: Mapping[str, Any] | None, session: Session) -> Iterable[Table]:
    if history is not None and history["count"]:
        yield from _trial_tables(f"best of {history['count']:,} trials", history["best"], session)
        yield from _trial_tables("last trials", history["last"], session)


def _other_tables(others: Sequence[Mapping[str, Any]]) -> Iterable[Table]:
    for each in others:
        if each["type"] == "refused":
            rows = [("problem", each["problem"])]
            rows += [("nearest feasible", _plain(each["nearest"]))] if each["nearest"] else []
            yield Table("refused: nothing was run", "<<", rows)
        else:
            rows = [(", ".join(one["knobs"]), f"{1e3 * one['contribution']:+.6g} ms") for one in each["changes"]]
            yield Table(f"makespan {1e3 * each['before']:.6g} to {1e3 * each['after']:.6g} ms, by knob", "<>", rows)
