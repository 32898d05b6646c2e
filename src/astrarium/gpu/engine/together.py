"""Several launches on the same GPUs at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from msgspec.structs import replace

from astrarium.errors import InputError
from astrarium.gpu.engine.values import Grid, Launch, Operation, OpKind, Place, Workgroup

__all__ = ["together"]


def together(launches: Sequence[Launch]) -> Launch:
    """One launch that runs all of them on the same GPUs, each with its own buffers, semaphores and start; where several
    have a workgroup for a place, the first launch's goes first. Its workgroups are those of the first launch, then
    those of the second, ... Raises InputError for other machines or numbers of GPUs, and where GPUs start apart."""
    first = launches[0]
    for i, launch in enumerate(launches):
        if (launch.machine, launch.gpus) != (first.machine, first.gpus):
            raise InputError(f"launches[{i}]", "other GPUs", expected="the machine and number of GPUs of launches[0]")
        if len(set(launch.starts)) > 1:
            raise InputError(f"launches[{i}].starts", "GPUs that start apart", expected="one start")
    return reduce(_both, map(_from_zero, launches))


def _from_zero(launch: Launch) -> Launch:
    """The launch with its start in its streams."""
    streams = tuple(replace(stream, start=stream.start + launch.starts[0]) for stream in launch.streams)
    return replace(launch, streams=streams, starts=(0,))


def _both(one: Launch, other: Launch) -> Launch:
    grids = max(len(one.grids), len(other.grids))
    return replace(
        one, grids=tuple(one.grid(gpu) + _moved(other.grid(gpu), one) for gpu in range(grids)),
        buffers=one.buffers + other.buffers, semaphores=one.semaphores + other.semaphores,
        streams=one.streams + other.streams)


def _moved(grid: Grid, behind: Launch) -> Grid:
    """Workgroups whose buffers, semaphores and streams come behind those of another launch."""
    buffers, semaphores, streams = len(behind.buffers), len(behind.semaphores), len(behind.streams)

    def places(old: tuple[Place, ...]) -> tuple[Place, ...]:
        return tuple(replace(place, buffer=place.buffer + buffers) for place in old)

    def moved(op: Operation) -> Operation:
        return replace(op, sources=places(op.sources), targets=places(op.targets),
                       semaphore=op.semaphore + semaphores if _signals(op) else op.semaphore)

    return tuple(Workgroup(tuple(map(moved, group.operations)), group.stream + streams) for group in grid)


def _signals(op: Operation) -> bool:
    return op.kind in (OpKind.ACQUIRE, OpKind.RELEASE)
