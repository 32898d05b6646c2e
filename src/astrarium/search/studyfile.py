"""The plan of a study, and the file that holds it: described, checked before it goes on, read back."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from astrarium.config import decode, to_plain
from astrarium.cost import FIGURES
from astrarium.errors import AstrariumError, InputError
from astrarium.search.agents.base import AgentOptions, Options
from astrarium.search.axes import Point
from astrarium.search.before import MAKESPAN
from astrarium.search.choice import jsonable
from astrarium.search.evaluate import Judge
from astrarium.search.goal import FUNCTION, Case, Goal, Objective
from astrarium.search.inputs import Inputs, differing, inputs_of, of_values
from astrarium.search.searchfile import space_from
from astrarium.search.space import Space, space_plain
from astrarium.search.store import APPLICATION, Store, damaged, disk_error, reading, trials_in, uri_of
from astrarium.search.subject import subject_of
from astrarium.search.trial import Top, Trial, Verdict

__all__ = ["INPUTS", "Plan", "StoredStudy", "best_values", "design_keys", "is_study", "known_designs", "load_study",
           "refuse_others", "resume", "stored_starts", "study_of", "tried"]

FORMAT = "2"
INPUTS = "inputs"       # the key of the record in a study file
DATABASE = b"SQLite format 3"
SHOWN = 60              # characters of a value in a message


class Plan(Struct, frozen=True):
    """The plan of a study. Equal plans give equal trials, on any machine and with any number of workers. `cap`: a
    design whose objective is sure to be worse than so many times the best of earlier rounds is stopped."""

    space: Space
    goal: Goal
    agent: AgentOptions
    seed: int = 0
    starts: tuple[Point, ...] = ()
    cap: float | None = None
    fidelity: tuple[str, ...] = ()      # cheaper network models, whose best designs are among the starts

    def __post_init__(self) -> None:
        if self.cap is not None:
            _check_cap(self.cap, self.space, self.goal)
            if getattr(self.agent, "in_flight", 0):
                raise InputError("cap", "is that of the rounds of a search, and there are none with in_flight",
                                 expected="no cap, or in_flight=0")
        changed = [path for case in self.goal.cases for path in case.changes]
        force_setattr(self, "space", self.space.for_cases(changed))

    @property
    def agent_name(self) -> str:
        """The name of the agent."""
        assert isinstance(self.agent, Options)
        return self.agent.tag

    def described(self) -> dict[str, str]:
        """The plan as texts, entry by entry; equal for equal plans."""
        def text(value: object) -> str:
            return msgspec.json.encode(jsonable(value)).decode()      # in the order written: it is that of the axes
        measures = [[each.name, "max" if each.maximize else "min",
                     each.measure if isinstance(each.measure, str) else FUNCTION] for each in self.goal.objectives]
        cases = [[case.name, case.weight, dict(case.changes)] for case in self.goal.cases]
        assert isinstance(self.agent, Options)
        return {"format": FORMAT, "space": text(space_plain(self.space)), "objectives": text(measures),
                "requirements": text(self.goal.requirements), "cases": text(cases),
                "agent": text(to_plain(self.agent, defaults=True)), "seed": str(self.seed),
                **({"starts": text(self.starts)} if self.starts else {}),
                **({} if self.cap is None else {"cap": text(self.cap)}),
                **({"fidelity": text(self.fidelity)} if self.fidelity else {})}


def _check_cap(cap: float, space: Space, goal: Goal) -> None:
    """Raise InputError for a cap that is impossible, or that the goal does not allow."""
    if not math.isfinite(cap) or cap < 1:
        raise InputError("cap", f"{cap!r} is impossible", expected="a number from 1 on")
    if len(goal.objectives) > 1 or callable(goal.objectives[0].measure):
        raise InputError("cap", "needs one objective, which is an expression", expected="no cap, or such an objective")
    if MAKESPAN not in subject_of(space.base).figures:
        raise InputError("cap", "stops simulations, and these designs serve requests", expected="no cap")


def design_keys(plan: Plan) -> Callable[[Point], bytes]:
    """A function from a point to the hash of its design: of the base and of every value that is put into it."""
    prefix, space = hashlib.blake2b(plan.described()["space"].encode()).digest(), plan.space
    return lambda point: hashlib.blake2b(space.fingerprint(point), digest_size=16, key=prefix).digest()


def resume(store: Store, described: Mapping[str, str], inputs: Inputs) -> None:
    """Describe a new study file, or check that a file with trials has this plan and these inputs. Raises InputError
    with the first difference."""
    known = store.meta()
    if not known or not (store.count or store.given):       # nothing would be mixed
        store.describe({**described, INPUTS: msgspec.json.encode(inputs).decode()})
        return
    new = f"a new study, without these trials: --study {_free(store.path)}"
    if INPUTS not in known:
        raise InputError(store.path, "was made by an Astrarium that recorded neither versions nor files, so that its "
                         "trials may be of other inputs", expected=new)
    for key in dict.fromkeys((*described, "starts", "cap", "fidelity")):
        value = described.get(key, "")
        if known.get(key, "") != value:
            which = "other" if key.endswith("s") else "another"
            raise InputError(store.path, f"holds a study with {which} {key}{_where(known.get(key, ''), value)}",
                             expected=f"the same command, or {new}")
    refuse_others(store.path, msgspec.json.decode(known[INPUTS]), inputs, new)


def refuse_others(path: str, known: Inputs, now: Inputs, otherwise: str) -> None:
    """Raise InputError if the trials of a study file have other inputs than `now`. `otherwise`: what a user may do
    instead."""
    if said := differing(known, now):
        raise InputError(path, f"holds trials of other inputs: {said}", expected=f"these as they were, or {otherwise}")


def _free(path: str) -> str:
    """A file name like the study's that is not taken."""
    stem, end = os.path.splitext(path)
    return next(name for number in itertools.count(2) if not os.path.exists(name := f"{stem}.{number}{end}"))


