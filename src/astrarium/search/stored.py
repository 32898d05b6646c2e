"""Studies read back from their files: the plan, as far as a file can hold it, and the trials."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from astrarium.config import decode
from astrarium.cost import FIGURES
from astrarium.errors import InputError
from astrarium.search.agents.base import AgentOptions, Options
from astrarium.search.disk import damaged, disk_error, reading
from astrarium.search.goal import Case, Goal, Judge, Objective
from astrarium.search.inputs import Inputs, inputs_of
from astrarium.search.resume import INPUTS, refuse_others
from astrarium.search.spacefile import space_from
from astrarium.search.store import APPLICATION, Trial, trials_in
from astrarium.search.study import FUNCTION, Plan

__all__ = ["StoredStudy", "load_study", "study_of"]


class StoredStudy(Struct, frozen=True):
    """A study file. `functions`: some objective was a Python function, so that no trial can be run again. `inputs`:
    those of its trials, None where the file does not say."""

    path: str
    plan: Plan
    functions: bool
    inputs: Inputs | None = None

    def trials(self) -> Iterator[Trial]:
        """Every trial, in order; a study that is at work may be read."""
        data = _opened(self.path)
        try:
            with reading(self.path):
                yield from trials_in(data, 0)
        finally:
            data.close()

    def refuse_other_inputs(self, otherwise: str) -> None:
        """Raise InputError where what a run would read now is not that of the trials."""
        if self.inputs is not None:
            now = inputs_of(self.plan.space, self.plan.goal, self.plan.agent)
            refuse_others(self.path, self.inputs, now, otherwise)

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of `Verdict.figures`."""
        return () if self.functions else Judge(self.plan.space, self.plan.goal).figures


def _opened(path: str) -> sqlite3.Connection:
    if not os.path.isfile(path):
        raise InputError(path, "is not a file", expected="a study, as astrarium search writes it")
    try:
        data = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        known = data.execute("PRAGMA application_id").fetchone()[0]
    except sqlite3.Error as error:
        raise (InputError(path, f"is no study ({error})") if damaged(error) else disk_error(path, error)) from None
    if known != APPLICATION:
        data.close()
        raise InputError(path, "is no study", expected="a file that astrarium search has written")
    return data


def load_study(path: str | os.PathLike[str]) -> StoredStudy:
    """Read a study. Raises InputError where the file is none, or was written by another version's rules."""
    name = os.fspath(path)
    data = _opened(name)
    try:
        with reading(name):
            meta = dict(data.execute("SELECT key, value FROM meta"))
    finally:
        data.close()
    try:
        return study_of(name, {key: msgspec.json.decode(value) for key, value in meta.items()})
    except (KeyError, msgspec.DecodeError, ValueError, TypeError) as error:
        raise InputError(name, f"is a study that cannot be read ({type(error).__name__}: {error})") from None


def study_of(name: str, meta: Mapping[str, Any], folder: str = "") -> StoredStudy:
    """The study called `name` from its decoded plan; relative files of its base lie in `folder`. Raises KeyError,
    TypeError, ValueError or InputError where it is none."""
    objectives = tuple(Objective(each, _no_function if measure == FUNCTION else measure, sense == "max")
                       for each, sense, measure in meta["objectives"])
    cases = tuple(Case(each, weight, changes) for each, weight, changes in meta["cases"])
    goal = Goal(objectives, tuple(meta["requirements"]), cases)
    agent = cast(AgentOptions, decode(Options, meta["agent"]))
    functions = any(callable(each.measure) for each in objectives)
    plan = Plan(space_from(meta["space"], folder), goal, agent, int(meta["seed"]))
    return StoredStudy(name, plan, functions, meta.get(INPUTS))


def _no_function(*_: object) -> float:
    raise InputError("minimize", "was a Python function, which a study file does not hold",
                     expected=f"an expression over {', '.join(FIGURES)} and design paths")
