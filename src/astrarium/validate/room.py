"""Whether a candidate fits into its device, and how much recomputation a row that does not state it must have had."""

from __future__ import annotations

from collections.abc import Sequence

from astrarium.design import Design
from astrarium.workload.footprint import Footprint, footprint
from astrarium.workload.transformer import Transformer

__all__ = ["fits", "fullest", "least"]

GIB = 2.0**30


def fullest(design: Design) -> Footprint:
    """The footprint of the pipeline stage that holds most."""
    work = design.workload
    assert isinstance(work, Transformer)
    return max(footprint(work), key=lambda stage: stage.total)


def fits(design: Design) -> bool:
    """Whether every stage fits into the device's memory; a device without a capacity has room for all."""
    capacity = design.memory.capacity
    return capacity is None or fullest(design).total <= float(capacity)


def least(designs: Sequence[Design]) -> int:
    """Which is the first that fits, in the order given; the last where none does."""
    return next((number for number, design in enumerate(designs[:-1]) if fits(design)), len(designs) - 1)
