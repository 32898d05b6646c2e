"""Zero bubble, variant ZB-H1 (Qi et al., arXiv 2401.10241, section 2): backward is cut in two.

BACKWARD gives the gradient of the input, which the stage before waits for; WEIGHT gives those of the weights, later.
Forward and backward go as in 1F1B; stage i runs the weight unit of a micro-batch i backward units later, so that every
stage has at most s micro-batches in flight, and what is left at the end. Bubble (s - 1)(T_F + T_B - T_W).
"""

from __future__ import annotations

import numpy as np

from astrarium.workload.schedule.base import PipelineSchedule
from astrarium.workload.schedule.one_f_one_b import alternating
from astrarium.workload.schedule.units import BACKWARD, WEIGHT, Units, units

__all__ = ["ZERO_BUBBLE", "zero_bubble"]


def zero_bubble(stages: int, stage: int, batches: int, chunks: int) -> Units:
    """Units of one stage."""
    del chunks
    kinds, number = alternating(stages - 1 - stage, batches)
    delay = min(stage, batches)
    behind = np.flatnonzero(kinds == BACKWARD)[delay:] + 1
    kinds = np.insert(kinds, behind, WEIGHT)
    number = np.insert(number, behind, np.arange(batches - delay))
    return units(np.append(kinds, np.full(delay, WEIGHT)), np.append(number, np.arange(batches - delay, batches)))


ZERO_BUBBLE = PipelineSchedule(zero_bubble, split=True)
