"""A pipeline of unit costs, executed: the rival of the published closed forms."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from astrarium.workload.schedule import BACKWARD, FORWARD, WEIGHT, Units, load_schedule

__all__ = ["makespan", "peak", "stage_units"]

Cost = Mapping[int, float]


def stage_units(name: str, stages: int, batches: int, chunks: int = 1) -> list[Units]:
    """Units of every stage."""
    return [load_schedule(name).units(stages, stage, batches, chunks) for stage in range(stages)]


def peak(units: Units, *, until: int = BACKWARD) -> int:
    """Most micro-batches (of a part each) between forward and the unit that frees them."""
    steps = np.where(units.kind == FORWARD, 1, 0) - np.where(units.kind == until, 1, 0)
    return int(np.cumsum(steps).max())


def _needs(name: str, stages: int, chunks: int) -> dict[tuple[int, int], tuple[tuple[int, int] | None,
                                                                              tuple[int, int] | None]]:
    """(stage, chunk) -> (where its input is from, where its gradient is from)."""
    place = load_schedule(name).place(stages, chunks)
    copies = load_schedule(name).copies
    at = {(int(place[s, c]), c if copies > 1 else 0): (s, c) for s in range(stages) for c in range(place.shape[1])}
    return {(s, c): (at.get((p - 1, k)), at.get((p + 1, k))) for (p, k), (s, c) in at.items()}


def makespan(name: str, stages: int, batches: int, chunks: int, cost: Cost) -> tuple[float, list[float]]:
    """(time of all, busy time of each stage). AssertionError for a deadlock. Joined units take the time of both."""
    rows = stage_units(name, stages, batches, chunks)
    needs = _needs(name, stages, chunks if load_schedule(name).copies == 1 else 2)
    done: dict[tuple[int, int, int, int], float] = {}
    at, clock = [0] * stages, [0.0] * stages
    busy = [0.0] * stages
    while any(place < len(row) for place, row in zip(at, rows, strict=True)):
        moved = False
        for stage, row in enumerate(rows):
            while at[stage] < len(row):
                first = at[stage]
                last = _block(row, first)
                group = [(int(row.kind[k]), int(row.batch[k]), int(row.chunk[k])) for k in range(first, last)]
                ready = [_ready(done, needs, stage, *each) for each in group if each[0] != WEIGHT or len(group) == 1]
                if None in ready:
                    break
                spent = sum(cost[kind] for kind, _, _ in group)
                clock[stage] = max([clock[stage], *[r for r in ready if r is not None]]) + spent
                busy[stage] += spent
                done.update({(stage, *each): clock[stage] for each in group})
                at[stage], moved = last, True
        assert moved, f"deadlock at {at}"
    return max(clock), busy


def _block(row: Units, first: int) -> int:
    """Where the units end that run as one with unit `first`: one joined to it, and the weight unit of that one."""
    last = first + 1
    if last < len(row) and row.joined[last]:
        last += 1
        if last < len(row) and row.kind[last] == WEIGHT and row.batch[last] == row.batch[last - 1]:
            last += 1
    return last


def _ready(done: Mapping[tuple[int, int, int, int], float],
           needs: Mapping[tuple[int, int], tuple[tuple[int, int] | None, tuple[int, int] | None]],
           stage: int, kind: int, batch: int, chunk: int) -> float | None:
    before, after = needs[stage, chunk]
    if kind == FORWARD:
        return 0.0 if before is None else done.get((before[0], FORWARD, batch, before[1]))
    if kind == WEIGHT:
        return done.get((stage, BACKWARD, batch, chunk))
    own = done.get((stage, FORWARD, batch, chunk))
    if own is None or after is None:
        return own
    return done.get((after[0], BACKWARD, batch, after[1]))
