"""DualPipe (DeepSeek-V3 technical report, arXiv 2412.19437, section 3.2.1): micro-batches enter at both ends.

A stage holds two parts of the model: part 0 is part `stage` of a copy that runs from the first stage to the last, part
1 is part s - 1 - `stage` of a second copy that runs the other way; each copy takes half of the micro-batches. In the
middle of a step forward of one copy runs at the same time as backward of the other, so that the communication of each
hides behind the other's operations. Bubble (s / 2 - 1)(T_F&B + T_B - 3 T_W), T_B of the whole backward; 2 copies of the
weights; s + 1 micro-batches in flight (its table 2).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from astrarium.config import Problem
from astrarium.workload.schedule.base import PipelineSchedule, single
from astrarium.workload.schedule.units import BACKWARD, FORWARD, WEIGHT, Units, units

__all__ = ["DUALPIPE", "dualpipe"]


class _Order(Struct):
    """Units so far. Sides: 0 enters at the nearer end of the pipeline, 1 at the farther one."""

    second: bool                     # whether this stage is in the second half: its side 0 is part 1
    batches: int
    rows: list[tuple[int, int, int, bool]] = field(default_factory=list)
    done: dict[tuple[int, int], int] = field(default_factory=dict)
    owed: list[tuple[int, int]] = field(default_factory=list)

    def run(self, kind: int, side: int, joined: bool = False) -> None:
        """The next micro-batch of a side: forward, backward with its gradients of weights, or (LATER) without."""
        chunk = side ^ int(self.second)
        what = FORWARD if kind == FORWARD else BACKWARD
        number = self.done.get((what, chunk), 0)
        self.done[what, chunk] = number + 1
        batch = number + chunk * (self.batches // 2)
        self.rows.append((what, batch, chunk, joined))
        if what == BACKWARD:
            self.owed.append((batch, chunk))
            if kind == BACKWARD and not joined:
                self.weight()

    def weight(self) -> None:
        """The oldest gradients of weights that are still to be made."""
        batch, chunk = self.owed.pop(0)
        self.rows.append((WEIGHT, batch, chunk, False))

    def both(self, forward: int, backward: int) -> None:
        """Forward of one side and backward, all of it, of the other, at the same time."""
        self.run(FORWARD, forward)
        self.run(BACKWARD, backward, joined=True)
        self.weight()


LATER = -1


def dualpipe(stages: int, stage: int, batches: int, chunks: int) -> Units:
    """Units of one stage; `stages` is even, `batches` even and at least 2 * `stages`."""
    del chunks
    second = stage >= stages // 2
    near = min(stage, stages - 1 - stage)
    far = stages // 2 - 1 - near
    order = _Order(second, batches)
    for _ in range(2 * far):
        order.run(FORWARD, 0)
    for _ in range(near + 1):
        order.run(FORWARD, 0)
        order.run(FORWARD, 1)
    for _ in range(far):
        order.run(LATER, 1)
        order.weight()
        order.run(FORWARD, 1)
    for _ in range(batches // 2 - stages + near + 1):
        order.both(0, 1)
        order.both(1, 0)
    for _ in range(far):
        order.run(BACKWARD, 1)
        order.both(1, 0)
    _end(order, near, far)
    kind, batch, chunk, joined = (list(column) for column in zip(*order.rows, strict=True))
    return units(kind, batch, chunk, joined)


def _end(order: _Order, near: int, far: int) -> None:
    """The last backward units, their gradients of weights ever later, to fill the bubble."""
    for turn in range(near + 1):
        for side in (1, 0):
            late = 2 * turn + (1 - side) >= near + 1
            order.run(LATER if late else BACKWARD, side)
    for _ in range(far):
        order.weight()
        order.run(LATER, 0)
    while order.owed:
        order.weight()


def _both_ways(stages: int, chunks: int) -> npt.NDArray[np.int32]:
    del chunks
    stage = np.arange(stages, dtype=np.int32)
    return np.stack([stage, stages - 1 - stage], axis=1)


def _check(stages: int, batches: int, chunks: int) -> Iterator[Problem]:
    yield from single(stages, batches, chunks)
    if stages % 2:
        yield Problem("pp", f"{stages} is odd", f"an even number for schedule: dualpipe, such as {stages + 1}")
    if batches % 2 or batches < 2 * stages:
        yield Problem("micro_batch", f"makes {batches} micro-batches",
                      f"an even number of at least 2 * pp ({2 * stages}) for schedule: dualpipe")


DUALPIPE = PipelineSchedule(dualpipe, place=_both_ways, check=_check, copies=2, split=True, conditions=(
    "workload.pp % 2 == 0", "{batches} % 2 == 0 and {batches} >= 2 * workload.pp"))
