"""Tokens of a training step, and the seconds that it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.result import Result

if TYPE_CHECKING:       # other workloads start without it
    from astrarium.workload.transformer import Transformer

__all__ = ["TERA", "ns_of", "seconds_of", "sequence_of", "tokens_of", "training_of"]

TERA = 1e12


def training_of(figure: str, design: Design) -> Transformer:
    """The training workload of a design. Raises InputError, in the name of a figure, for other workloads."""
    if design.workload.tag != "transformer":
        raise InputError(figure, "is of training workloads", expected="workload.source: transformer")
    from astrarium.workload.transformer import Transformer  # loaded: the workload is one

    assert isinstance(design.workload, Transformer)
    return design.workload


def sequence_of(work: Transformer) -> int:
    """Tokens of a sample."""
    from astrarium.workload.training import sequence_of as found

    return found(work)


def tokens_of(figure: str, design: Design) -> float:
    """Tokens of a step. Raises InputError, in the name of a figure, for other workloads."""
    work = training_of(figure, design)
    return float(work.global_batch) * sequence_of(work)


def ns_of(result: Result) -> float:
    """ns of a run (`Result.at_least`), and a ps, so that it may divide."""
    return max(result.at_least_ps, 1) / 1000


def seconds_of(result: Result) -> float:
    """Seconds of a run; at least a ps."""
    return ns_of(result) / 1e9
