"""The best designs of a study, with the memory and the cost of each."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from urllib.parse import quote

from msgspec import Struct

from astrarium.cost import FIGURES
from astrarium.errors import InputError
from astrarium.search.evaluate import Evaluator, Judge
from astrarium.search.goal import Goal, Objective
from astrarium.search.limits import Limits
from astrarium.search.space import Space
from astrarium.search.store import uri_of
from astrarium.search.subject import subject_of
from astrarium.search.trial import Trial

__all__ = ["COSTS", "RUNS", "Ranked", "differing", "ranked", "store_memory", "stored_memory", "thinned"]

NONE: Mapping[bytes, float] = MappingProxyType({})
RUNS = 30.0         # seconds of the trials that run again for their memory, in total
COSTS = ("system_cost", "network_cost")     # the first that a design says enough for
_TABLE = "CREATE TABLE IF NOT EXISTS memory (design BLOB PRIMARY KEY, bytes REAL NOT NULL) WITHOUT ROWID"


class Ranked(Struct, frozen=True):
    """A trial with its peak memory in bytes (None: the workload does not tell, or it was not simulated again) and its
    cost in US dollars (None: the design lacks prices); `cost_of`: the figure of the cost."""

    trial: Trial
    memory: float | None
    cost: float | None
    cost_of: str


def thinned(front: Sequence[Trial], most: int) -> list[Trial]:
    """At most `most` trials (2 or more) of a front, spread evenly over it, with both ends."""
    if len(front) <= most:
        return list(front)
    return [front[round(place * (len(front) - 1) / (most - 1))] for place in range(most)]


def ranked(space: Space, goal: Goal, trials: Sequence[Trial], *, simulate: bool = True,
           memory_of: Mapping[bytes, float] = NONE, progress: Callable[[int, int], None] | None = None) -> list[Ranked]:
    """Find the memory and cost of trials.

    They come from the trial's figures if the goal has them, else from the design or from `memory_of`, else from another
    run that records memory.

    Args:
        space: The space of the trials.
        goal: The goal of the trials.
        trials: Trials with values.
        simulate: Whether to run designs again, as many as took RUNS seconds in total.
        memory_of: Design hash -> known peak memory in bytes.
        progress: Called with the number of finished trials and of all trials.
    """
    figures = Judge(space, goal).figures if not any(callable(each.measure) for each in goal.objectives) else ()
    simulate = simulate and "peak_memory" in subject_of(space.base).figures
    left, judge, found = RUNS if simulate else 0.0, None, list[Ranked]()
    for trial in trials:
        if progress is not None:
            progress(len(found), len(trials))
        known = dict(zip(figures, trial.verdict.figures))
        memory = known.get("peak_memory", memory_of.get(trial.design))
        if memory is None and trial.verdict.seconds < left:
            left -= trial.verdict.seconds
            judge = judge or Evaluator(space, Goal((Objective("peak_memory", "peak_memory"),), (), goal.cases),
                                       limits=Limits(RUNS))
            values = judge(trial.point).values
            memory = None if values is None else values[0]
        kind, cost = next(_costs(space, trial, known), ("", None))
        found.append(Ranked(trial, memory, cost, kind))
    return found


def _costs(space: Space, trial: Trial, known: dict[str, float]) -> Iterator[tuple[str, float | None]]:
    for name in COSTS:
        if name in known:
            yield name, known[name]
            continue
        figure = FIGURES[name]
        with contextlib.suppress(InputError):
            design = space.design(trial.point)
            if figure.check is not None:
                figure.check(design)
            if figure.of_design is not None:
                yield name, figure.of_design(design)


def differing(space: Space, trials: Sequence[Trial]) -> list[tuple[str, list[object]]]:
    """(knob, its value in each trial) for knobs that differ among the trials."""
    values = [space.values(trial.point) for trial in trials]
    names = dict.fromkeys(name for each in values for name in each)
    rows = [(name, [each.get(name) for each in values]) for name in names]
    return [(name, row) for name, row in rows if any(value != row[0] for value in row)]


@contextlib.contextmanager
def _open(name: str) -> Iterator[sqlite3.Connection]:
    """Open the file if it is a database; an SQLite error ends the block without an exception."""
    with (contextlib.suppress(sqlite3.Error),
          contextlib.closing(sqlite3.connect(name, uri=True)) as data):
        yield data


def stored_memory(path: str) -> dict[bytes, float]:
    """Design hash -> peak memory in bytes, as stored in the study at `path`; empty if nothing is stored."""
    found: dict[bytes, float] = {}
    with _open(uri_of(path)) as data:
        found.update(data.execute("SELECT design, bytes FROM memory"))
    return found


def store_memory(path: str, found: Mapping[bytes, float]) -> None:
    """Store peak memories in the study at `path`; does nothing if the file cannot be written."""
    with _open(f"file:{quote(path)}?mode=rw") as data, data:
        data.execute(_TABLE)
        data.executemany("INSERT OR REPLACE INTO memory VALUES (?, ?)", list(found.items()))
