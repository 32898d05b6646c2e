"""Export studies: rows, Parquet with a data-set card, trajectories, an Optuna study."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from astrarium.config.whole import write_whole
from astrarium.cost import sentence
from astrarium.errors import InputError
from astrarium.search.agents.base import needed
from astrarium.search.axes import Axis
from astrarium.search.choice import plain
from astrarium.search.studyfile import StoredStudy

__all__ = ["card", "columns", "rows", "to_optuna", "write_parquet", "write_trajectory"]


def columns(study: StoredStudy) -> dict[str, str]:
    """Column of `rows` -> its meaning, in order."""
    space, goal = study.plan.space, study.plan.goal
    found = {"trial": "Number of the trial, from 0, in the order in which the agent asked.",
             "round": "The ask that proposed it; results of a round are told together.",
             "agent": "Agent.", "seed": "Seed of the agent.",
             "same_as": "Earlier trial of the same design, whose results these are; null where it was run."}
    for axis in space.axes:
        found[f"knob:{axis.name}"] = _meaning(axis)
    for path in space.scope.derived:
        found[f"derived:{path}"] = f"Derived: {space.derived.get(path, 'as its pattern says')}."
    for each in goal.objectives:
        found[f"objective:{each.name}"] = f"Objective, {'more' if each.maximize else 'less'} is better: {each.measure}."
    for name in study.figures:
        found[f"figure:{name}"] = sentence(name)
    for text in goal.requirements:
        found[f"slack:{text}"] = "By how much the requirement is met; negative: it is not."
    return found | {"feasible": "Whether there are objectives and every requirement is met.",
                    "problem": "Why the design was refused; empty where it was not.",
                    "seconds": "Wall-clock seconds of the evaluation.",
                    "version": "Version of Astrarium that exported."}


def _meaning(axis: Axis) -> str:
    unit = next((each.quantity.example.split()[1] for each in axis.fields if each.quantity is not None), "")
    kind = "A continuum" if not axis.size else f"One of {axis.size} {'ordered values' if axis.ordered else 'names'}"
    base = f"; in base units (byte, ns, byte/ns, flop/ns; 1 {unit} as typed)" if unit else ""
    return f"{kind}{base}{'; null where it is not chosen' if axis.when else ''}."


def rows(study: StoredStudy) -> Iterator[dict[str, Any]]:
    """Yield a row per trial: plain values, quantities in base units."""
    import astrarium

    plan, version = study.plan, astrarium.__version__
    figures, goal = study.figures, plan.goal
    for trial in study.trials():
        verdict = trial.verdict
        row: dict[str, Any] = {"trial": trial.number, "round": trial.round, "agent": plan.agent_name,
                               "seed": plan.seed, "same_as": trial.same_as}
        values = plan.space.values(trial.point)
        for axis in plan.space.axes:
            row[f"knob:{axis.name}"] = _cell(values.get(axis.name))
        for path in plan.space.scope.derived:
            row[f"derived:{path}"] = _cell(values[path])
        found = verdict.values or (None,) * len(goal.objectives)
        row |= {f"objective:{each.name}": value for each, value in zip(goal.objectives, found)}
        row |= {f"figure:{name}": _at(verdict.figures, place) for place, name in enumerate(figures)}
        row |= {f"slack:{text}": _at(verdict.slacks, place) for place, text in enumerate(goal.requirements)}
        yield row | {"feasible": verdict.feasible, "problem": verdict.problem, "seconds": verdict.seconds,
                     "version": version}


def _at(values: tuple[float, ...], place: int) -> float | None:
    return values[place] if place < len(values) and values[place] == values[place] else None


def _cell(value: Any) -> Any:
    return json.dumps(value, default=float) if isinstance(value, tuple) else plain(value)


def card(study: StoredStudy, name: str, count: int) -> str:
    """The data-set card (Markdown): the source of the rows and the meaning of each column."""
    plan = study.plan
    base = plan.space.base
    model = "" if base is None else f"network model `{base.network.backend}`, rule book `{base.compat}`"
    lines = [f"# {name}", "", f"{count} trials of a design-space search by Astrarium: agent `{plan.agent_name}`, seed "
             f"{plan.seed}, {model}. One row a trial. The figures are simulated, not measured.", "",
             f"Space: {plan.space.count:,} feasible designs of {plan.space.nominal:,} in {len(plan.space.axes)} knobs.",
             "", "| column | meaning |", "|---|---|"]
    lines += [f"| `{column}` | {meaning.replace('|', '/')} |" for column, meaning in columns(study).items()]
    lines += ["", "## Plan", ""]
    lines += [f"- {key}: `{value}`" for key, value in plan.described().items()]
    return "\n".join(lines) + "\n"


def write_parquet(study: StoredStudy, path: str) -> int:
    """Write a Parquet file and its card (`.md`). Returns the number of rows. Raises InputError without pyarrow."""
    arrow: Any = needed("--parquet", "parquet", "pyarrow", "pyarrow.parquet")
    names = list(columns(study))
    found: dict[str, list[Any]] = {name: [] for name in names}
    count = 0
    for row in rows(study):
        for name in names:
            found[name].append(row[name])
        count += 1
    table = arrow.table({name: _array(arrow, values) for name, values in found.items()})
    text = card(study, os.path.basename(path), count)
    with write_whole(path) as stream:
        arrow.parquet.write_table(table, stream)
    with write_whole(f"{os.path.splitext(path)[0]}.md") as stream:
        stream.write(text.encode())
    return count


def _array(arrow: Any, values: list[Any]) -> Any:
    """Make a column; values of several types become text."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and not kinds <= {int, float}:
        values = [None if value is None else str(value) for value in values]
    if kinds == {int, float}:
        values = [None if value is None else float(value) for value in values]
    return arrow.array(values)


