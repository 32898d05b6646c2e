"""1F1B (PipeDream-Flush, Narayanan et al., arXiv 2006.09503; arXiv 2104.04473, section 2.2.1).

Stage i of s runs s - 1 - i forward units ahead, then one forward and one backward in turn. The bubble is GPipe's,
(s - 1) / m of the ideal time; at most s - i micro-batches are in flight.
"""

from __future__ import annotations

import numpy as np

from astrarium.workload.schedule.base import PipelineSchedule
from astrarium.workload.schedule.units import BACKWARD, FORWARD, Units, units

__all__ = ["ONE_F_ONE_B", "alternating", "one_f_one_b"]


def alternating(ahead: int, total: int) -> tuple[np.ndarray, np.ndarray]:
    """(kinds, numbers): `ahead` of `total` forward units, then forward and backward in turn, then the rest."""
    first = min(ahead, total)
    steady = total - first
    kinds = np.concatenate([np.full(first, FORWARD), np.tile([FORWARD, BACKWARD], steady), np.full(first, BACKWARD)])
    turns = np.stack([np.arange(first, total), np.arange(steady)], axis=1).ravel()
    return kinds, np.concatenate([np.arange(first), turns, np.arange(steady, total)])


def one_f_one_b(stages: int, stage: int, batches: int, chunks: int) -> Units:
    """Units of one stage."""
    del chunks
    return units(*alternating(stages - 1 - stage, batches))


def _ahead(stages: int, batches: int, chunks: int) -> np.ndarray:
    """s - i micro-batches on stage i, [stages, 1]."""
    del chunks
    ahead: np.ndarray = np.minimum(np.arange(stages, 0.0, -1.0), batches)[:, None]
    return ahead


ONE_F_ONE_B = PipelineSchedule(one_f_one_b, ahead=_ahead)