def _where(known: str, now: str) -> str:
    """The first place at which two JSON texts differ, with both values."""
    try:
        place, before, after = _first(msgspec.json.decode(known), msgspec.json.decode(now), "")
    except msgspec.DecodeError:
        return ""
    except StopIteration:
        return " (the same in another order)"
    named = f"{place}: " if place and not place.startswith("[") else ""
    return f" ({named}{_short(before)} there, {_short(after)} here)"


def _first(one: Any, other: Any, place: str) -> tuple[str, Any, Any]:
    if isinstance(one, dict) and isinstance(other, dict):
        key = next(key for key in (*one, *other) if one.get(key) != other.get(key) or (key in one) != (key in other))
        return _first(one.get(key), other.get(key), f"{place}.{key}" if place else str(key))
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        number = next(number for number in range(len(one)) if one[number] != other[number])
        return _first(one[number], other[number], f"{place}[{number}]")
    return place, one, other


def _short(value: Any) -> str:
    if value in (None, [], {}):
        return "none"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN else text[:SHOWN - 1] + "…"


class StoredStudy(Struct, frozen=True):
    """A study file that was read. `functions`: whether an objective was a Python function, so that no trial can run
    again; `inputs`: those of the trials (None: an old file without them)."""

    path: str
    plan: Plan
    functions: bool
    inputs: Inputs | None = None

    def trials(self) -> Iterator[Trial]:
        """Yield every trial, in order; the study may be running."""
        data = _opened(self.path)
        try:
            with reading(self.path):
                yield from trials_in(data, 0)
        finally:
            data.close()

    def refuse_other_inputs(self, otherwise: str) -> None:
        """Raise InputError if a run would read other inputs now than the trials did."""
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
    data = None
    try:
        data = sqlite3.connect(uri_of(path), uri=True)
        known = data.execute("PRAGMA application_id").fetchone()[0]
    except sqlite3.Error as error:
        if data is not None:
            data.close()
        raise (InputError(path, f"is not a study ({error})") if damaged(error) else disk_error(path, error)) from None
    if known != APPLICATION:
        data.close()
        raise InputError(path, "is not a study", expected="a file that astrarium search has written")
    return data


def load_study(path: str | os.PathLike[str]) -> StoredStudy:
    """Read a study file. Raises InputError if it is not one, or if this version cannot read it."""
    name = os.fspath(path)
    data = _opened(name)
    try:
        with reading(name):
            meta = dict(data.execute("SELECT key, value FROM meta"))
    finally:
        data.close()
    if not meta:
        raise InputError(name, "is the beginning of a study: its search ended before it stored anything",
                         expected="the same search again")
    try:
        return study_of(name, {key: msgspec.json.decode(value) for key, value in meta.items()})
    except (KeyError, msgspec.DecodeError, ValueError, TypeError) as error:
        raise InputError(name, f"is a study that cannot be read ({type(error).__name__}: {error})") from None


