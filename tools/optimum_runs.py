"""The designs of a space of generated workloads, for check_optimum.py: all of them, those that matter one by one.

Knobs are of the workload, of the network, or of collectives. Floors without collectives leave a few workloads on a few
networks; of those every design's floor is computed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from optimum_work import Run, Times

import astrarium as ar

BLOCK = 200_000
FLOORS = 4096
SAFE = 1 - 1e-9


class Runs:
    """A certificate's knobs by kind, and what its workloads run."""

    def __init__(self, certificate: dict[str, Any], design: Any, derived: Callable[..., dict[str, Any]]):
        self.certificate, self.design, self.derived = certificate, design, derived
        self.knobs, self.where = certificate["knobs"], certificate["space"].get("constraints", [])
        self.kinds: dict[str, list[int]] = {"workload": [], "sizes": [], "network": [], "collective": []}
        for index, knob in enumerate(self.knobs):
            for path in knob["paths"]:
                if not re.fullmatch(r"workload\..*|network\.dims\[\d+\]\.(npus|shape|bandwidth_per_npu|bandwidth)|"
                                    r"collective\.(scheduling|chunks|composition|[a-z_]+\[\d+\])", path):
                    raise SystemExit(f"{path}: this checker does not know what it does to a floor")
            first = self.knobs[index]["paths"][0]
            self.kinds["sizes" if first.endswith(".npus") else first.split(".")[0]].append(index)
        totals = {int(found[1]) for text in self.where if (found := re.fullmatch(r"network\.npus == (\d+)", text))}
        totals = totals if self.kinds["sizes"] else {design.base.network.npus}
        if len(totals) != 1 or design.base.compat != "none" or design.base.network.backend != "closed_form":
            raise SystemExit("this checker knows native designs in closed_form, with fixed sizes of dims or a "
                             "constraint network.npus == N")
        self.npus = totals.pop()
        self.ordered: dict[str, Run | None] = {}
        for text in self.where:
            if "workload." in text and "network.dims" in text:
                raise SystemExit(f"{text}: this checker knows constraints of workloads or of networks")

    def columns(self, kind: str, size: int) -> Iterator[list[Any]]:
        """Columns of every combination of a kind of knobs, a block at a time; of the other knobs none."""
        counts = [len(self.knobs[index]["values"]) for index in self.kinds[kind]]
        if not counts:
            yield [None] * len(self.knobs)
            return
        for start in range(0, math.prod(counts), size):
            places = np.unravel_index(np.arange(start, min(start + size, math.prod(counts))), counts)
            found: list[Any] = [None] * len(self.knobs)
            for index, chosen in zip(self.kinds[kind], places):
                found[index] = np.array(self.knobs[index]["numbers"])[chosen]
            yield found

    def good(self, columns: list[Any], word: str) -> Any:
        """Which designs meet the constraints that name `word`."""
        found = np.array(True)
        for text in self.where:
            if word in text:
                found = found & self.design.evaluated(text.replace("network.npus", str(self.npus)) if word == "workload"
                                                      else text, columns, {})
        return found

    def objective(self, columns: list[Any], makespan: Any) -> Any:
        """The objective's floor where this is the makespan's, ns."""
        figures = {**self.design.floors(columns), "makespan": makespan}
        return self.design.evaluated(self.certificate["objective"], columns, figures) * SAFE

    def run(self, columns: list[Any]) -> Run | None:
        """What one workload runs on dims of some sizes; None where it is refused."""
        return self._made(self._changes(columns))

    def ordered_run(self, columns: list[Any]) -> Run | None:
        """The same, its compute lane in order; kept for the next design that runs it."""
        changes = self._changes(columns)
        if repr(changes) not in self.ordered:
            run = self.ordered[repr(changes)] = self._made(changes)
            if run is not None:
                run.keep_order()
        return self.ordered[repr(changes)]

    def _changes(self, columns: list[Any]) -> dict[str, Any]:
        changes = {path: _plain(columns[index]) for index, knob in enumerate(self.knobs) for path in knob["paths"]
                   if columns[index] is not None and (path.startswith("workload.") or path.endswith(".npus"))}
        for pattern, text in self.certificate["space"].get("derived", {}).items():
            if pattern.startswith("workload."):
                changes |= {path: _plain(value)
                            for path, value in self.derived(pattern, text, self.design, columns).items()}
        return changes

    def _made(self, changes: dict[str, Any]) -> Run | None:
        try:
            return Run(ar.replace_all(self.design.base, changes))
        except ar.InputError:
            return None


def least_open_run(runs: Runs, best: float) -> tuple[float, int, int]:
    """(least floor of a design that was not simulated, at most `best`; designs looked at; designs below `best`)."""
    done = {tuple(row[:-1]) for row in runs.certificate["evaluated"]}
    works = sorted(_works(runs, next(_networks(runs))), key=lambda each: each[0])
    each = math.prod(len(runs.knobs[index]["values"]) for index in runs.kinds["collective"])
    least, looked, below = best, 0, 0
    for block in _networks(runs):
        looked += len(works) * len(_one(block)) * each
        for floor, work in works:
            value = runs.objective(_with(block, work), floor)
            near = np.flatnonzero(~(np.broadcast_to(value, len(_one(block))) >= best))
            if not len(near):
                break       # the next workloads take longer
            low, count = _open(runs, work, [None if column is None else column[near] for column in block], best, done)
            least, below = min(least, low), below + count
    return least, looked, below


