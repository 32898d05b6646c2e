"""Whether a candidate fits into its device, and how much recomputation a row that does not state it must have had."""

from __future__ import annotations

from collections.abc import Sequence

from astrarium.design import Design
from astrarium.workload.footprint import Footprint, training_footprint
from astrarium.workload.transformer import Transformer

__all__ = ["fits", "fullest", "least"]

WORST = 0.02        # the footprint's largest error on measured memory (docs/background/training.md)


def fullest(design: Design) -> Footprint:
    """The footprint of the pipeline stage that holds most."""
    work = design.workload
    assert isinstance(work, Transformer)
    return max(training_footprint(work), key=lambda stage: stage.total)


def fits(design: Design, beyond: float = 0.0) -> bool:
    """Whether every stage fits into the device's memory, and a share of it `beyond`; a device without a capacity has
    room for all."""
    capacity = design.memory.capacity
    return capacity is None or fullest(design).total <= float(capacity) * (1.0 + beyond)


def least(designs: Sequence[Design]) -> int:
    """Which design a row that ran means: the first, in the order given, that fits as far as the footprint can tell; the
    last where none does."""
    return next((number for number, design in enumerate(designs[:-1]) if fits(design, WORST)), len(designs) - 1)