def stored_starts(store: Store, new: tuple[Point, ...]) -> tuple[Point, ...]:
    """The starts of a study that goes on; those of a new one."""
    known = store.meta()
    if not known or not store.count:
        return new
    return tuple(tuple(point) for point in msgspec.json.decode(known.get("starts", "[]")))


def is_study(path: object) -> bool:
    """Whether a file is a study; False for a value that is not a path. Raises InputError if it cannot be read."""
    if not isinstance(path, (str, os.PathLike)):
        return False
    try:
        with open(path, "rb") as stream:
            return stream.read(len(DATABASE)) == DATABASE
    except OSError as error:
        raise InputError(os.fspath(path), f"cannot be read ({error.strerror or error})") from None


def known_designs(start: Any) -> tuple[list[str], list[Any]]:
    """The study files among the starts of a search (one, several or None), and their designs: of a study its ten
    best. Raises InputError for a study without any."""
    several = isinstance(start, Sequence) and not isinstance(start, str)
    listed: Sequence[Any] = start if several else () if start is None else (start,)
    files = [os.fspath(each) for each in listed if is_study(each)]
    return files, [each for given in listed
                   for each in (best_values(os.fspath(given)) if is_study(given) else (given,))]


def best_values(path: str) -> list[dict[str, Any]]:
    """Knob -> value of the ten best designs of a study file. Raises InputError if it has none."""
    study = load_study(path)
    best = Top(-1.0 if study.plan.goal.objectives[0].maximize else 1.0)
    for trial in study.trials():
        best.add(trial)
    if not best.trials:
        raise InputError(path, "has no feasible trial", expected="a study with one")
    return [study.plan.space.values(trial.point) for trial in best.trials]


def tried(stored: StoredStudy, plan: Plan) -> dict[bytes, Verdict]:
    """The verdicts of a study whose space grew: key of a design (as `design_keys` gives it) -> its verdict, of the
    designs that the plan's space has. A value that is added to a knob, and a knob that is added with the base's value,
    change no design that was tried. None if base, derived paths, goal or inputs differ; a trial that a limit stopped
    is left out."""
    if not _comparable(stored, plan):
        return {}
    key, found = design_keys(plan), dict[bytes, Verdict]()
    for trial in stored.trials():
        if trial.same_as is None and not trial.verdict.stopped and not trial.verdict.beyond:
            values = stored.plan.space.values(trial.point)
            try:
                point = plan.space.point_of(_with_base(plan.space, values))
            except AstrariumError:      # a value that is gone
                continue
            found[key(point)] = trial.verdict
    return found


def _comparable(stored: StoredStudy, plan: Plan) -> bool:
    mine, theirs = plan.described(), stored.plan.described()
    goal = all(mine[name] == theirs[name] for name in ("objectives", "requirements", "cases"))
    one, other = space_plain(plan.space), space_plain(stored.plan.space)
    return goal and not stored.functions and stored.inputs is not None and all(
        one.get(part) == other.get(part) for part in ("base", "derived")) and \
        not differing(of_values(stored.inputs), of_values(inputs_of(plan.space, plan.goal)))


def _with_base(space: Space, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the space's own knobs; those of a knob that is new are the base's."""
    known = {axis.name: values.get(axis.name, axis.otherwise) for axis in space.axes}
    return {axis.name: known[axis.name] for axis in space.axes if axis.when is None or axis.name in values}


def study_of(name: str, meta: Mapping[str, Any], folder: str = "") -> StoredStudy:
    """Make the study called `name` of its decoded plan; relative files of its base start at `folder`. Raises KeyError,
    TypeError, ValueError or InputError if the plan cannot be decoded."""
    objectives = tuple(Objective(each, _no_function if measure == FUNCTION else measure, sense == "max")
                       for each, sense, measure in meta["objectives"])
    cases = tuple(Case(each, weight, changes) for each, weight, changes in meta["cases"])
    goal = Goal(objectives, tuple(meta["requirements"]), cases)
    agent = cast(AgentOptions, decode(Options, meta["agent"]))
    functions = any(callable(each.measure) for each in objectives)
    starts = tuple(tuple(point) for point in meta.get("starts", ()))
    plan = Plan(space_from(meta["space"], folder), goal, agent, int(meta["seed"]), starts, meta.get("cap"),
                tuple(meta.get("fidelity", ())))
    return StoredStudy(name, plan, functions, meta.get(INPUTS))


def _no_function(*_: object) -> float:
    raise InputError("minimize", "was a Python function, which a study file does not hold",
                     expected=f"an expression over {', '.join(FIGURES)} and design paths")
