"""Sizes and counts as functions of the conditions.

A size is a sum of products of powers of the conditions where one such fits (traces obey power laws: a product of
matrices has 2 b s d f / tp flop), else the exponential of a quadratic in their logarithms. Coefficients are positive
and found under relative errors by non-negative least squares with an active set (Lawson, Hanson, Solving Least Squares
Problems, 1974, chapter 23). A count is affine in one or a few combinations of conditions (layers / pp, min(pp - stage,
micro_batches), ...), rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, combinations_with_replacement, product
from math import prod

import msgspec
import numpy as np

from astrarium.arrays import F64, I64

__all__ = ["Count", "Form", "Law", "fit_count", "fit_law", "fit_limit", "form_values", "forms_of", "table"]

ENDS = ("first", "last")
EXACT, STEPS, ROWS, CANDIDATES = 1e-6, 48, 240, 4_000
LARGEST = 2.0**62       # bytes or flop
STEEPEST = 16           # an exponent, at most: of a few rows any could be fitted
SLOW = 0.9999           # a step that leaves more than this of the error is the last
MANY = 1e9              # rounds of a loop, at most
SPANS = ("near", "half", "sharp", "wide")       # of exponents; see `_powers`
HALF, MIXED, ALL = 0.5, 0.3, 0.1        # of slopes; see `_powers`
WHOLE, SAME = 0.004, 1e-6       # how near an exponent is to a whole number to be one: roughly, exactly
CLOSE = 1e-5            # of a limit: sizes are whole bytes
RIDGE = 1e-9
QUANTILES = np.linspace(0.05, 0.95, 10)


class Law(msgspec.Struct, frozen=True):
    """sum over terms of coefficient * prod z ** exponent, z the conditions; `log`: exp of it, z their logarithms.
    `residual`: quantiles of log(value / law) at 5, 15, ..., 95 %."""

    coefficient: list[float]
    exponent: list[list[float]]
    log: bool
    residual: list[float]

    def at(self, x: F64) -> F64:
        """[rows] at conditions [rows, conditions]."""
        z = np.log(np.maximum(x, 1e-9)) if self.log else x
        with np.errstate(all="ignore"):         # of a file, numbers may be anything
            powers = [np.prod(np.power(z, np.array(row)), axis=1) for row in self.exponent]
            value = np.asarray(sum(c * p for c, p in zip(self.coefficient, powers, strict=True)), np.float64)
            value = np.exp(np.clip(value, -41, 41)) if self.log else value
        return np.asarray(np.clip(np.nan_to_num(value), 0, LARGEST), np.float64)


def table(conditions: Sequence[Mapping[str, float]], names: Sequence[str], *, sizes: bool = False) -> F64:
    """[rows, names + ENDS] the conditions, and whether the stage is the first or the last (1 or 0). For `sizes` the
    stage itself is 1: a size may differ on the ends, but is no power of a number."""
    rows = [[1.0 if sizes and name == "stage" else row[name] for name in names] +
            [float(row.get("stage", 0) == 0),
                                             float(row.get("stage", 0) == row.get("pp", 1) - 1)] for row in conditions]
    return np.array(rows, np.float64)


# ------------------------------------------------------------ sizes
def fit_law(x: F64, y: F64) -> Law:
    """The law of y > 0 [rows] at x [rows, conditions]: what is nearest on rows that the fit has not seen."""
    keep = np.linspace(0, len(y) - 1, min(len(y), ROWS)).astype(np.int64)
    x, y = x[keep], y[keep]
    if np.ptp(y) <= EXACT * y.max():
        return Law([float(np.median(y))], [[0.0] * x.shape[1]], False, [0.0] * 10)
    held = np.arange(len(y)) % 5 == 4 if len(y) >= 20 else np.zeros(len(y), np.bool_)
    best: tuple[float, Law] | None = None
    for fit in (_power, _sum, _quadratic):
        found = fit(x[~held], y[~held])
        if found is None:
            continue
        shown = held if held.any() else ~held
        error = float(np.mean(np.abs(found.at(x[shown]) / y[shown] - 1)))
        if best is None or error < 0.7 * best[0]:
            best = error, found
        if error < EXACT:
            break
    law = best[1] if best is not None else Law([float(np.median(y))], [[0.0] * x.shape[1]], False, [])
    rest = np.log(y / np.maximum(law.at(x), 1e-30))
    return Law(law.coefficient, law.exponent, law.log, np.quantile(rest, QUANTILES).tolist())


def _logs(x: F64) -> tuple[F64, I64]:
    """Logarithms of the conditions that vary and are positive, and which those are; of several that are multiples of
    each other the first."""
    used = np.flatnonzero((x > 0).all(axis=0) & (np.ptp(x, axis=0) > 0))
    logs = np.log(x[:, used])
    first = [i for i in range(used.size) if not any(np.ptp(logs[:, i] - logs[:, j]) < SAME for j in range(i))]
    return logs[:, first], used[first]


def _slopes(x: F64, y: F64) -> F64:
    """[conditions] least-squares exponents of log y; ends enter as they are."""
    logs, used = _logs(x)
    ends = [i for i in range(x.shape[1]) if i not in used and np.ptp(x[:, i]) > 0]
    full = np.column_stack([np.ones(len(y)), logs, x[:, ends]])
    found = _solve(full, np.log(y))
    out = np.zeros(x.shape[1])
    out[used], out[ends] = found[1:1 + used.size], found[1 + used.size:]
    return out


def _power(x: F64, y: F64) -> Law | None:
    """One product of whole powers."""
    slope = _slopes(x, y)
    whole = np.rint(slope)
    if np.abs(whole).max(initial=0.0) > STEEPEST:
        return None
    if np.abs(slope - whole).max(initial=0.0) > WHOLE or (whole[(x <= 0).any(axis=0)] != 0).any():
        return None
    return Law([float(np.exp(np.mean(np.log(y) - np.log(np.prod(np.power(x, whole), axis=1)))))], [whole.tolist()],
               False, [])


def _sum(x: F64, y: F64) -> Law | None:
    """A sum of products of whole powers of the conditions that matter most: as few as do, by the slope of log y. First
    of powers that are next to the slope, then of more."""
    slope = np.clip(_slopes(x, y), -STEEPEST, STEEPEST)
    weight = np.abs(slope) * np.array([np.log(column).std() if column.min() > 0 else column.std() for column in x.T])
    order = [int(i) for i in np.argsort(-weight, kind="stable") if weight[i] > SAME]
    best: tuple[float, Law] | None = None
    tried: set[tuple[tuple[float, ...], ...]] = set()       # spans often allow the same powers
    for span, used in product(SPANS, range(1, len(order) + 1)):
        choices = tuple(_powers(float(slope[i]), x[:, i], span) if i in order[:used] else (0.0,)
                        for i in range(x.shape[1]))
        if choices in tried or prod(map(len, choices)) > CANDIDATES:
            continue
        tried.add(choices)
        law = _added(x, y, np.array(list(product(*choices))))
        error = np.inf if law is None else float(np.abs(law.at(x) / y - 1).max())
        if law is not None and (best is None or error < best[0]):
            best = error, law
        if error < EXACT:
            break
    return None if best is None else best[1]


def _powers(slope: float, column: F64, span: str) -> tuple[float, ...]:
    """Exponents that a condition may have in a term, by the slope of the sum and as many as the span says: `near` the
    slope; `half`: 2 too for one above HALF; `sharp`: of those, for a negative one within ALL of a whole number this
    alone, as if in all terms; `wide`: more. A slope from -MIXED to 0 may be of a condition that goes with another."""
    if column.min() <= 0:
        return (0.0, 1.0) if set(np.unique(column).tolist()) <= {0.0, 1.0} else (0.0,)
    if abs(slope - round(slope)) < SAME:
        return (float(round(slope)),)
    if slope > 0:
        up = int(np.ceil(slope))
        two = span == "wide" or (span != "near" and slope >= HALF)
        return tuple(range((max(2, up) if two else up) + 1))
    if span == "wide":
        return tuple(range(int(np.floor(slope)), 1))
    if span == "sharp" and abs(slope - round(slope)) < ALL and round(slope):
        return (float(round(slope)),)
    return tuple(range(min(-1, round(slope)), 2 if slope > -MIXED else 1))


def _added(x: F64, y: F64, exponent: F64) -> Law | None:
    columns = np.exp(np.clip(np.log(np.where(x > 0, x, 1.0)) @ exponent.T, -80, 80))
    for i in np.flatnonzero((x <= 0).any(axis=0)):
        columns *= np.where((exponent[:, i] > 0)[None, :], x[:, i][:, None], 1.0)
    return _pursuit(columns / y[:, None], exponent)


def _pursuit(a: F64, exponent: F64) -> Law | None:
    """Columns of `a` that add up to 1 with positive coefficients: non-negative least squares by active sets."""
    norm = np.linalg.norm(a, axis=0)
    good = np.flatnonzero((norm > 0) & np.isfinite(norm))
    a, exponent = a[:, good] / norm[good], exponent[good]
    weight, rest = np.zeros(a.shape[1]), np.ones(len(a))
    chosen: list[int] = []
    before = np.inf
    for _ in range(STEPS):
        if (now := float(np.linalg.norm(rest))) > SLOW * before:
            break
        before, score = now, a.T @ rest
        score[chosen] = -np.inf
        at = int(np.argmax(score))
        if score[at] <= 1e-12 or np.abs(rest).max() < EXACT / 10 or len(chosen) == len(a) // 2:
            break
        chosen.append(at)
        while True:
            trial = _solve(a[:, chosen], np.ones(len(a)))
            if (trial > 0).all():
                break
            old = weight[chosen]
            bad = trial <= 0
            step = float((old[bad] / np.maximum(old[bad] - trial[bad], 1e-300)).min())
            weight[chosen] = old + step * (trial - old)
            dropped = [each for each in chosen if weight[each] <= 1e-12]
            weight[dropped] = 0.0
            chosen = [each for each in chosen if each not in dropped]
            if not dropped or not chosen:
                return None
        weight[chosen] = trial
        rest = 1.0 - a[:, chosen] @ trial
    if not chosen:
        return None
    return Law((weight[chosen] / norm[good][chosen]).tolist(), exponent[chosen].tolist(), False, [])


def _quadratic(x: F64, y: F64) -> Law | None:
    """exp of a quadratic in the logarithms (linear, or constant, where rows are few); ends enter as exponents 0."""
    _, used = _logs(x)
    exponent = [np.zeros(x.shape[1])]
    if len(y) > 2 * (1 + used.size):
        exponent += [np.eye(x.shape[1])[i] for i in used]
    if len(y) > used.size * (used.size + 3):
        exponent += [np.eye(x.shape[1])[i] + np.eye(x.shape[1])[j] for i, j in combinations_with_replacement(used, 2)]
    logs = np.log(np.maximum(x, 1e-9))
    full = np.stack([np.prod(np.power(logs, row), axis=1) for row in exponent], axis=1)
    return Law(_solve(full, np.log(y)).tolist(), [row.tolist() for row in exponent], True, [])


def _solve(x: F64, y: F64) -> F64:
    scale = np.linalg.norm(x, axis=0) + 1e-30
    scaled = x / scale
    if len(x) > x.shape[1]:
        return np.asarray(np.linalg.lstsq(scaled, y, rcond=1e-12)[0] / scale, np.float64)
    gram = scaled.T @ scaled + RIDGE * np.eye(x.shape[1])
    return np.asarray(np.linalg.solve(gram, scaled.T @ y) / scale, np.float64)


def fit_limit(x: F64, low: F64, high: F64) -> Law | None:
    """The simplest limit that is above `low` and at most `high` [rows]: a number, or a number times or over a condition
    that is positive, or two of them. None where no such limit is, or none is needed: where no `high` is finite."""
    if not np.isfinite(high).any():
        return None
    ways = [power * np.eye(x.shape[1])[i] for i in range(x.shape[1]) if x[:, i].min() > 0 and np.ptp(x[:, i]) > 0
            for power in (-1.0, 1.0)]
    for exponent in [np.zeros(x.shape[1]), *ways, *(a + b for a, b in combinations(ways, 2) if (a * b >= 0).all())]:
        scale = np.prod(np.power(x, exponent), axis=1)
        least, most = float((low / scale).max()), float((high / scale).min())
        if least <= most * (1 + CLOSE):
            return Law([float(np.sqrt(max(least, most / 2) * most))], [exponent.tolist()], False, [0.0] * 10)
    return None


# ------------------------------------------------------------ counts
class Form(msgspec.Struct, frozen=True):
    """A combination of conditions i, j, k: one of FORMS."""

    kind: str
    i: int
    j: int = 0
    k: int = 0


class Count(msgspec.Struct, frozen=True):
    """round(constant + sum of weight * form), at least 0."""

    constant: float
    weight: list[float]
    form: list[Form]

    def at(self, x: F64) -> I64:
        """[rows] at conditions [rows, conditions]."""
        value = np.full(len(x), self.constant)
        for weight, form in zip(self.weight, self.form, strict=True):
            value = value + weight * form_values(x, [form])[:, 0]
        return np.asarray(np.rint(np.clip(np.nan_to_num(value), 0, MANY)), np.int64)


FORMS = {
    "is": lambda a, b, c: a,
    "times": lambda a, b, c: a * b,
    "over": lambda a, b, c: a / np.where(b == 0, np.inf, b),
    "minus": lambda a, b, c: a - b,
    "least": lambda a, b, c: np.minimum(a, b),
    "least_minus": lambda a, b, c: np.minimum(a - b, c),
    "beyond": lambda a, b, c: np.maximum(c - a + b, 0.0),
}
"""Name -> function of up to three conditions; `beyond` is what c has over a - b."""


def forms_of(x: F64) -> list[Form]:
    """All forms of the conditions that vary (the ends aside), simple ones first."""
    used = [i for i in range(x.shape[1] - len(ENDS)) if np.ptp(x[:, i]) > 0]
    out = [Form("is", i) for i in [*used, *range(x.shape[1] - len(ENDS), x.shape[1])]]
    for kind in ("over", "minus", "least", "times"):
        out += [Form(kind, i, j) for i in used for j in used
                if (i < j if kind in ("least", "times", "minus") else i != j)]
    small = [i for i in used if x[:, i].max() <= 4096]
    for kind in ("least_minus", "beyond"):
        out += [Form(kind, i, j, k) for i in small for j in small for k in small if len({i, j, k}) == 3]
    return out


def form_values(x: F64, forms: Sequence[Form]) -> F64:
    """[rows, forms]."""
    if not forms:
        return np.zeros((len(x), 0))
    return np.stack([FORMS[each.kind](x[:, each.i], x[:, each.j], x[:, each.k]) for each in forms], axis=1)


def fit_count(x: F64, y: F64, forms: Sequence[Form]) -> Count:
    """The simplest form that is affine in y exactly; else up to four, one at a time by correlation. `forms` are those
    of all examples, x and y those that have the count."""
    if np.ptp(y) < 0.5 or not forms:
        return Count(float(np.median(y)), [], [])
    keep = np.linspace(0, len(y) - 1, min(len(y), ROWS)).astype(np.int64)
    values, y = form_values(x[keep], forms), y[keep]
    centred = values - values.mean(axis=0)
    length = np.linalg.norm(centred, axis=0)
    chosen: list[int] = []
    rest = y - y.mean()
    for _ in range(4):
        score = np.where(length > 1e-9, np.abs(centred.T @ rest) / np.maximum(length, 1e-9), -1.0)
        score[chosen] = -1
        top = score.max()
        if top <= 0:
            break
        chosen.append(int(np.flatnonzero(score >= top * (1 - 1e-9))[0]))
        full = np.column_stack([np.ones(len(y)), values[:, chosen]])
        weight = _solve(full, y)
        rest = y - full @ weight
        if np.abs(rest).max() < 0.01 or len(y) < 3 * (len(chosen) + 2):
            break
    return Count(float(weight[0]), weight[1:].tolist(), [forms[i] for i in chosen])
