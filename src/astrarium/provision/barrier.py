"""One convex program: the least time that affine cuts in inverse bandwidths allow, under linear budgets.

    minimise t over b [dims], t    with  constant[i] + sum_d slope[i, d] / b[d] <= t      for every cut i
                                         rows @ b <= limits,  low <= b <= high
                                         sum(b) = total   (where a total is to be spent exactly)

slope >= 0, so every constraint is convex. There are at most a few dims and some tens of cuts, so a primal barrier
method (Boyd and Vandenberghe, Convex Optimization, 2004, sections 10.2 and 11.3) with dense Newton steps takes about a
millisecond, and its multipliers give what a dollar is worth.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

__all__ = ["Feasible", "Least", "least_time"]

F64 = npt.NDArray[np.float64]
GROWTH = 30.0       # of the barrier's weight from one centre to the next
NEWTON = 60         # steps for one centre
GAP = 1e-7          # relative to the time
ROUGH, FINE = 1e-2, 1e-10     # Newton's decrements at which centres on the way, and the last one, are near enough


class Feasible(Struct, frozen=True):
    """Bandwidths (byte/ns) that a budget allows. `rows` [rows, dims], `limits` [rows], `low` and `high` [dims]."""

    rows: F64
    limits: F64
    low: F64
    high: F64
    total: float | None = None


class Least(Struct, frozen=True):
    """Bandwidths [dims], the least time (ns) that the cuts allow with them, a time that none is below, and ns per unit
    of each row's limit [rows] that more of it would save."""

    bandwidths: F64
    time: float
    bound: float
    worth: F64


def least_time(constant: F64, slope: F64, feasible: Feasible, start: F64) -> Least:
    """Solve it. `start` [dims] lies strictly inside."""
    dims = start.size
    scale = float((constant + slope @ (1 / start)).max())
    unit = start.copy()      # b = unit * x, so that Newton's matrices are well scaled
    problem = _Scaled(constant / scale, slope / unit / scale, feasible.rows * unit, feasible.limits,
                      feasible.low / unit, feasible.high / unit,
                      None if feasible.total is None else unit)
    x = np.append(np.ones(dims), float((problem.constant + problem.slope.sum(axis=1)).max()) * 1.01 + 1e-12)
    weight, count = 1.0, problem.count
    while count / weight > GAP * x[-1]:
        x = _centre(problem, x, weight, ROUGH)
        weight *= GROWTH
    x = _centre(problem, x, weight, FINE)
    slack = problem.limits - problem.rows @ x[:-1]
    return Least(x[:-1] * unit, float(x[-1]) * scale, float(x[-1] - count / weight) * scale,
                 scale / (weight * slack))


class _Scaled(Struct, frozen=True):
    constant: F64
    slope: F64
    rows: F64
    limits: F64
    low: F64
    high: F64
    equal: F64 | None      # [dims]: its product with x stays what it is

    @property
    def count(self) -> int:
        return int(self.constant.size + self.limits.size + self.low.size + np.isfinite(self.high).sum())

    def slacks(self, x: F64) -> F64:
        """All constraints' slacks; positive inside."""
        b = x[:-1]
        high = self.high - b
        return np.concatenate([x[-1] - self.constant - self.slope @ (1 / b), self.limits - self.rows @ b, b - self.low,
                               high[np.isfinite(self.high)]])

    def value(self, x: F64, weight: float) -> float:
        """The barrier's function; infinite outside."""
        if (x[:-1] <= 0).any():
            return float("inf")
        slacks = self.slacks(x)
        return float("inf") if (slacks <= 0).any() else float(weight * x[-1] - np.log(slacks).sum())

    def derivatives(self, x: F64, weight: float) -> tuple[F64, F64]:
        """Its gradient [dims + 1] and Hessian."""
        b, dims = x[:-1], x.size - 1
        jacobian = np.zeros((self.count, dims + 1))      # of the slacks
        cuts, rows = self.constant.size, self.limits.size
        jacobian[:cuts, :-1], jacobian[:cuts, -1] = self.slope / b**2, 1.0
        jacobian[cuts:cuts + rows, :-1] = -self.rows
        jacobian[cuts + rows:cuts + rows + dims, :-1] = np.eye(dims)
        jacobian[cuts + rows + dims:, :-1] = -np.eye(dims)[np.isfinite(self.high)]
        inverse = 1 / self.slacks(x)
        gradient = -jacobian.T @ inverse
        gradient[-1] += weight
        hessian = (jacobian.T * inverse**2) @ jacobian
        hessian[np.arange(dims), np.arange(dims)] += (inverse[:cuts] @ self.slope) * 2 / b**3
        return gradient, hessian


def _centre(problem: _Scaled, x: F64, weight: float, near: float) -> F64:
    """Newton's method with backtracking, from a point inside, to near the centre for one weight."""
    for _ in range(NEWTON):
        gradient, hessian = problem.derivatives(x, weight)
        step = _step(gradient, hessian, problem.equal)
        decrement = float(-gradient @ step)
        if decrement < near:
            break
        value, length = problem.value(x, weight), 1.0
        while problem.value(x + length * step, weight) > value - 0.25 * length * decrement:
            length /= 2
            if length < 1e-12:
                return x
        x = x + length * step
    return x


def _step(gradient: F64, hessian: F64, equal: F64 | None) -> F64:
    """Newton's step, along which equal @ x does not change."""
    size = gradient.size
    if equal is None:
        return np.asarray(np.linalg.solve(hessian, -gradient), np.float64)
    matrix = np.zeros((size + 1, size + 1))
    matrix[:size, :size] = hessian
    matrix[size, :size - 1] = matrix[:size - 1, size] = equal
    found: F64 = np.linalg.solve(matrix, np.append(-gradient, 0.0))[:size]
    return found
