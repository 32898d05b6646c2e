"""Which designs of a search fit into their memory."""

from __future__ import annotations

from collections.abc import Sequence

from astrarium.design import Design
from astrarium.search import Space, Trial
from astrarium.units import format_bytes

__all__ = ["TOO_LARGE", "capacity_of", "fits", "unfit_sentence"]

TOO_LARGE = "does NOT fit"


def capacity_of(space: Space, trial: Trial) -> float | None:
    """The memory of an NPU of a trial's design, in bytes; None if the design does not say."""
    design: object = space.design(trial.point)      # of a search of serving it is none
    capacity = design.memory.capacity if isinstance(design, Design) else None
    return None if capacity is None else float(capacity)


def fits(space: Space, trials: Sequence[Trial], memory: Sequence[float | None]) -> list[str]:
    """`fits` or `does NOT fit` of each trial with this peak memory in bytes; empty where one of both is unknown."""
    found = []
    for trial, peak in zip(trials, memory, strict=True):
        capacity = None if peak is None else capacity_of(space, trial)
        found.append("" if peak is None or capacity is None else TOO_LARGE if peak > capacity else "fits")
    return found


def unfit_sentence(space: Space, trial: Trial, peak: float | None) -> str:
    """What is wrong with a best trial that does not fit, and what to ask for; empty if it fits."""
    if fits(space, [trial], [peak]) != [TOO_LARGE]:
        return ""
    return (f"Trial {trial.number} {TOO_LARGE}: it needs {format_bytes(peak or 0.0)} of "
            f"{format_bytes(capacity_of(space, trial) or 0.0)} (designs that fit: "
            "require peak_memory <= memory.capacity).")
