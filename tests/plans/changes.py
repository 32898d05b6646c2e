"""Random changes of speed."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np

from astrarium.engine.plan import FULL_SPEED, Changes, Changing

__all__ = ["Change", "changes_of", "random_changes"]

Change = tuple[int, Changing, int, int]     # time, what, number, parts per million


def changes_of(rows: Iterable[Change]) -> Changes:
    """The Changes of these rows."""
    time, what, number, factor = zip(*rows, strict=True)
    return Changes(np.array(time, np.int64), np.array(what, np.uint8), np.array(number, np.int32),
                   np.array(factor, np.int64))


def random_changes(rng: random.Random, npus: int, links: int, until: int, factors: tuple[int, ...]) -> Changes:
    """A few changes of some NPUs and links, some at one time; `links` 0: of NPUs only."""
    def one() -> Change:
        what = rng.choice([Changing.NPU, Changing.LINK]) if links else Changing.NPU
        time = rng.choice([0, until // 2, rng.randrange(until + 1)])
        return time, what, rng.randrange(npus if what == Changing.NPU else links), rng.choice(factors)

    rows = [one() for _ in range(rng.randint(1, 12))]
    if 0 in factors and rng.random() < 0.8:     # most stand still for a while only
        rows += [(until + 1, what, number, FULL_SPEED) for _, what, number, _ in rows]
    return changes_of(rows)
