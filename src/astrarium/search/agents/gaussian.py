"""Gaussian process regression of one output: a Matern 5/2 kernel with a length scale per knob.

Hyper-parameters maximise the marginal likelihood with the priors of Hvarfner et al. 2024 (arXiv 2402.02229): the
logarithm of a length scale is normal around sqrt(2) + log(knobs) / 2 with a deviation of sqrt(3). They move in steps of
fixed sizes (Rprop, Riedmiller and Braun 1993) by the sign of the gradient alone, so that the rounding errors of another
machine do not change them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

__all__ = ["Floats", "Model", "Prediction", "fit", "log_cdf", "log_improvement", "one_thread"]

Floats = npt.NDArray[np.float64]

NOISE = (math.log(1e-6), math.log(1e-1))      # of the variance of the process
PRIOR_NOISE = (-9.0, 2.0)                     # mean and deviation of the logarithm
STEPS = (0.05, 1.0)                           # least and largest change of a logarithm in one step
FLAT = 1e-3                                   # a gradient below it is none
LEAST = 1e-9                                  # least variance, of that of the process
SQRT5 = math.sqrt(5.0)


def one_thread() -> AbstractContextManager[Any]:
    """numpy's matrix library on one thread in this block. Several gain little on a few hundred rows, and wait for each
    other for most of the time where other work runs."""
    found: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return found


@cache
def _libraries() -> Any:
    return import_module("threadpoolctl").ThreadpoolController()


class Model(Struct, frozen=True, eq=False):
    """A fitted process. `weights`: the inverse length scale of each feature; `points`: features times weights;
    `inverse`: of the covariance, `solved`: times the values; `mean` and `spread` undo the standardisation; `noise` and
    `variance`: of the process."""

    points: Floats
    weights: Floats
    solved: Floats
    inverse: Floats
    mean: float
    spread: float
    variance: float
    noise: float

    def at(self, points: Floats) -> Prediction:
        """Predict the output at rows of features."""
        return Prediction(self, points)


class Prediction:
    """An output at some points: `mean` and `variance` of each, in units of the output."""

    def __init__(self, model: Model, points: Floats):
        self._model, self._near = model, points * model.weights
        self._cross = _kernel(_squares(self._near, model.points))
        self._solved = self._cross @ model.inverse
        self._left = np.maximum(LEAST, 1.0 - np.einsum("ij,ij->i", self._solved, self._cross))
        self.mean = model.mean + model.spread * (self._cross @ model.solved)

    @property
    def deviation(self) -> Floats:
        """The standard deviation of each point."""
        return np.asarray(self._model.spread * np.sqrt(self._model.variance * self._left))

    def believe(self, place: int) -> None:
        """Take the mean of a point for its value: the means stay, the variances near it fall."""
        shared = _kernel(_squares(self._near, self._near[place:place + 1]))[:, 0] - self._solved @ self._cross[place]
        known = self._left[place] + self._model.noise
        self._left = np.maximum(LEAST, self._left - shared * shared / known)


def fit(points: Floats, values: Floats, columns: Sequence[int], steps: int) -> Model:
    """Fit a process.

    Args:
        points: Features, [points, features], each within 0 and 1.
        values: The output of each point.
        columns: Number of the knob of each feature; features of a knob share its length scale.
        steps: Steps of the optimiser, which begins at the means of the priors.

    Returns:
        The model.
    """
    mean, spread = float(values.mean()), float(values.std()) or 1.0
    scaled, group = (values - mean) / spread, np.asarray(columns)
    knobs = int(group.max()) + 1
    center, wide = math.sqrt(2.0) + 0.5 * math.log(knobs), 3.0      # mean and variance of the prior of scales
    theta = np.array([*[center] * knobs, PRIOR_NOISE[0]])
    step, before = np.full(len(theta), 0.3), np.zeros(len(theta))
    for _ in range(steps):
        slope = _slope(points, scaled, group, theta)
        slope[:-1] -= (theta[:-1] - center) / wide
        slope[-1] -= (theta[-1] - PRIOR_NOISE[0]) / PRIOR_NOISE[1]**2
        sign = np.where(np.abs(slope) < FLAT, 0.0, np.sign(slope))
        step = np.clip(step * np.where(sign * before > 0, 1.2, np.where(sign * before < 0, 0.5, 1.0)), *STEPS)
        theta = theta + sign * step
        theta[-1] = min(NOISE[1], max(NOISE[0], theta[-1]))
        before = sign
    return _model(points, scaled, group, theta, mean, spread)


def _model(points: Floats, scaled: Floats, group: Any, theta: Floats, mean: float, spread: float) -> Model:
    weights = np.exp(-theta[:-1])[group]
    near = points * weights
    inverse: Floats = np.linalg.inv(_covariance(_squares(near, near), theta[-1])).astype(np.float64, copy=False)
    solved = inverse @ scaled
    return Model(near, weights, solved, inverse, mean, spread, max(1e-6, float(scaled @ solved) / len(scaled)),
                 math.exp(theta[-1]))


def _covariance(squares: Floats, noise: float) -> Floats:
    found = _kernel(squares)
    found[np.diag_indices_from(found)] = 1.0 + math.exp(noise)
    return found


def _squares(one: Floats, two: Floats) -> Floats:
    """Squared distances between rows."""
    found = np.einsum("ij,ij->i", one, one)[:, None] + np.einsum("ij,ij->i", two, two)[None] - 2.0 * one @ two.T
    return np.asarray(np.maximum(found, 0.0))


def _kernel(squares: Floats) -> Floats:
    far = SQRT5 * np.sqrt(squares)
    return np.asarray((1.0 + far + far * far / 3.0) * np.exp(-far))


def _slope(points: Floats, scaled: Floats, group: Any, theta: Floats) -> Floats:
    """The gradient of the log marginal likelihood, whose variance is the best one (concentrated)."""
    near = points * np.exp(-theta[:-1])[group]
    squares = _squares(near, near)
    inverse = np.linalg.inv(_covariance(squares, theta[-1]))
    solved = inverse @ scaled
    variance = max(1e-12, float(scaled @ solved) / len(scaled))
    outer = np.outer(solved, solved) / variance - inverse
    far = SQRT5 * np.sqrt(squares)
    change = outer * (5.0 / 3.0) * (1.0 + far) * np.exp(-far)      # d kernel / d squares is -5/6 of the last two
    sums = np.einsum("i,ij->j", change.sum(axis=1), near * near) - np.einsum("ij,ij->j", near, change @ near)
    slope = np.zeros(len(theta))
    np.add.at(slope, group, sums)      # d squares / d log scale is -2 squares; twice as each pair counts
    slope[-1] = 0.5 * math.exp(theta[-1]) * float(np.trace(outer))
    return slope


def log_cdf(z: Floats) -> Floats:
    """The logarithm of the standard normal distribution function."""
    return np.array([math.log(0.5 * math.erfc(-each / math.sqrt(2.0))) if each > -30 else
                     -0.5 * each * each - math.log(-each * math.sqrt(2.0 * math.pi)) for each in z.tolist()])


def log_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """The logarithm of the expected improvement of a minimum on `best`."""
    found = []
    for each, sigma in zip(((best - mean) / deviation).tolist(), deviation.tolist()):
        density = math.exp(-0.5 * each * each) / math.sqrt(2.0 * math.pi)
        if each > -6.0:
            worth = math.log(density + each * 0.5 * math.erfc(-each / math.sqrt(2.0)))
        else:
            worth = -0.5 * each * each - math.log(math.sqrt(2.0 * math.pi) * (each * each + 2.0))
        found.append(worth + math.log(sigma))
    return np.array(found)