def _networks(runs: Runs) -> Iterator[list[Any]]:
    """Columns of the networks that meet the constraints, a block at a time."""
    for sizes in runs.columns("sizes", 1):
        if np.all(runs.good(sizes, "network.npus ==")):
            for block in runs.columns("network", BLOCK):
                columns = [_like(b, _one(block)) if a is None else a for a, b in zip(block, sizes)]
                kept = np.flatnonzero(np.broadcast_to(runs.good(columns, "network.dims"), len(_one(block))))
                if len(kept):
                    yield [None if column is None else column[kept] for column in columns]


def _like(column: Any, other: Any) -> Any:
    return None if column is None else np.repeat(column, len(other))


def _works(runs: Runs, network: list[Any]) -> Iterator[tuple[float, list[Any]]]:
    """(least time without collectives, columns) of every workload that exists."""
    sizes = [None if column is None else column[:1] for column in network]
    for block in runs.columns("workload", 1):
        if np.all(runs.good(block, "workload")):
            run = runs.run(_with(sizes, block))
            if run is not None:
                yield run.least(), block


def _open(runs: Runs, work: list[Any], networks: list[Any], best: float, done: set[tuple[int, ...]]
          ) -> tuple[float, int]:
    """(least floor of a design of these networks that was not simulated, at most `best`; designs below it)."""
    least, below = best, 0
    table = np.stack([networks[index] for index in runs.kinds["sizes"]] or [np.zeros(len(_one(networks)))], axis=1)
    for wanted in np.unique(table, axis=0):
        here = [None if column is None else column[(table == wanted).all(axis=1)] for column in networks]
        run = runs.run(_with([None if column is None else column[:1] for column in here], work))
        assert run is not None
        run.keep_order()
        for block in runs.columns("collective", 1 << 20):
            low, count = _floors(runs, run, len(_one(here)), _with(_crossed(here, block), work), best, done)
            least, below = min(least, low), below + count
    return least, below


def _floors(runs: Runs, run: Run, networks: int, columns: list[Any], best: float, done: set[tuple[int, ...]]
            ) -> tuple[float, int]:
    """The same of some designs of one run, so many of each network one after the other."""
    least, below, size = best, 0, max(column.size for column in columns if column is not None)
    cost = _costs(runs, run, columns, size)
    most = run.floors({number: each.reshape(networks, -1).min(axis=1) for number, each in cost.items()}, networks)
    value = runs.objective(columns, np.repeat(most, size // networks))      # with each network's best collectives
    near = np.flatnonzero(np.broadcast_to(~(value >= best), size))
    for start in range(0, len(near), FLOORS):
        part = near[start:start + FLOORS]
        own = [column if column is None or column.size == 1 else column[part] for column in columns]
        value = runs.objective(own, run.floors({number: each[part] for number, each in cost.items()}, len(part)))
        for at in np.flatnonzero(np.broadcast_to(~(value >= best), len(part))):
            below += 1
            point = tuple(int(np.flatnonzero(np.array(knob["numbers"]) == column[at if column.size > 1 else 0])[0])
                          for knob, column in zip(runs.knobs, own))
            if point not in done:
                least = min(least, float(value[at]))
    return least, below


def _costs(runs: Runs, run: Run, columns: list[Any], size: int) -> dict[int, Any]:
    """What each collective of a run takes at least; nothing where ranks run different programs."""
    values: dict[str, Any] = {}
    for pattern, text in runs.certificate["space"].get("derived", {}).items():
        if pattern.startswith("collective."):
            values |= runs.derived(pattern, text, runs.design, columns)
    times = Times(run, runs.design.dims, lambda path: values[path] if path in values
                  else runs.design.value(path, columns), lambda d: runs.design.per_npu(d, columns)[0])
    cost = {number: np.broadcast_to(times.cost(number) if number in run.timed else 0.0, size)
            for number in {*run.collective} - {-1}}
    lowest = np.argmin(sum(cost.values())) if cost else 0
    run.choose({number: float(each[lowest]) for number, each in cost.items()})
    return cost


def floor_of(runs: Runs, columns: list[Any]) -> float:
    """The floor of one design."""
    run = runs.ordered_run(columns)
    if run is None:
        return math.inf
    return float(np.ravel(runs.objective(columns, run.floors(_costs(runs, run, columns, 1), 1)))[0])


def _crossed(networks: list[Any], others: list[Any]) -> list[Any]:
    """Every network with every combination of other knobs."""
    one, two = len(_one(networks)), len(_one(others))
    return [np.repeat(a, two) if a is not None else np.tile(b, one) if b is not None else None
            for a, b in zip(networks, others)]


def _with(columns: list[Any], others: list[Any]) -> list[Any]:
    return [b if a is None else a for a, b in zip(columns, others)]


def _one(columns: list[Any]) -> Any:
    """A column of them; of no knob, one design."""
    return next((column for column in columns if column is not None), np.zeros(1))


def _plain(column: Any) -> Any:
    """The value of a column of one row, as designs take it."""
    value = np.ravel(column)[0].item() if isinstance(column, (np.ndarray, np.generic)) else column
    return int(value) if isinstance(value, float) and value.is_integer() else value
