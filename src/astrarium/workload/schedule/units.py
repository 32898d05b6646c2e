"""What a schedule gives: units of work in order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I32, Bool

__all__ = ["BACKWARD", "FORWARD", "WEIGHT", "Units", "units"]


FORWARD, BACKWARD, WEIGHT = 0, 1, 2
"""Kinds of units. Where a schedule has WEIGHT units, its BACKWARD ones leave the gradients of weights to them."""


class Units(Struct, frozen=True, eq=False):
    """What one stage runs, in order; arrays are [units].

    `chunk`: which of the stage's parts of the model. `joined`: runs at the same time as the unit before it, that is, it
    waits for what that one waits for.
    """

    kind: I32
    batch: I32
    chunk: I32
    joined: Bool

    def __len__(self) -> int:
        return len(self.kind)


def units(kind: npt.ArrayLike, batch: npt.ArrayLike, chunk: npt.ArrayLike = 0,
          joined: npt.ArrayLike | Sequence[bool] = False) -> Units:
    """Units from what can be broadcast to their number."""
    kinds = np.asarray(kind, np.int32)
    batches, chunks = (np.broadcast_to(np.asarray(each, np.int32), kinds.shape) for each in (batch, chunk))
    return Units(kinds, batches, chunks, np.broadcast_to(np.asarray(joined, np.bool_), kinds.shape))
