"""What a workload that decides as it runs may ask of the design that it runs on."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

from astrarium.errors import InputError
from astrarium.vocab import CommOp

__all__ = ["Desk"]

WHERE = "Desk"


class Desk:
    """Handed to `Live.feed`. Groups and collectives are made known there, before the run; times may be asked for during
    it too.

    `ranks`: ranks of the design. `groups` and `collectives` are what was asked for so far, in order of number.
    """

    def __init__(self, ranks: int, duration: Callable[[int, float, int], int]) -> None:
        self.ranks = ranks
        self.groups: list[tuple[int, ...]] = []
        self.collectives: list[tuple[CommOp, int, int]] = []
        self._duration, self._open = duration, True

    def group(self, ranks: Sequence[int]) -> int:
        """The number of a new group of `ranks`, in that order. Raises InputError for ranks that do not exist or stand
        there twice, and after the run began."""
        self._before("group()")
        members = tuple(map(int, ranks))
        wrong = [rank for rank in members if not 0 <= rank < self.ranks]
        if wrong or not members or len({*members}) < len(members):
            what = f"there is no rank {wrong[0]}" if wrong else "a rank twice" if members else "nobody"
            raise InputError(WHERE, f"group(): {what}", expected=f"different ranks of 0 to {self.ranks - 1}")
        self.groups.append(members)
        return len(self.groups) - 1

    def collective(self, op: CommOp | str, size: int, group: int = -1) -> int:
        """The number of the collective `op` on `size` bytes (as traces count them: all_gather and gather the shard) of
        a group (-1: all ranks): what `plugins.work.collective` takes. The design says how it runs. Raises InputError.
        """
        self._before("collective()")
        known = {each.name.lower(): each for each in CommOp}
        found = known.get(op.lower()) if isinstance(op, str) else op
        if found is None:
            raise InputError(WHERE, f"collective(): there is no {op!r}", expected="one of " + ", ".join(known))
        whole = operator.index(size)
        if not 0 <= whole < 2**63:
            raise InputError(WHERE, f"collective(): {size!r} bytes", expected="0 or more, below 2^63")
        if not -1 <= group < len(self.groups):
            raise InputError(WHERE, f"collective(): there is no group {group}", expected="-1, or what group() gave")
        self.collectives.append((found, whole, group))
        return len(self.collectives) - 1

    def duration(self, num_ops: float, tensor_bytes: int = 0, rank: int = 0) -> int:
        """Time in ps that the design's compute model gives a node of these flops and bytes on a rank's NPU. Raises
        InputError where the model is `replay`, which knows recorded times only."""
        if not 0 <= rank < self.ranks or not math.isfinite(num_ops) or num_ops < 0 or tensor_bytes < 0:
            raise InputError(WHERE, f"duration({num_ops}, {tensor_bytes}, rank={rank})",
                             expected=f"flops and bytes of 0 or more, and one of {self.ranks} ranks")
        return self._duration(rank, float(num_ops), int(tensor_bytes))

    def close(self) -> None:
        """The run begins."""
        self._open = False

    def _before(self, what: str) -> None:
        if not self._open:
            raise InputError(WHERE, f"{what} after the run began", expected="every group and collective to be asked "
                             "for in feed()")
