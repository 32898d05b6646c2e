"""What a collective keeps the links of its members busy with at least, phase by phase.

A collective of C chunks walks phases, each in one dim. A chunk leaves a phase at a member no earlier than the member's
own sends have passed the links that it uses there (`collective.estimate.lower_bound`: `own`), and enters the next one
then. In any phase all chunks share these links, after the first one has come through the phases before, and before the
last one goes through those behind. So with t = `own` of a chunk in each phase, a member takes at least
sum(t) + (C - 1) max(t), however many chunks are in flight.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.collective.algorithms import has_op
from astrarium.collective.compose import Composition, compose
from astrarium.collective.config import Collective, Custom, algorithms_of, composition_of, parse_algorithm
from astrarium.collective.estimate import lower_bound
from astrarium.collective.groups import FLAT, SubDim
from astrarium.collective.in_switch import is_one
from astrarium.network.shapes import LinkDim, Ring
from astrarium.vocab import CommOp

__all__ = ["Walk", "walk_of"]

LARGE = 1 << 40     # bytes at which blocks need no padding


class Walk(Struct, frozen=True, eq=False):
    """ns per byte of payload, lower bounds: `sent` [dims] of all phases in each dim at an NPU's whole bandwidth there,
    `next` [dims] of what goes to the next member at that of one link; `all` phases on the links that each uses, and the
    `longest`."""

    sent: F64
    next: F64
    all: float
    longest: float


def walk_of(collective: Collective, op: CommOp, parts: Sequence[SubDim], dims: Sequence[LinkDim]) -> Walk | None:
    """The phases of a group of `parts`; None where algorithms are chosen later, or are none of which this is known."""
    if not _said(collective, op) or any(part.dim == FLAT for part in parts):
        return None
    tags = [dim.tag for dim in dims]
    names = algorithms_of(collective, op.name.lower(), tags)
    size = LARGE // int(np.prod([part.n for part in parts])) if op == CommOp.ALL_GATHER else LARGE
    sent, next_ = np.zeros((2, len(dims)))
    times = [0.0]
    for part, does, bytes_ in compose(op, size, parts, Composition(composition_of(collective))):
        dim, able = dims[part.dim], [
            entry for each in (names, algorithms_of(collective, does.name.lower(), tags))
            for entry in each[part.dim:part.dim + 1] if has_op(parse_algorithm(entry)[0], does)]
        if not able or is_one(able[0]) or (isinstance(dim, Ring) and dim.one_way):
            return None
        found = lower_bound(dim.tag, able[0], does, part.n, dim.npus, False)
        if found is None:
            return None
        block = bytes_ * (part.n if does == CommOp.ALL_GATHER else 1) / found.count / LARGE
        rate = dim.npu_bandwidth * dim.efficiency
        times.append(found.own * block / rate)
        sent[part.dim] += found.sent * block / rate
        next_[part.dim] += found.next * block / rate * dim.links_per_npu
    return Walk(sent, next_, sum(times), max(times))


def _said(collective: Collective, op: CommOp) -> bool:
    """Whether the design says all of how an operation runs."""
    if collective.kernels is not None or collective.custom != Custom() or collective.composition == "themis":
        return False
    named = bool(getattr(collective, op.name.lower())) and collective.composition is not None
    return collective.choice == "none" or (collective.choice == "auto" and named and collective.chunks is not None)
