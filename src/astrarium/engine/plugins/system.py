"""The *system* protocols: which ready node goes next, and which algorithms a collective takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from astrarium.engine.plan import Dim
from astrarium.vocab import CommOp

__all__ = ["CollectiveChoice", "Scheduling"]


class Scheduling(Protocol):
    """A scheduling policy for one run."""

    def pick(self, rank: int, lane: int, nodes: Sequence[int], now: int) -> int:
        """Which of a lane's ready nodes `rank` issues next: an index into `nodes`.

        `nodes` are node ids, ascending, two or more; `lane` is an engine.plan.Lane; `now` is in ps. Asked whenever the
        lane has room, ranks ascending within an instant.
        """
        ...


class CollectiveChoice(Protocol):
    """Picks algorithms when a design is lowered. Pure: the same question always gets the same answer."""

    def algorithms(self, op: CommOp, size: int, npus: Sequence[int], dims: Sequence[Dim]) -> Sequence[str]:
        """Algorithm names for an `op` of `size` bytes among `npus` (in group order): one per dim of the network,
        innermost first, or one for all; `direct:K` as in a design. Empty: the design's choice is kept."""
        ...
