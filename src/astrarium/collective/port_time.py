"""How long a collective needs ports, however it is timed: its bytes at the rate of the data sheet."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from astrarium.collective.config import Collective
from astrarium.collective.estimate import least_sent
from astrarium.collective.exchange import ALL_TO_ALL
from astrarium.collective.fabrics import fabric
from astrarium.collective.timers import Way
from astrarium.vocab import CommOp

__all__ = ["port_ns"]


def port_ns(collective: Collective, op: CommOp, payload: float, ways: Sequence[Way]) -> float:
    """ns for which a collective needs the port of each member in the outermost of its `ways` at least: the bytes that
    leave the member's block (`estimate.least_sent`), dealt evenly to the block's members. 0 where less may be sent:
    kernels that exchange tokens send one to a host once, whichever experts it has there."""
    if not ways or (op == CommOp.ALL_TO_ALL and (collective.exchange or ALL_TO_ALL) != ALL_TO_ALL):
        return 0.0
    last = ways[-1]
    adds = last.fabric is None or fabric(last.fabric).in_network
    return least_sent(op, last.ranks, prod(way.ranks for way in ways[:-1]), adds) * payload / last.bandwidth
