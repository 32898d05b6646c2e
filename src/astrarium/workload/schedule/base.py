"""What a pipeline schedule is: the units of each stage, which parts of the model a stage has, and what is legal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from astrarium.arrays import F64, I32
from astrarium.config import Problem
from astrarium.errors import PluginError, asked
from astrarium.registry import Kind, built_ins
from astrarium.workload.schedule.units import BACKWARD, FORWARD, Units

__all__ = ["KIND", "PipelineSchedule", "in_turn", "load_schedule", "schedules", "single"]

KIND = Kind("schedule")


def in_turn(stages: int, chunks: int) -> I32:
    """Part k * stages + i of the model is chunk k of stage i; [stages, chunks]."""
    return (np.arange(chunks)[None, :] * stages + np.arange(stages)[:, None]).astype(np.int32)


def single(stages: int, batches: int, chunks: int) -> Iterator[Problem]:
    """A problem unless every stage has one part of the model."""
    del stages, batches
    if chunks != 1:
        yield Problem("virtual_stages", f"{chunks} parts per stage are for schedule: interleaved", "1")


class PipelineSchedule(Struct, frozen=True):
    """One pipeline schedule: what `schedule.NAME` of the registry loads.

    Args:
        units: `units(stages, stage, batches, chunks)`, what one stage runs, in order.
        place: `place(stages, chunks)` [stages, chunks], which part of the model each chunk is.
        check: `check(stages, batches, chunks)` yields what is not legal; paths are fields of the workload.
        conditions: what `check` refuses, as conditions over the paths of a design, so that a search skips such designs.
            `{batches}` stands for the micro-batches of a replica. Without them designs are refused one by one.
        chunked: it takes more than one chunk per stage (`virtual_stages`).
        copies: copies of the model; with 2 each stage has a chunk of both.
        split: backward leaves the gradients of weights to WEIGHT units.
        ahead: `ahead(stages, batches, chunks)`, what `in_flight` gives, where a closed form is faster.
    """

    units: Callable[[int, int, int, int], Units]
    place: Callable[[int, int], I32] = in_turn
    check: Callable[[int, int, int], Iterator[Problem]] = single
    conditions: tuple[str, ...] = ()
    chunked: bool = False
    copies: int = 1
    split: bool = False
    ahead: Callable[[int, int, int], F64] | None = None

    @property
    def plain(self) -> bool:
        """Whether there is one copy of the model, whose parts go round the stages in turn."""
        return self.copies == 1 and self.place is in_turn

    def in_flight(self, stages: int, batches: int, chunks: int) -> F64:
        """Micro-batches of each chunk between forward and backward when a stage has most of them [stages, chunks]."""
        if self.ahead is not None:
            return self.ahead(stages, batches, chunks)
        found = np.zeros((stages, self.place(stages, chunks).shape[1]))
        for stage in range(stages):
            units = self.units(stages, stage, batches, chunks)
            steps = np.where(units.kind == FORWARD, 1, np.where(units.kind == BACKWARD, -1, 0))
            first = int(np.argmax(np.cumsum(steps))) + 1
            np.add.at(found[stage], units.chunk[:first], steps[:first])
        return found


def load_schedule(name: str) -> PipelineSchedule:
    """The schedule of this name, the `units` of a plug-in's looked over. Raises InputError with the nearest match for
    an unknown one, PluginError for a plug-in that is not a `PipelineSchedule`."""
    found = KIND.load(name)
    if not isinstance(found, PipelineSchedule):
        raise PluginError(f"schedule plug-in {name}", f"is an object of {type(found).__name__}, not a PipelineSchedule")
    return found if name in built_ins("schedule") else replace(found, units=partial(_each_once, name, found))


def _each_once(name: str, schedule: PipelineSchedule, stages: int, stage: int, batches: int, chunks: int) -> Units:
    """A plug-in's units of one stage. Raises PluginError unless every micro-batch has each of its units once."""
    who, kinds = f"schedule plug-in {name}", 3 if schedule.split else 2
    found: object = asked(who, schedule.units, stages, stage, batches, chunks)
    if not isinstance(found, Units):
        raise PluginError(who, f"units() gave an object of {type(found).__name__}, which is no Units")
    places = 1 if schedule.copies == 2 else chunks      # of two copies a micro-batch runs in one
    rows = np.stack([found.kind, found.batch, found.chunk if places == chunks else np.zeros_like(found.chunk)])
    fine = (rows >= 0).all() and (rows < np.array([[kinds], [batches], [places]])).all()
    if not fine or np.unique(rows, axis=1).shape[1] != len(found) or len(found) != kinds * batches * places:
        raise PluginError(who, f"units({stages}, {stage}, {batches}, {chunks}) gave {len(found)} units, which are not "
                               f"{', '.join(('forward', 'backward', 'weight')[:kinds])} of each micro-batch once")
    return found


def schedules() -> Mapping[str, PipelineSchedule]:
    """Every schedule by name, plug-ins too."""
    return {name: load_schedule(name) for name in KIND.names()}
