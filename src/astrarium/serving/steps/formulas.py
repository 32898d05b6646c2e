"""Numbers of a step's nodes (FLOPs, bytes, sizes of kernels) as functions of what a step does, found from a few steps.

Nothing here knows an operator: numbers that are linear in the given features are solved for and checked at steps that
did not take part; else there is no formula.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.vocab import Kernel, NodeKind
from astrarium.workload.assemble.pool import SIZES
from astrarium.workload.pieces import Step

__all__ = ["CHECKS", "Formula", "formula_of", "kernels_of", "numbers_of"]

F64 = npt.NDArray[np.float64]
CLOSE = 1e-6
CHECKS = 5


def numbers_of(step: Step) -> tuple[float, ...]:
    """What varies of a step: bytes of a collective; FLOPs, bytes and the kernel's work and shape of others."""
    if step.kind == NodeKind.COMM_COLL:
        return (float(step.bytes),)
    shape = (step.kernel.work, *step.kernel.shape) if step.kernel else ()
    return (float(step.flops), float(step.bytes), *map(float, shape))


def kernels_of(step: Step, numbers: F64) -> list[Kernel]:
    """The kernel of a step with `numbers` [points, numbers] in the place of its own, at each point."""
    sketch = step.kernel
    assert sketch is not None
    whole = np.rint(numbers)
    flops, sizes = whole[:, 0].tolist(), whole[:, 1].astype(np.int64).tolist()
    whole[:, 3:3 + SIZES] = np.maximum(1, whole[:, 3:3 + SIZES])
    shapes = whole[:, 3:].astype(np.int64).tolist()
    return [Kernel(sketch.kind, sketch.precision, tuple(shape), work, flop, size, sketch.launches, sketch.held)
            for shape, work, flop, size in zip(shapes, numbers[:, 2].tolist(), flops, sizes, strict=True)]


class Formula(Struct, frozen=True, eq=False):
    """numbers [points, numbers] = features [points, features] @ `weights` [features, numbers]."""

    weights: F64

    def __call__(self, features: F64) -> F64:
        """The numbers at each point."""
        return features @ self.weights


def formula_of(features: F64, numbers: F64, first: int | None = None) -> Formula | None:
    """The formula of numbers [points, numbers] at points with `features` [points, features], of the `first` features if
    these will do; None where no formula gives the numbers. The last CHECKS points only check it."""
    for used in sorted({first or features.shape[1], features.shape[1]}):
        columns = features[:, :used]
        scale, fitted = np.maximum(np.abs(columns).max(0), 1e-300), len(columns) - CHECKS
        weights = np.linalg.lstsq(columns[:fitted] / scale, numbers[:fitted], rcond=1e-13)[0] / scale[:, None]
        if bool((np.abs(columns @ weights - numbers) <= CLOSE * np.maximum(np.abs(numbers), 1e-9)).all()):
            return Formula(np.concatenate([weights, np.zeros((features.shape[1] - used, numbers.shape[1]))]))
    return None
