"""The only door of this room to the compiled core."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from astrarium.gpu.engine.recorded import bins_of, split
from astrarium.gpu.engine.stall import stalled
from astrarium.gpu.engine.values import Finished, Grid, Launch, Place, Recorded, Wait, layout

__all__ = ["have_core", "run_compiled"]


def _compiled() -> Any:
    """The compiled core, or None in a wheel without one. A broken one raises."""
    try:
        return importlib.import_module("astrarium._core")
    except ModuleNotFoundError:
        return None


_core = _compiled()


def have_core() -> bool:
    """Whether launches can run in the compiled core."""
    return hasattr(_core, "launch")


def run_compiled(launch: Launch, *, fold: bool, threads: int = 1,
                 record: int = 0) -> Finished:
    """Run a launch that was checked; the GIL is released meanwhile. Raises StallError."""
    folded = fold and launch.symmetric
    first, *ends = layout(launch.buffers)
    buffers = [(at, buffer.lines) for at, buffer in zip(first, launch.buffers, strict=True)]
    counts = (launch.gpus, len(launch.semaphores))
    streams = [(s.wavefronts, s.unroll, s.places, s.start, s.cluster, launch.units(i))
               for i, s in enumerate(launch.streams)]
    grids = [_tables(grid) for grid in (launch.grids[:1] if folded else launch.grids)]
    waits, undispatched, rows, events = _core.launch(launch.machine, counts, tuple(ends), buffers, streams,
                                                     grids, list(launch.starts), launch.ports(), folded, threads,
                                                     record)
    if waits:
        raise stalled(launch, [Wait(*wait) for wait in waits], undispatched)
    columns = list(zip(*rows, strict=True))
    ends, starts, over, requests, outstanding, latency, channels, hbm, ports = (
        _column(column, launch.gpus) for column in columns[:9])
    return Finished(ends, starts, over, requests, outstanding, latency, channels, hbm,
                    ports.reshape(launch.gpus, -1, 2), events, len(rows),
                    _recorded(launch, record, columns[9:]) if record else None)


def _recorded(launch: Launch, width: int, columns: list[Any]) -> Recorded:
    """Records from the columns: ends by operation of the grid, units, busy ports."""
    over, units, busy = columns
    sizes = [[len(group.operations) for group in launch.grid(gpu)] for gpu in range(len(units))]
    return Recorded(width, [split(row, size) for row, size in zip(over, sizes, strict=True)], units,
                    bins_of(busy, len(launch.machine.port_router)))


def _column(values: tuple[Any, ...], gpus: int) -> Any:
    """One row per GPU; of a folded run the one row for each, workgroups that a GPU has not as -1."""
    rows = [np.asarray(value, np.int64) for value in values]
    most = max(row.size for row in rows)
    if rows[0].ndim:
        rows = [np.pad(row, (0, most - row.size), constant_values=-1) for row in rows]
    return np.stack(rows * (gpus // len(rows)))


def _tables(grid: Grid) -> tuple[list[int], list[int], Any, Any]:
    """(first operation of each workgroup and the end, their streams, operations [n, 11], places [n, 3])."""
    groups, operations = [0], list[tuple[int, ...]]()
    places: list[tuple[int, int, int]] = []

    def put(all_of: tuple[Place, ...]) -> tuple[int, int]:
        at = len(places)
        places.extend((place.buffer, place.offset, place.peer) for place in all_of)
        return at, len(all_of)

    for group in grid:
        for op in group.operations:
            operations.append((op.kind, op.size, *put(op.sources), *put(op.targets), op.semaphore, op.peer, op.value,
                               op.fence, op.time))
        groups.append(len(operations))
    return (groups, [group.stream for group in grid], np.array(operations, np.int64).reshape(-1, 11),
            np.array(places, np.int64).reshape(-1, 3))