def write_trajectory(study: StoredStudy, path: str) -> int:
    """Write a line of JSON per trial, as ArchGym does: step, action (knob -> value), observation (objectives), reward
    (the first objective, negative if less is better; null if infeasible). Returns the number of lines."""
    names, sign = study.plan.goal.objectives, 1.0 if study.plan.goal.objectives[0].maximize else -1.0
    lines = []
    for trial in study.trials():
        values = trial.verdict.values
        action = {name: _cell(value) for name, value in study.plan.space.values(trial.point).items()}
        lines.append(json.dumps({
            "step": trial.number, "action": action,
            "observation": None if values is None else {each.name: value for each, value in zip(names, values)},
            "reward": sign * values[0] if values is not None and trial.verdict.feasible else None}))
    with write_whole(path) as stream:
        stream.write("".join(f"{line}\n" for line in lines).encode())
    return len(lines)


def to_optuna(study: StoredStudy, storage: str, name: str) -> Any:
    """Write the study to an Optuna storage (`sqlite:///file.db`), which optuna-dashboard opens. Returns the Optuna
    study. Raises InputError if the storage has a study of that name, or Optuna is not installed."""
    optuna: Any = needed("--optuna", "search", "optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    goal, space = study.plan.goal, study.plan.space
    try:
        made = optuna.create_study(storage=storage, study_name=name,
                                   directions=["maximize" if each.maximize else "minimize" for each in goal.objectives])
    except optuna.exceptions.DuplicatedStudyError:
        raise InputError(storage, f"holds a study named {name!r} already", expected="another name or storage") from None
    kinds = {axis.name: _distribution(optuna, axis) for axis in space.axes}
    made.add_trials([_optuna_trial(optuna, trial, kinds, space.values(trial.point)) for trial in study.trials()])
    return made


def _distribution(optuna: Any, axis: Axis) -> Any:
    if not axis.size:
        return optuna.distributions.FloatDistribution(axis.domain.low, axis.domain.high, log=axis.domain.log)
    return optuna.distributions.CategoricalDistribution(tuple(_cell(value) for value in axis.values))


def _optuna_trial(optuna: Any, trial: Any, kinds: dict[str, Any], values: dict[str, Any]) -> Any:
    params = {name: _cell(values[name]) for name in kinds if name in values}
    good = trial.verdict.feasible
    state = optuna.trial.TrialState.COMPLETE if good else optuna.trial.TrialState.FAIL
    return optuna.trial.create_trial(state=state, params=params, distributions={name: kinds[name] for name in params},
                                     values=list(trial.verdict.values) if good else None,
                                     user_attrs={"problem": trial.verdict.problem} if trial.verdict.problem else None)
