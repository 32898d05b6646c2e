"""`collective.choice: auto` for a design: what it leaves open, and the choice for one kind of group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from astrarium.cache import Cache
from astrarium.collective.algorithms.algorithm import Reach
from astrarium.collective.choose import CHOSEN, choose
from astrarium.collective.config import algorithms_of
from astrarium.collective.groups import FLAT, SubDim
from astrarium.collective.reach import reach
from astrarium.collective.settings import Able, Around, Free, Settings
from astrarium.design import Design
from astrarium.engine.plan import Dim
from astrarium.vocab import CommOp

__all__ = ["free_of", "made_choice", "reaches_of"]


def free_of(design: Design, op: CommOp, dims: tuple[Dim, ...], able: Sequence[Able | None] = ()) -> Free | None:
    """What the design leaves to `auto` for an operation; None: nothing."""
    said = design.collective
    if said.choice != "auto" or op not in CHOSEN:
        return None
    named = bool(getattr(said, op.name.lower()))
    if named and said.composition is not None and said.chunks is not None:
        return None
    shapes = [dim.tag for dim in design.network.flat]
    rate = 0.0 if design.memory.bandwidth is None else float(design.memory.bandwidth)
    return Free(not named, said.composition is None, said.chunks is None, dims,
                Around(float(said.endpoint_delay), rate),
                (algorithms_of(said, "reduce_scatter", shapes), algorithms_of(said, "all_gather", shapes)),
                said.active_chunks, tuple([_offered(each, dim) for each, dim in zip(able, dims, strict=False)]))


def _offered(able: Able | None, dim: Dim) -> str:
    """The algorithm that a dim's switches may run: where their adders keep up with all links, as the estimate takes
    for granted."""
    return "" if able is None or able.rate < dim.npus * able.bandwidth else able.algorithm


def reaches_of(shape: Sequence[SubDim], npus: npt.NDArray[np.int32], dims: Sequence[Dim]) -> dict[int, Reach]:
    """Per dim, how far the members of a group of `npus` (in order) with this shape are from each other; empty for a
    group of one NPU, and for an irregular one."""
    reaches = {}
    for part in shape:
        if part.n > 1 and part.dim != FLAT:
            inner = prod([dim.npus for dim in dims[:part.dim]])
            places = npus[:part.n * part.stride:part.stride].astype(np.int64) // inner % dims[part.dim].npus
            reaches[part.dim] = reach(dims[part.dim], places)
    return reaches


def made_choice(op: CommOp, size: int, shape: Sequence[SubDim], reaches: Mapping[int, Reach], settings: Settings,
                cache: Cache[Any]) -> Settings:
    """Settings that leave nothing open, for a group with this shape, through `cache`. An irregular group takes what the
    design has where nobody chooses."""
    if settings.free is None or not reaches:
        return settings.chosen()
    parts = tuple([part for part in shape if part.n > 1])
    key = ("choice", int(op), size, parts, tuple(reaches.items()), settings.on(parts))
    found: Settings = cache.get(key, lambda: choose(op, size, parts, settings, reaches))
    return found
