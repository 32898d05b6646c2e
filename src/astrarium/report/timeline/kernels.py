"""A recorded run of GPU kernels as a timeline for ui.perfetto.dev: a process per GPU, a track per unit and port.

A unit's track has the operations of its workgroups, each until its last wavefront goes on; workgroups that it runs at
once have their own tracks. The use of each port to other GPUs, in percent of its rate, is a counter.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from typing import IO, cast

from msgspec import Struct

from astrarium.config.whole import write_whole
from astrarium.errors import InputError
from astrarium.gpu.engine import Finished, Launch, Operation, OpKind
from astrarium.gpu.engine.values import Recorded
from astrarium.report.timeline.events import TraceEvents, quoted
from astrarium.report.timeline.run import FIRST_TRACK, assign

__all__ = ["write_kernel_timeline"]


class _Piece(Struct, frozen=True):
    """An operation of a workgroup on a unit's track; times in ps."""

    unit: int
    workgroup: int
    begin: int
    end: int
    operation: Operation | None = None      # None: stores of a workgroup on their way behind its last operation


def write_kernel_timeline(path: str, launch: Launch, ran: Finished, *, gpus: Sequence[int] | None = None) -> int:
    """Write the timeline of `gpus` (default: those that were simulated) to `path`, compressed where it ends in .gz.

    `ran`: of `run_launch(launch, record=width)`. Returns the number of events. Raises InputError for a run that was not
    recorded, a GPU that was not simulated, or a file that cannot be written.
    """
    recorded = ran.recorded
    if recorded is None:
        raise InputError("timeline", "the run was not recorded", expected="run_launch with record=, the "
                         "width of bins in ps")
    shown = range(ran.simulated) if gpus is None else gpus
    for gpu in shown:
        if not 0 <= gpu < ran.simulated:
            raise InputError("timeline gpus", f"GPU {gpu} was not simulated", expected=f"0 to {ran.simulated - 1}; "
                             "run_launch with fold=False simulates all")
    with write_whole(path) as raw:
        stream = cast(IO[bytes], gzip.GzipFile("", "wb", 5, raw, mtime=0)) if path.endswith(".gz") else raw
        with TraceEvents(stream) as events:
            for gpu in shown:
                pieces = sorted(_pieces(launch, ran, recorded, gpu), key=lambda p: (p.begin, p.unit, p.workgroup))
                _units(events, gpu, pieces)
                _ports(events, gpu, recorded)
        if stream is not raw:
            stream.close()
    return events.written


def _pieces(launch: Launch, ran: Finished, recorded: Recorded, gpu: int) -> Iterator[_Piece]:
    for number, group in enumerate(launch.grid(gpu)):
        unit, last = recorded.units[gpu][number], int(ran.workgroup_starts[gpu, number])
        for i, op in enumerate(group.operations):
            begin, last = last, recorded.over[gpu][number][i]
            yield _Piece(unit, number, begin, last, op)
        end = int(ran.workgroup_ends[gpu, number])
        if end > last:
            yield _Piece(unit, number, last, end)


def _units(events: TraceEvents, gpu: int, pieces: Sequence[_Piece]) -> None:
    """Workgroups in tracks of their units, their operations as slices."""
    whole: dict[int, tuple[int, int, int]] = {}     # workgroup: unit, begin, end
    for piece in pieces:
        unit, begin, end = whole.get(piece.workgroup, (piece.unit, piece.begin, piece.end))
        whole[piece.workgroup] = unit, min(begin, piece.begin), max(end, piece.end)
    units = sorted({unit for unit, _, _ in whole.values()})
    spans = list(whole.values())
    tracks = assign([f"unit {unit}" for unit, _, _ in spans], [begin for _, begin, _ in spans],
                    [end for _, _, end in spans], [f"unit {unit}" for unit in units])
    track_of = dict(zip(whole, tracks.of, strict=True))
    events.process(gpu, f"GPU {gpu}")
    for tid, name in enumerate(tracks.names, start=FIRST_TRACK):
        events.thread(gpu, tid, name)
    for piece in pieces:
        name, category, about = _said(piece.operation)
        events.slice(gpu, track_of[piece.workgroup] + FIRST_TRACK, quoted(name), category, piece.begin, piece.end,
                     f'{{"workgroup":{piece.workgroup}{about}}}')


def _said(op: Operation | None) -> tuple[str, str, str]:
    """(name, category, further args as JSON) of a slice."""
    if op is None:
        return "stores on their way", "drain", ""
    name = op.kind.name.lower()
    if op.kind == OpKind.RELEASE:
        return name, "semaphore", f',"semaphore":{op.semaphore},"distance":{op.peer}'
    if op.kind == OpKind.ACQUIRE:
        return name, "semaphore", f',"semaphore":{op.semaphore},"value":{op.value}'
    if op.kind in (OpKind.BARRIER, OpKind.NOP):
        return name, "wait", ""
    ends = [[place.peer for place in places] for places in (op.sources, op.targets)]
    return name, "data", f',"requests":{op.size},"from":{ends[0]},"to":{ends[1]}'


def _ports(events: TraceEvents, gpu: int, recorded: Recorded) -> None:
    """Percent of each bin in which a port serves; the counter ends at 0."""
    for port, bins in enumerate(recorded.port_busy[gpu].tolist()):
        for i, busy in enumerate([*bins, 0]):
            events.counter(gpu, f"port {port}", i * recorded.width, {"% busy": round(100 * busy / recorded.width, 1)})
