"""Several fidelities: search in a cheaper network model first, and start the search in the dear one from its best.

Each of the two is an ordinary study. Whether the cheaper one is used, random designs decide that run in both models:
only if their rank correlation is sure to be high. Otherwise the search is in the dear model alone, and these designs
are its first.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct, structs

from astrarium import registry
from astrarium.arrays import F64
from astrarium.config import replace
from astrarium.errors import InputError, nearest
from astrarium.network.inactive import idle_fields
from astrarium.network.unseen import unseen
from astrarium.search.evaluate import Evaluator
from astrarium.search.goal import Goal
from astrarium.search.limits import NO_LIMITS, Limits
from astrarium.search.space import Space
from astrarium.search.starts import starts_of
from astrarium.search.store import uri_of
from astrarium.search.subject import SIMULATED, subject_of
from astrarium.search.trial import Trial
from astrarium.workload.jobs import Jobs

__all__ = ["TRIALS", "Cheaper", "Correlation", "cheaper", "correlation", "notes_of", "on_model", "pairs_of", "probe",
           "promoted", "save_found", "saved"]

TRIALS = 100        # of the search in the cheaper model
PROMOTED = 10       # its best designs, with which the dear search starts
PROBED = 16         # random designs that tell whether a model sees the objective at all
LOOKS = (8, 16)     # random designs with a value in both models, after which the correlation may decide
DRAWN = 64          # random designs, of which some are refused, at most
LOW = 0.5           # the rank correlation must be above it
FEW = 5             # designs from which on there is a correlation
LADDER = ("closed_form", "contention", "fluid", "packets", "ns3")      # the cheapest first: docs/guides/ladder.md
_TABLE = "CREATE TABLE IF NOT EXISTS fidelity (place INTEGER PRIMARY KEY, found TEXT NOT NULL)"


class Cheaper(Struct, frozen=True):
    """A search in a cheaper model. `below`: the models that are cheaper still; `space`: without the knobs `unseen`,
    which the model does not read, and which keep the base's values."""

    model: str
    below: tuple[str, ...]
    space: Space
    unseen: tuple[str, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """All cheaper models, the cheapest first."""
        return (*self.below, self.model)

    def file(self, study: str | os.PathLike[str] | None, of: str = "") -> str | None:
        """The file of its study, from that of the dear one: `x.study` gives `x.closed_form.study`. `of`: another word
        in place of the model."""
        if study is None:
            return None
        stem, end = os.path.splitext(os.fspath(study))
        return f"{stem}.{of or self.model}{end}"


class Correlation(Struct, frozen=True):
    """Whether `model` ranks designs as the `dear` model does. `drawn`: the first objective of random designs in both
    models; `promoted`: that of the cheaper search's best designs, which do not count, as they are alike."""

    model: str
    dear: str
    drawn: tuple[tuple[float, float], ...]
    promoted: tuple[tuple[float, float], ...] = ()

    @property
    def interval(self) -> tuple[float, float, float] | None:
        """Spearman's rank correlation of the random designs and its 95 % interval; None for fewer than FEW, or equal
        values."""
        return correlation([one for one, _ in self.drawn], [other for _, other in self.drawn])

    @property
    def verdict(self) -> str:
        """Whether the cheaper model is used: high; or it is not: low or undecided."""
        if self.interval is None:
            return "undecided"
        _, low, high = self.interval
        return "low" if high < LOW else "undecided" if low < LOW else "high"

    @property
    def words(self) -> str:
        """The correlation and its interval."""
        found = "" if self.interval is None else " {:.2f} (95 %: {:.2f} to {:.2f})".format(*self.interval)
        return f"rank correlation{found} over {len(self.drawn)} random designs"

    def __str__(self) -> str:
        """A line of a table."""
        done = "its best designs were tried" if self.verdict == "high" else "not used"
        return f"{self.model}: {self.words}: {self.verdict}, {done}"


def on_model(space: Space, model: str) -> Space:
    """The space with another network model; it has the same points. Raises InputError."""
    if space.base is None:
        raise InputError("base", "is missing", expected="a design, whose network model is changed")
    return structs.replace(space, base=replace(space.base, "network.backend", model))


def cheaper(space: Space, goal: Goal, fidelity: str | Sequence[str]) -> Cheaper | None:
    """The search that comes first; None if `fidelity` names no cheaper model.

    Args:
        space: The space of the dear search.
        goal: The goal of both.
        fidelity: Network models, the cheapest first; the base's own may be the last.

    Raises:
        InputError: for models that do not exist or are not cheaper, and for one that does not see the knobs or the
            objective.
    """
    names = (fidelity,) if isinstance(fidelity, str) else tuple(fidelity)
    if not names or names == (model := _model(space),):
        return None
    *below, last = names[:-1] if names[-1] == model else names
    for name, other in itertools.pairwise((*below, last, model)):
        _check(name, other)
    seen, idle = _seen(space.for_cases([path for case in goal.cases for path in case.changes]), last)
    _probe(seen, goal, last)
    return Cheaper(last, tuple(below), seen, idle)


def _model(space: Space) -> str:
    """The network model of a space. Raises InputError for a space without one."""
    if space.base is None or subject_of(space.base) is not SIMULATED:
        raise InputError("fidelity", "is of simulated designs", expected="no fidelity")
    if "network.backend" in space.paths:
        raise InputError("fidelity", "network.backend is a knob", expected="one network model in the base")
    return space.base.network.backend


def _check(name: str, other: str) -> None:
    known = registry.names("backend")
    if name not in known:
        raise InputError("fidelity", f"there is no network model {name!r}", expected="one of " + ", ".join(known),
                         did_you_mean=nearest(name, known))
    if name == other or (name in LADDER and other in LADDER and LADDER.index(name) > LADDER.index(other)):
        raise InputError("fidelity", f"{name} is not cheaper than {other}",
                         expected="models in the order " + ", ".join(LADDER))


def _seen(space: Space, model: str) -> tuple[Space, tuple[str, ...]]:
    """The space in a model, without the knobs that the model does not read; and their names."""
    heads = tuple(f"network.{field}" for field in idle_fields(model))
    idle = [path for path in space.choices if any(path == head or path.startswith((f"{head}.", f"{head}["))
                                                  for head in heads)]
    if len(idle) == len(space.choices) and not space.variables:
        raise InputError("fidelity", f"{model} sees none of the knobs: it does not read {', '.join(idle)}",
                         expected="a model that does, or no fidelity")
    whole = on_model(space, model)
    kept = {path: choice for path, choice in whole.choices.items() if path not in idle}
    return structs.replace(whole, choices=kept) if idle else whole, tuple(idle)


def _probe(space: Space, goal: Goal, model: str) -> None:
    """Raise InputError if a model does not see what jobs do to each other, or gives random designs one value."""
    rng, judge = random.Random(0), Evaluator(space, goal)
    points = list(dict.fromkeys(space.sample(rng) for _ in range(PROBED)))
    for design in _designs(space, points):
        jobs = len(design.workload.jobs) if isinstance(design.workload, Jobs) else 1
        if said := next(unseen(design.network, jobs), ""):
            raise InputError("fidelity", said, expected="a model that sees them, or no fidelity")
    verdicts = [verdict for verdict in judge.all(points) if verdict.feasible]
    if len(verdicts) > 1 and len({verdict.values for verdict in verdicts}) == 1:
        what = ", ".join(each.name for each in goal.objectives)
        raise InputError("fidelity", f"{model} gives {len(verdicts)} random designs the same {what}",
                         expected="a model that tells them apart, or no fidelity")


def _designs(space: Space, points: Sequence[Any]) -> Iterator[Any]:
    yield space.base
    for point in points:
        with contextlib.suppress(InputError):      # a design that its configuration refuses
            yield space.design(point)


def promoted(first: Cheaper, best: Sequence[Trial], problem: str) -> list[tuple[Trial, Mapping[str, Any]]]:
    """The designs that go to the dear search, the best first: the trial, and knob -> value. `best`: the best trials of
    the cheaper one; `problem`: why it has none. Raises InputError if there are none."""
    if not best:
        raise InputError("fidelity", f"{first.model} gave no design a value: {problem}", expected="another model")
    return [(trial, first.space.values(trial.point)) for trial in best[:PROMOTED]]


def pairs_of(space: Space, best: Sequence[tuple[Trial, Mapping[str, Any]]], trials: Iterable[Trial]
            ) -> tuple[tuple[float, float], ...]:
    """The first objective of promoted designs in the cheaper model and, among `trials`, in the dear one."""
    dear = {trial.point: trial.verdict.values[0] for trial in trials
            if trial.verdict.values is not None and trial.verdict.feasible}
    found = [(trial, starts_of(space, values).points[0]) for trial, values in best]
    return tuple((trial.verdict.values[0], dear[point]) for trial, point in found
                 if trial.verdict.values is not None and point in dear)


def notes_of(first: Cheaper, found: Correlation, notes: Sequence[str] = ()) -> Iterator[str]:
    """Sentences for the user about a cheaper model and its correlation; `notes`: of the search in it."""
    yield from (f"{first.model}: {each}" for each in notes)
    if found.verdict != "high":
        why = "ranks designs unlike" if found.verdict == "low" else "is not known to rank designs as"
        yield (f"{first.model} {why} {found.dear} ({found.words}; the interval must be above {LOW}): the search was in "
               f"{found.dear} alone")
    elif first.unseen:
        yield (f"{first.model} does not read {', '.join(first.unseen)}: its designs have the base's values, and the "
               "search in the dear model alone chooses others")


def probe(space: Space, goal: Goal, model: str, run: Callable[[int], Sequence[Trial]], limits: Limits = NO_LIMITS
          ) -> tuple[Sequence[Trial], Correlation]:
    """Draw random designs until their rank correlation in both models is high or low, at most those of LOOKS.

    Args:
        space: The space of the dear search.
        goal: Its goal.
        model: The cheaper model.
        run: Gives the first so many random trials in the dear model.
        limits: Limits of a design.

    Returns:
        The trials, and the correlation of those with values in both models.
    """
    judge, cheap = Evaluator(on_model(space, model), goal, limits=limits), dict[bytes, float | None]()
    due, dear = list(LOOKS), _model(space)
    for count in range(LOOKS[0], DRAWN + 1, LOOKS[0]):
        trials = run(count)
        good = {each.design: each for each in trials if each.verdict.feasible}
        new = [each for design, each in good.items() if design not in cheap]
        for each, verdict in zip(new, judge.all([each.point for each in new])):
            cheap[each.design] = verdict.values[0] if verdict.values is not None and verdict.feasible else None
        pairs = [(value, (each.verdict.values or ())[0]) for design, each in good.items()
                 if (value := cheap[design]) is not None]
        found = Correlation(model, dear, tuple(pairs[:due[0]]))
        if len(pairs) >= due[0] and (len(due) == 1 or found.verdict != "undecided"):
            break
        if len(pairs) >= due[0]:
            del due[0]
    return trials, found


def save_found(study: str | os.PathLike[str] | None, found: Sequence[Correlation]) -> None:
    """Keep correlations in the file of a study, for reports; does nothing if the file cannot be written."""
    if study is not None:
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(os.fspath(study))) as data, data:
            data.execute(_TABLE)
            data.executemany("INSERT OR REPLACE INTO fidelity VALUES (?, ?)",
                             [(place, msgspec.json.encode(each).decode()) for place, each in enumerate(found)])


