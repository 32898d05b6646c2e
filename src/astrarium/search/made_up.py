"""Designs between two parallelisations of the same ranks: where some axes have changed and others have not, so that
their product is no longer the number of ranks, one of the others makes up for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.search.differences import Difference, between
from astrarium.workload.transformer import Transformer

__all__ = ["AXES", "made_up"]

AXES = ("dp", "cp", "sp", "pp", "tp")
"""Axes in the order in which they make up for others."""


def made_up(first: Design, second: Design, chosen: Sequence[Difference]) -> Iterator[Design]:
    """`first` with the `chosen` knobs as in `second` and one axis more set so that the ranks come out. None where fewer
    than three axes differ (two can only change together), the number of ranks does, or the chosen ones come out."""
    one, other = first.workload, second.workload
    if not isinstance(one, Transformer) or not isinstance(other, Transformer) or one.ranks != other.ranks:
        return
    changed = [axis for axis in AXES if getattr(one, axis) != getattr(other, axis)]
    names = {each.knob for each in chosen}
    here = {axis: getattr(other if f"workload.{axis}" in names else one, axis) for axis in AXES}
    if len(changed) < 3 or first.network.npus != second.network.npus or math.prod(here.values()) == one.ranks:
        return
    for axis in changed:
        if f"workload.{axis}" in names:
            continue
        value, rest = divmod(one.ranks * here[axis], math.prod(here.values()))
        if rest == 0 and value > 0:
            try:
                yield between(first, second, chosen, {("workload", axis): value})
            except InputError:
                continue
