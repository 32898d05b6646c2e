"""Sobol indices of a study of the agent `saltelli`: the shares of the objective's variance that its knobs explain.

With the objective Y over uniform feasible designs (I. M. Sobol, "Sensitivity estimates for nonlinear mathematical
models", 1993):

- first order: Var(E[Y | knob]) / Var(Y), the share that the knob explains by itself;
- total: E[Var(Y | all other knobs)] / Var(Y), the share that goes if the other knobs are known: its interactions, too.

Estimators, over N blocks of points A, B and A with factor i from B:

- total of a factor: half the mean of (Y_A - Y_i)^2 over the variance (M. J. W. Jansen, 1999);
- first order of a knob: one-way analysis of variance of Y over its values at A and B, without what noise adds to it
  (epsilon squared, T. L. Kelley, 1935); a continuum counts as at most 32 equally filled values. On Sobol's g-function
  its error is a third to a seventh of that of the correlation of Y_B and Y_i, the usual estimator.

Objectives above 0 are analysed by their logarithm. Intervals of 95 % come from a jackknife over 20 groups of blocks
(Student's t, 19 degrees of freedom). Refused designs have no Y: every estimate is over the pairs that have both, so it
is of the designs that run; `runs` is the total index of whether a design runs, over all of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.errors import InputError
from astrarium.search.agents.saltelli import Saltelli, factors_of, sample_blocks
from astrarium.search.axes import Point
from astrarium.search.space import Space
from astrarium.search.studyfile import StoredStudy

__all__ = ["GROUPS", "Estimate", "Index", "Sobol", "estimated", "sampled", "sobol_indices"]

GROUPS, STUDENT = 20, 2.093      # of the jackknife; Student's t, 97.5 %, 19 degrees of freedom
BINS = 32
Measure = Callable[[npt.NDArray[np.bool_]], float]      # of the blocks that count


class Estimate(Struct, frozen=True):
    """A share, and the 95 % interval around it. An estimate may be slightly below 0."""

    value: float
    low: float
    high: float


class Index(Struct, frozen=True):
    """The indices of a knob, or the total of several that constraints tie; such a knob has a first order, but no total,
    because it cannot vary alone. `runs`: the total index of whether a design runs; None if all do."""

    knobs: tuple[str, ...]
    first: Estimate | None
    total: Estimate | None
    runs: Estimate | None = None


class Sobol(Struct, frozen=True):
    """Sobol indices of the first objective, the largest total first; knobs of a tied factor follow it. `blocks` of the
    sample with `designs`, of which `refused` have no value; `logarithm`: whether of the objective's logarithm."""

    blocks: int
    designs: int
    refused: int
    logarithm: bool
    indices: tuple[Index, ...]


def sampled(studies: Sequence[StoredStudy]) -> list[StoredStudy]:
    """Those of the studies that are designed samples."""
    return [study for study in studies if isinstance(study.plan.agent, Saltelli)]


def sobol_indices(studies: Sequence[StoredStudy]) -> Sobol:
    """Compute the Sobol indices of the first objective from designed samples of one space.

    Args:
        studies: Studies of the agent `saltelli`; each with another seed.

    Raises:
        InputError: for fewer than 20 whole blocks, for a factor with fewer than 20 pairs of designs that run, and for
            an objective that is the same everywhere.
    """
    space = studies[0].plan.space
    blocks, values = list[list[Point]](), list[list[float]]()
    for study in studies:
        known, trials = dict[Point, float](), 0
        for trial in study.trials():
            values_of = trial.verdict.values if trial.verdict.feasible else None
            known[trial.point], trials = values_of[0] if values_of else math.nan, trials + 1
        whole = trials // (len(factors_of(space)) + 2)      # a small space holds further blocks, without end
        for block in itertools.islice(sample_blocks(space, study.plan.seed), whole):
            if not all(point in known for point in block):
                break
            blocks.append(block)
            values.append([known[point] for point in block])
    return estimated(space, blocks, values)


