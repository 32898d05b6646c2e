"""The schedules by name: units, where the parts of the model are, and what is legal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.config import Problem
from astrarium.workload.schedule.dualpipe import dualpipe
from astrarium.workload.schedule.gpipe import gpipe
from astrarium.workload.schedule.interleaved import interleaved
from astrarium.workload.schedule.one_f_one_b import one_f_one_b
from astrarium.workload.schedule.units import Units
from astrarium.workload.schedule.zero_bubble import zero_bubble

__all__ = ["SCHEDULES", "Line"]

I32 = npt.NDArray[np.int32]
Check = Callable[[int, int, int], Iterator[Problem]]


def _in_turn(stages: int, chunks: int) -> I32:
    return (np.arange(chunks)[None, :] * stages + np.arange(stages)[:, None]).astype(np.int32)


def _both_ways(stages: int, chunks: int) -> I32:
    del chunks
    stage = np.arange(stages, dtype=np.int32)
    return np.stack([stage, stages - 1 - stage], axis=1)


def _single(stages: int, batches: int, chunks: int) -> Iterator[Problem]:
    del stages, batches
    if chunks != 1:
        yield Problem("virtual_stages", f"{chunks} parts per stage are for schedule: interleaved", "1")


def _interleaved(stages: int, batches: int, chunks: int) -> Iterator[Problem]:
    del chunks
    if batches % stages:
        low, high = batches // stages * stages, -(-batches // stages) * stages
        yield Problem("micro_batch", f"makes {batches} micro-batches, which pp ({stages}) does not divide",
                      f"as many as make {low} or {high}" if low else f"as many as make {high}")


def _dualpipe(stages: int, batches: int, chunks: int) -> Iterator[Problem]:
    yield from _single(stages, batches, chunks)
    if stages % 2:
        yield Problem("pp", f"{stages} is odd", f"an even number for schedule: dualpipe, such as {stages + 1}")
    if batches % 2 or batches < 2 * stages:
        yield Problem("micro_batch", f"makes {batches} micro-batches",
                      f"an even number of at least 2 * pp ({2 * stages}) for schedule: dualpipe")


class Line(Struct, frozen=True):
    """One schedule. `units(stages, stage, batches, chunks)`.

    `place(stages, chunks)` [stages, chunks]: which part of the model each chunk is. `copies` of the model; with 2 each
    stage has a chunk of both. `split`: backward leaves the gradients of weights to WEIGHT units. `check(stages,
    batches, chunks)` yields what is not legal.
    """

    units: Callable[[int, int, int, int], Units]
    sentence: str
    place: Callable[[int, int], I32] = _in_turn
    check: Check = _single
    copies: int = 1
    split: bool = False


SCHEDULES: Mapping[str, Line] = MappingProxyType({
    "gpipe": Line(gpipe, "All forward, then all backward."),
    "1f1b": Line(one_f_one_b, "One forward, one backward in turn."),
    "interleaved": Line(interleaved, "1F1B over several parts of the model per stage.", check=_interleaved),
    "zero_bubble": Line(zero_bubble, "1F1B with the gradients of weights later (ZB-H1).", split=True),
    "dualpipe": Line(dualpipe, "Two copies of the model, from both ends.", place=_both_ways, check=_dualpipe, copies=2,
                     split=True),
})
