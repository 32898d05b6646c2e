"""How close a synthetic trace is to a real one, and that it is no copy of an example."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.synthesise.examples import VALUES, Example
from astrarium.synthesise.tokens import Token

__all__ = ["Fidelity", "fidelity"]

Key = TypeVar("Key")


class Fidelity(Struct, frozen=True):
    """Distances from 0 (equal) to 1. `nodes` is synthetic / real.

    `tokens`: total variation between the shares of kinds of nodes; `pairs`: of neighbours in order; `degrees`: between
    the numbers of parents. `values`: Kolmogorov-Smirnov distance per attribute, of values to three digits; `totals`:
    its sum, synthetic / real. `nearest`: total variation between counts and values of the synthetic trace and the
    closest example: 0 is a copy.
    """

    nodes: float
    tokens: float
    pairs: float
    degrees: float
    values: dict[str, float]
    totals: dict[str, float]
    nearest: float


def fidelity(synthetic: Example, real: Example, examples: Sequence[Example] = ()) -> Fidelity:
    """Compares two traces of equal conditions; `examples` are those that the model learned from."""
    values, totals = {}, {}
    for column, name in enumerate(VALUES):
        a, b = (each.values[:, column] for each in (synthetic, real))
        a, b = a[~np.isnan(a)], b[~np.isnan(b)]
        if a.size and b.size:
            values[name] = _kolmogorov(_digits(a), _digits(b))
            totals[name] = float(a.sum() / b.sum()) if b.sum() else float(a.sum() == 0)
    return Fidelity(
        synthetic.token.size / max(1, real.token.size), _variation(_tokens(synthetic), _tokens(real)),
        _variation(_pairs(synthetic), _pairs(real)),
        _variation(Counter(np.diff(synthetic.ptr).tolist()), Counter(np.diff(real.ptr).tolist())), values, totals,
        min((_variation(_print(synthetic), _print(each)) for each in examples), default=1.0))


def _tokens(trace: Example) -> Counter[Token]:
    return Counter(trace.tokens[each] for each in trace.token.tolist())


def _pairs(trace: Example) -> Counter[tuple[Token, Token]]:
    listed = [trace.tokens[each] for each in trace.token.tolist()]
    return Counter(pairwise(listed))


def _print(trace: Example) -> Counter[tuple[object, ...]]:
    """Kinds of nodes with their values, to three digits."""
    rows = np.nan_to_num(trace.values, nan=-1.0).tolist()
    return Counter((trace.tokens[token], *(f"{value:.3g}" for value in row))
                   for token, row in zip(trace.token.tolist(), rows, strict=True))


def _variation(a: Counter[Key], b: Counter[Key]) -> float:
    left, right = max(1, sum(a.values())), max(1, sum(b.values()))
    every = {*a, *b}
    return sum(abs(a.get(each, 0) / left - b.get(each, 0) / right) for each in every) / 2


def _digits(values: F64) -> F64:
    """Rounded to three digits."""
    scale = 10.0 ** (np.floor(np.log10(np.maximum(np.abs(values), 1e-300))) - 2)
    return np.asarray(np.rint(values / scale) * scale, np.float64)


def _kolmogorov(a: F64, b: F64) -> float:
    at = np.sort(np.concatenate([a, b]))
    left, right = (np.searchsorted(np.sort(each), at, side="right") / each.size for each in (a, b))
    return float(np.abs(left - right).max())
