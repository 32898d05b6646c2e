"""The best designs of a study, with the memory and the cost of each, and the trials that none beats."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from astrarium.cost import FIGURES
from astrarium.errors import InputError
from astrarium.search.evaluate import Evaluator, Judge
from astrarium.search.goal import Goal, Objective
from astrarium.search.limits import Limits
from astrarium.search.space import Space
from astrarium.search.trial import Trial

__all__ = ["COSTS", "RUNS", "Ranked", "differing", "ranked", "store_memory", "stored_memory"]

NONE: Mapping[bytes, float] = MappingProxyType({})
RUNS = 30.0         # seconds that trials took which run again for their memory
COSTS = ("system_cost", "network_cost")     # the first that a design says enough for
_TABLE = "CREATE TABLE IF NOT EXISTS memory (design BLOB PRIMARY KEY, bytes REAL NOT NULL) WITHOUT ROWID"


class Ranked(Struct, frozen=True):
    """A trial; the highest use of memory in bytes (None: the workload does not say, or it was not run again for it);
    US dollars of the kind `cost_of` (None: the design does not say enough)."""

    trial: Trial
    memory: float | None
    cost: float | None
    cost_of: str


def ranked(space: Space, goal: Goal, trials: Sequence[Trial], *, simulate: bool = True,
           memory_of: Mapping[bytes, float] = NONE, progress: Callable[[int, int], None] | None = None) -> list[Ranked]:
    """Memory and cost of trials: what they were judged by, else what their designs say, else `memory_of` a design, else
    (`simulate`) another run that records memory, for as many as took `RUNS` seconds together. `progress` is told how
    many are looked at, of how many."""
    figures = Judge(space, goal).figures if not any(callable(each.measure) for each in goal.objectives) else ()
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
    """(knob, its value in each trial) of knobs that are not the same in all of them."""
    values = [space.values(trial.point) for trial in trials]
    names = dict.fromkeys(name for each in values for name in each)
    rows = [(name, [each.get(name) for each in values]) for name in names]
    return [(name, row) for name, row in rows if any(value != row[0] for value in row)]


@contextlib.contextmanager
def _open(path: str, mode: str) -> Iterator[sqlite3.Connection]:
    """The file, where it is a database; errors end the block in silence."""
    with (contextlib.suppress(sqlite3.Error),
          contextlib.closing(sqlite3.connect(f"file:{path}?mode={mode}", uri=True)) as data):
        yield data


def stored_memory(path: str) -> dict[bytes, float]:
    """Design -> highest use of memory in bytes; nothing where the file at `path` holds none."""
    found: dict[bytes, float] = {}
    with _open(path, "ro") as data:
        found.update(data.execute("SELECT design, bytes FROM memory"))
    return found


def store_memory(path: str, found: Mapping[bytes, float]) -> None:
    """Keep what was found; where the file cannot be written it is found again next time."""
    with _open(path, "rw") as data, data:
        data.execute(_TABLE)
        data.executemany("INSERT OR REPLACE INTO memory VALUES (?, ?)", list(found.items()))