def estimated(space: Space, blocks: Sequence[Sequence[Point]], values: Sequence[Sequence[float]],
              logarithm: bool | None = None) -> Sobol:
    """Estimate Sobol indices from `blocks` of `sample_blocks` and their values (NaN: refused). `logarithm`: of the
    values' logarithms; None: if all are above 0. Raises InputError as `sobol_indices`."""
    width = len(factors_of(space)) + 2
    if len(blocks) < GROUPS:
        least = GROUPS * width + 1      # with the base
        raise InputError("Sobol indices", f"{len(blocks)} whole blocks of {width} designs are too few",
                         expected=f"{GROUPS} blocks or more: --trials {least}, better 10 times as many")
    y = np.array(values, dtype=float)
    good = np.isfinite(y)
    logarithm = bool((y[good] > 0).all()) if logarithm is None else logarithm
    if logarithm:
        y[good] = np.log(y[good])
    pairs = int((good[:, :1] & good[:, 2:]).sum(axis=0).min())
    if pairs < GROUPS:
        raise InputError("Sobol indices", f"too few designs run: a factor has only {pairs} pairs of them",
                         expected=f"{GROUPS} or more: --trials {math.ceil(GROUPS / max(pairs, 1) * good.size)}")
    if np.ptp(y[:, :2][good[:, :2]]) == 0:
        raise InputError("Sobol indices", "the objective is the same for every design")
    sample = _Sample(space, y, np.array([block[:2] for block in blocks], dtype=float))
    return Sobol(len(blocks), good.size, int(good.size - good.sum()), logarithm, tuple(sample.indices()))


class _Sample:
    """`y` [blocks, 2 + factors], NaN where refused; `points` [blocks, 2, axes] of A and B."""

    def __init__(self, space: Space, y: F64, points: F64):
        self.space, self.y, self.points = space, y, points
        self.runs = np.isfinite(y).astype(float)

    def indices(self) -> list[Index]:
        """Of every factor, the largest total first; after a tied one its knobs."""
        found = list[tuple[float, list[Index]]]()
        for number, factor in enumerate(factors_of(self.space)):
            total = self._total(self.y, number)
            runs = None if self.runs.all() else self._total(self.runs, number)
            own = [(self.space.axes[place].name, self._first(place)) for place in factor]
            if len(own) == 1:
                found.append((total.value, [Index((own[0][0],), own[0][1], total, runs)]))
                continue
            own.sort(key=lambda each: -each[1].value)
            names = tuple(self.space.axes[place].name for place in factor)
            found.append((total.value, [Index(names, None, total, runs),
                                        *(Index((name,), first, None) for name, first in own)]))
        found.sort(key=lambda each: -each[0])
        return [index for _, each in found for index in each]

    def _total(self, y: F64, factor: int) -> Estimate:
        return _jackknife(lambda kept: _total(y[kept], factor), len(y))

    def _first(self, place: int) -> Estimate:
        values = self.points[:, :, place].ravel()
        levels = np.unique(values, return_inverse=True)[1]
        if not self.space.axes[place].size:
            levels = np.argsort(np.argsort(values)) * min(BINS, math.isqrt(len(values))) // len(values)
        levels = levels.reshape(len(self.y), 2)
        return _jackknife(lambda kept: _between(self.y[kept, :2].ravel(), levels[kept].ravel()), len(self.y))


def _jackknife(measure: Measure, blocks: int) -> Estimate:
    """The measure over all blocks; its interval from leaving out each of GROUPS groups in turn."""
    group, every = np.arange(blocks) % GROUPS, measure(np.ones(blocks, dtype=bool))
    without = np.array([measure(group != out) for out in range(GROUPS)])
    half = STUDENT * math.sqrt((GROUPS - 1) * float(np.mean((without - without.mean()) ** 2)))
    return Estimate(every, every - half, every + half)


def _total(y: F64, factor: int) -> float:
    """Jansen's estimator over the pairs that have both values."""
    pairs, drawn = y[:, 0] - y[:, 2 + factor], y[:, :2]
    pairs, drawn = pairs[np.isfinite(pairs)], drawn[np.isfinite(drawn)]
    if not len(pairs) or not drawn.var():
        return 0.0
    return float(np.mean(pairs**2) / 2 / drawn.var())


def _between(y: F64, level: npt.NDArray[np.int64]) -> float:
    """Epsilon squared of a one-way analysis of variance."""
    good = np.isfinite(y)
    y, level = y[good] - y[good].mean(), level[good]
    count, total = np.bincount(level), np.bincount(level, y)
    used = count > 0
    between, whole, levels = float(np.sum(total[used] ** 2 / count[used])), float(np.sum(y**2)), int(used.sum())
    if not whole or len(y) <= levels:
        return 0.0
    return (between - (levels - 1) * (whole - between) / (len(y) - levels)) / whole
