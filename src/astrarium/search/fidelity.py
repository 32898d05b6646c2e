"""Several fidelities: search in a cheaper network model first, and start the search in the dear one from its best.

Each of the two is an ordinary study. The dear one has values of its own model only. Afterwards its designs are
evaluated in the cheaper model, too, for the rank correlation of both.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import random
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

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
from astrarium.search.subject import SIMULATED, subject_of
from astrarium.search.trial import Trial
from astrarium.workload.jobs import Jobs

__all__ = ["TRIALS", "Cheaper", "Correlation", "cheaper", "compared", "correlation", "notes_of", "on_model",
           "promoted", "stored"]

TRIALS = 100        # of the search in the cheaper model
PROMOTED = 10       # its best designs, with which the dear search starts
PROBED = 16         # random designs that tell whether a model sees the objective at all
COMPARED = 200      # designs of the dear search that are evaluated in the cheaper model, at most
LOW = 0.5           # rank correlation below which a promotion is not trusted
FEW = 5             # designs from which on there is a correlation, and designs beyond the starts for a verdict
LADDER = ("closed_form", "contention", "fluid", "packets", "ns3")      # the cheapest first: docs/guides/ladder.md
_TABLE = "CREATE TABLE IF NOT EXISTS cheaper (design BLOB PRIMARY KEY, value REAL) WITHOUT ROWID"


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

    def file(self, study: str | os.PathLike[str] | None) -> str | None:
        """The file of its study, from that of the dear one: `x.study` gives `x.closed_form.study`."""
        if study is None:
            return None
        stem, end = os.path.splitext(os.fspath(study))
        return f"{stem}.{self.model}{end}"


class Correlation(Struct, frozen=True):
    """Spearman's rank correlation of `model` with the model of a search, over its feasible `designs`, and its 95 %
    interval; None for fewer than FEW designs, or equal values. `starts` of the designs were promoted, and are alike:
    over them alone the correlation says little."""

    model: str
    designs: int
    starts: int
    value: float | None
    low: float | None
    high: float | None

    @property
    def verdict(self) -> str:
        """Whether the promotion is to be trusted: high, low or undecided."""
        if self.low is None or self.high is None or self.designs - self.starts < FEW:
            return "undecided"
        return "low" if self.high < LOW else "undecided" if self.low < LOW else "high"

    def __str__(self) -> str:
        """A line of a table."""
        found = "" if self.value is None else f" {self.value:.2f} (95 %: {self.low:.2f} to {self.high:.2f})"
        return (f"{self.model}: rank correlation{found} over {self.designs} designs, {self.starts} of them starts: "
                f"{self.verdict}")


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


def promoted(first: Cheaper, best: Sequence[Trial], problem: str) -> Sequence[Mapping[str, Any]]:
    """Knob -> value of the designs that go to the dear search, the best first. `best`: the best trials of the cheaper
    one; `problem`: why it has none. Raises InputError if there are none."""
    if not best:
        raise InputError("fidelity", f"{first.model} gave no design a value: {problem}", expected="another model")
    return [first.space.values(trial.point) for trial in best[:PROMOTED]]


def notes_of(first: Cheaper, notes: Sequence[str], found: Correlation) -> Iterator[str]:
    """Sentences for the user about a search in a cheaper model, which has `notes` itself, and its correlation."""
    yield from (f"{first.model}: {each}" for each in notes)
    if first.unseen:
        yield (f"{first.model} does not read {', '.join(first.unseen)}: its designs have the base's values, and the "
               "search in the dear model alone chooses others")
    if found.verdict == "low":
        yield (f"{first.model} ranks these designs unlike the dear model (Spearman's correlation {found.value:.2f}): "
               "search without it, or with a model between the two")


def compared(space: Space, goal: Goal, model: str, trials: Iterable[Trial], starts: int,
             study: str | os.PathLike[str] | None, limits: Limits = NO_LIMITS) -> Correlation:
    """Evaluate the distinct feasible designs of a search in a cheaper model, at most COMPARED, and correlate.

    Args:
        space: The space of the search.
        goal: Its goal.
        model: The cheaper model.
        trials: Its trials; the first `starts` are its starts.
        starts: See `trials`.
        study: Its file, which keeps the values of the cheaper model; None: none.
        limits: Limits of a design.
    """
    good = list(itertools.islice((each for each in trials if each.same_as is None and each.verdict.feasible), COMPARED))
    file = None if study is None else os.fspath(study)
    known = {} if file is None else _read(file)
    new = [each for each in good if each.design not in known]
    verdicts = Evaluator(on_model(space, model), goal, limits=limits).all([each.point for each in new])
    fresh = {each.design: verdict.values[0] if verdict.values is not None and verdict.feasible else None
             for each, verdict in zip(new, verdicts)}
    if file is not None and fresh:
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(file)) as data, data:
            data.execute(_TABLE)
            data.executemany("INSERT OR REPLACE INTO cheaper VALUES (?, ?)", list(fresh.items()))
    return _of_pairs(model, good, starts, {**known, **fresh})


def stored(file: str, model: str, trials: Iterable[Trial], starts: int) -> Correlation:
    """As `compared`, of a stored study, from the values of the cheaper model that it keeps."""
    good = (each for each in trials if each.same_as is None and each.verdict.feasible)
    return _of_pairs(model, list(good), starts, _read(file))


def _read(file: str) -> dict[bytes, float | None]:
    """Design -> its first objective in the cheaper model; None if that refuses it."""
    found: dict[bytes, float | None] = {}
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro",
                                                                               uri=True)) as data:
        found.update(data.execute("SELECT design, value FROM cheaper"))
    return found


def _of_pairs(model: str, trials: Sequence[Trial], starts: int, values: Mapping[bytes, float | None]) -> Correlation:
    pairs = [(value, trial.verdict.values[0], trial.number < starts) for trial in trials
             if trial.verdict.values is not None and (value := values.get(trial.design)) is not None]
    found = correlation([one for one, _, _ in pairs], [other for _, other, _ in pairs])
    return Correlation(model, len(pairs), sum(each for _, _, each in pairs), *(found or (None, None, None)))


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
