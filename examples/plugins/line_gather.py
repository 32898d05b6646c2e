"""A collective algorithm: an all_gather on a line, each block passed on both ways.

`collective.choice: auto` looks at it on meshes (`candidate`) and estimates it by its messages there (`counts`).
Registered as `algorithm.line_gather`, it is chosen by designs that name no algorithm.
"""

from __future__ import annotations

import numpy as np

from astrarium import CommOp
from astrarium.collective import Algorithm, Bound, Case, Counts, Messages, Options, assemble, check_bound, examine
from astrarium.plugins import Schedule, Shape


def build(op: CommOp, n: int, options: Options) -> Schedule:
    """Block b goes up from participant b to n - 1, and down to 0, one place at a time."""
    rows = []
    for block in range(n):
        rows += [(place, place + 1, place - block, block) for place in range(block, n - 1)]
        rows += [(place, place - 1, block - place, block) for place in range(block, 0, -1)]
    source, target, time, blocks = np.array(rows, np.int64).reshape(-1, 4).T
    return assemble(op, "line_gather", n, n, Messages(source, target, time, time - 1, np.zeros(len(time), np.bool_),
                                                      np.arange(len(time) + 1), blocks))


def bound(op: CommOp, n: int, blocks: int) -> Bound:
    """A participant inside passes n + 1 blocks on, and the ends wait n - 1 steps."""
    return Bound(sent=n + 1, received=n - 1, steps=n - 1)


def candidate(case: Case) -> bool:
    """On a line of three or more."""
    return case.shape == Shape.MESH and case.n > 2


def counts(case: Case) -> list[Counts]:
    """n - 1 messages of a block to the neighbour, one after the other; both ways at once."""
    return [Counts(port=0, times=case.n - 1, held=1.0, hops=case.reach.near, size=1.0)]


LINE_GATHER = Algorithm(build, frozenset({CommOp.ALL_GATHER}), bound, candidate, counts)
PLUGINS = {"algorithm.line_gather": "LINE_GATHER"}      # for --plugin line_gather.py


def main() -> None:
    for n in (2, 3, 8):
        schedule = build(CommOp.ALL_GATHER, n, Options())
        check_bound(schedule, examine(schedule), bound(CommOp.ALL_GATHER, n, schedule.blocks))
    print("proved, within its bound")


if __name__ == "__main__":
    main()
