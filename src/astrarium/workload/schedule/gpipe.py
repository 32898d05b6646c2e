"""GPipe (Huang et al., arXiv 1811.06965): all forward, then all backward, last micro-batch first (its figure 2c).

Bubble (s - 1) / (m + s - 1) of the time of s stages and m micro-batches; all m micro-batches are in flight.
"""

from __future__ import annotations

import numpy as np

from astrarium.workload.schedule.base import PipelineSchedule
from astrarium.workload.schedule.units import BACKWARD, FORWARD, Units, units

__all__ = ["GPIPE", "gpipe"]


def gpipe(stages: int, stage: int, batches: int, chunks: int) -> Units:
    """Units of one stage."""
    del stages, stage, chunks
    order = np.arange(batches)
    return units(np.repeat([FORWARD, BACKWARD], batches), np.concatenate([order, order[::-1]]))


GPIPE = PipelineSchedule(gpipe)