def saved(file: str) -> tuple[Correlation, ...]:
    """The correlations that the file of a study keeps, the cheapest model first."""
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(uri_of(file), uri=True)) as data:
        return tuple(msgspec.json.decode(text, type=Correlation)
                     for text, in data.execute("SELECT found FROM fidelity ORDER BY place"))
    return ()


def correlation(one: Sequence[float], other: Sequence[float]) -> tuple[float, float, float] | None:
    """Spearman's rank correlation (equal values have their mean rank) and its 95 % interval; None for fewer than FEW
    values, or where all are equal.

    The interval is that of Fisher's z with the standard error sqrt((1 + r^2 / 2) / (n - 3)) (Bonett and Wright,
    Psychometrika 65, 2000). A perfect order counts as one swap of neighbours there, as its z is infinite.
    """
    count = len(one)
    if count < FEW or len(set(one)) == 1 or len(set(other)) == 1:
        return None
    found = float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])
    most = 1 - 12 / (count * (count**2 - 1))
    r = max(-most, min(most, found))
    half = 1.959964 * math.sqrt((1 + r * r / 2) / (count - 3))
    return found, math.tanh(math.atanh(r) - half), max(found, math.tanh(math.atanh(r) + half))


def _ranks(values: Sequence[float]) -> F64:
    """The rank of each value; equal ones have the mean of theirs."""
    _, place, counts = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place], dtype=np.float64)
