"""Who names the nodes and the tensors of a run: traces that were read, or a workload that was generated."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from astrarium.arrays import I32
from astrarium.memory.usage import Known, tensors_of
from astrarium.trace.columns import Traces
from astrarium.trace.work import Generated, Tensors, TraceClass

__all__ = ["Source", "class_of_rank", "generated_class", "tensors"]

Source: TypeAlias = Traces | Generated


def class_of_rank(source: Source) -> I32:
    """[ranks] number of the class whose nodes and tensors a rank has."""
    if isinstance(source, Traces):
        return source.rank_class
    found = np.full(sum(len(each.ranks) for each in source.classes), -1, np.int32)
    for number, each in enumerate(source.classes):
        found[each.ranks] = number
    return found


def tensors(source: Source, rank: int, number: int, known: Known | None = None) -> Tensors | None:
    """The tensors of a rank, whose class is `number`; `known` as in `memory.usage.tensors_of`, which may raise."""
    return tensors_of(source, rank, known) if isinstance(source, Traces) else source.tensors[number]


def generated_class(source: Generated, rank: int) -> TraceClass:
    """The class that a rank is in."""
    return next(each for each in source.classes if bool((each.ranks == rank).any()))
