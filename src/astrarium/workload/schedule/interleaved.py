"""Interleaved 1F1B (Narayanan et al., arXiv 2104.04473, section 2.2.2).

A stage holds `chunks` parts of the model: part k of stage i is part k * stages + i. Micro-batches go in groups of as
many as there are stages, each group through one part after the other. The bubble is that of 1F1B divided by `chunks`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from astrarium.config import Problem
from astrarium.workload.schedule.base import PipelineSchedule
from astrarium.workload.schedule.one_f_one_b import alternating
from astrarium.workload.schedule.units import BACKWARD, Units, units

__all__ = ["INTERLEAVED", "interleaved"]


def interleaved(stages: int, stage: int, batches: int, chunks: int) -> Units:
    """Units of one stage; `batches` is a multiple of `stages`. With one part it is 1F1B."""
    total = batches * chunks
    kinds, number = alternating(_first(stages, stage, chunks), total)
    within = number % (stages * chunks)
    batch = number // (stages * chunks) * stages + within % stages
    part = within // stages
    return units(kinds, batch, np.where(kinds == BACKWARD, chunks - 1 - part, part))


def _first(stages: int, stage: int, chunks: int) -> int:
    """Forward units that a stage runs before its first backward unit's own."""
    return stages - 1 - stage if chunks == 1 else 2 * (stages - 1 - stage) + (chunks - 1) * stages


def _ahead(stages: int, batches: int, chunks: int) -> np.ndarray:
    found = np.zeros((stages, chunks))
    for stage in range(stages):
        number = np.arange(min(_first(stages, stage, chunks) + 1, batches * chunks))
        np.add.at(found[stage], number % (stages * chunks) // stages, 1)
    return found


def _check(stages: int, batches: int, chunks: int) -> Iterator[Problem]:
    del chunks
    if stages == 1:
        yield Problem("pp", "1 stage has nothing to interleave", "2 or more, or schedule: 1f1b")
    if batches % stages:
        low, high = batches // stages * stages, -(-batches // stages) * stages
        yield Problem("micro_batch", f"makes {batches} micro-batches, which pp ({stages}) does not divide",
                      f"as many as make {low} or {high}" if low else f"as many as make {high}")


INTERLEAVED = PipelineSchedule(interleaved, check=_check, chunked=True, ahead=_ahead,
                               conditions=("workload.pp > 1", "{batches} % workload.pp == 0"))
