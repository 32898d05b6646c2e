"""Interleaved 1F1B (Narayanan et al., arXiv 2104.04473, section 2.2.2).

A stage holds `chunks` parts of the model: part k of stage i is part k * stages + i. Micro-batches go in groups of as
many as there are stages, each group through one part after the other. The bubble is that of 1F1B divided by `chunks`.
"""

from __future__ import annotations

import numpy as np

from astrarium.workload.schedule.one_f_one_b import alternating
from astrarium.workload.schedule.units import BACKWARD, Units, units

__all__ = ["interleaved"]


def interleaved(stages: int, stage: int, batches: int, chunks: int) -> Units:
    """Units of one stage; `batches` is a multiple of `stages`. With one part it is 1F1B."""
    total = batches * chunks
    ahead = stages - 1 - stage if chunks == 1 else 2 * (stages - 1 - stage) + (chunks - 1) * stages
    kinds, number = alternating(ahead, total)
    within = number % (stages * chunks)
    batch = number // (stages * chunks) * stages + within % stages
    part = within // stages
    return units(kinds, batch, np.where(kinds == BACKWARD, chunks - 1 - part, part))
