"""Numbers of a step's nodes (FLOPs, bytes, sizes of kernels) as functions of what a step does, found from a few steps.

Nothing here knows an operator: numbers that are linear in the given features are solved for and checked at steps that
did not take part; else there is no formula.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.engine.plugins.kernels import Columns
from astrarium.vocab import NodeKind
from astrarium.workload.assemble.pool import SIZES
from astrarium.workload.pieces import Step

__all__ = ["CHECKS", "Formula", "formula_of", "is_close", "kernels_of", "numbers_of"]

CLOSE = 1e-6
CHECKS = 5


def numbers_of(step: Step) -> tuple[float, ...]:
    """What varies of a step: bytes of a collective; FLOPs, bytes and the kernel's work and shape of others."""
    if step.kind == NodeKind.COMM_COLL:
        return (float(step.bytes),)
    shape = (step.kernel.work, *step.kernel.shape) if step.kernel else ()
    return (float(step.flops), float(step.bytes), *map(float, shape))


def kernels_of(step: Step, numbers: F64, first: int) -> Columns:
    """The kernel of a step with `numbers` [points, numbers] in the place of its own, at each point; the first is number
    `first` of a table."""
    sketch = step.kernel
    assert sketch is not None
    numbers = np.maximum(0, numbers)    # beyond what a sort of steps has, formulas mean nothing
    whole = np.rint(numbers)
    whole[:, 3:3 + SIZES] = np.maximum(1, whole[:, 3:3 + SIZES])
    points = np.arange(first, first + len(numbers))
    return Columns(sketch.kind, sketch.precision, sketch.held, points, whole[:, 3:].T.astype(np.int64), numbers[:, 2],
                   whole[:, 0], whole[:, 1].astype(np.int64), np.full(len(points), sketch.launches), sketch.op)


class Formula(Struct, frozen=True, eq=False):
    """numbers [points, numbers] = features [points, features] @ `weights` [features, numbers]."""

    weights: F64

    def __call__(self, features: F64) -> F64:
        """The numbers at each point."""
        return features @ self.weights


def is_close(found: F64, numbers: F64) -> bool:
    """Whether all are the numbers, up to rounding."""
    return bool((np.abs(found - numbers) <= CLOSE * np.maximum(np.abs(numbers), 1e-9)).all())


def formula_of(features: F64, numbers: F64, first: int | None = None) -> Formula | None:
    """The formula of numbers [points, numbers] at points with `features` [points, features], of the `first` features if
    these will do; None where no formula gives the numbers. The last CHECKS points only check it."""
    for used in sorted({first or features.shape[1], features.shape[1]}):
        columns = features[:, :used]
        scale, fitted = np.maximum(np.abs(columns).max(0), 1e-300), len(columns) - CHECKS
        weights = np.linalg.lstsq(columns[:fitted] / scale, numbers[:fitted], rcond=1e-13)[0] / scale[:, None]
        if is_close(columns @ weights, numbers):
            return Formula(np.concatenate([weights, np.zeros((features.shape[1] - used, numbers.shape[1]))]))
    return None
