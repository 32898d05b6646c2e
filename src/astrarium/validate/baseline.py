"""The rival: boosted regression trees on a row's columns, without any physics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.validate.rows import Row

__all__ = ["COLUMNS", "Trees", "fit", "table_of"]

COLUMNS = ("n_gpus", "params_B", "layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "seq", "tp", "pp", "dp", "cp",
           "ep", "vp", "mbs", "gbs")
WORDS = ("gpu", "precision", "recompute", "zero")
ROUNDS, RATE, DEPTH, LEAF = 200, 0.1, 4, 2


class Trees(Struct, frozen=True):
    """`start` and the trees that are added to it; a tree is (column, threshold, left, right) or a value."""

    start: float
    trees: tuple[object, ...]

    def predict(self, table: F64) -> F64:
        """Values of rows [rows, columns]."""
        found = np.full(len(table), self.start)
        for tree in self.trees:
            found += RATE * _values(tree, table)
        return found


def table_of(rows: Sequence[Row], like: Sequence[Row]) -> F64:
    """[rows, columns]: logarithms of numbers (-1: empty), numbers of words in order of `like`."""
    known = {word: list(dict.fromkeys(row.text(word) for row in like)) for word in WORDS}
    return np.array([[*(np.log(row.number(column) or np.exp(-1)) for column in COLUMNS),
                      *(known[word].index(row.text(word)) if row.text(word) in known[word] else -1 for word in WORDS)]
                     for row in rows], np.float64).reshape(len(rows), len(COLUMNS) + len(WORDS))


def fit(table: F64, values: F64) -> Trees:
    """Boosted trees of least squares: 200 rounds of depth 4, rate 0.1. The same for the same rows."""
    start = float(values.mean())
    rest, trees = values - start, []
    for _ in range(ROUNDS):
        tree = _tree(table, rest, DEPTH)
        rest = rest - RATE * _values(tree, table)
        trees.append(tree)
    return Trees(start, tuple(trees))


def _tree(table: F64, values: F64, depth: int) -> object:
    best = _split(table, values) if depth and len(values) >= 2 * LEAF else None
    if best is None:
        return float(values.mean())
    column, threshold = best
    left = table[:, column] <= threshold
    return (column, threshold, _tree(table[left], values[left], depth - 1),
            _tree(table[~left], values[~left], depth - 1))


def _split(table: F64, values: F64) -> tuple[int, float] | None:
    """The column and threshold that leave the least squares."""
    best, found = 1e-12, None
    count = np.arange(1, len(values))
    for column in range(table.shape[1]):
        order = np.argsort(table[:, column], kind="stable")
        place, sums = table[order, column], np.cumsum(values[order])
        gain = sums[:-1]**2 / count + (sums[-1] - sums[:-1])**2 / (len(values) - count) - sums[-1]**2 / len(values)
        legal = (place[1:] > place[:-1]) & (count >= LEAF) & (len(values) - count >= LEAF)
        gain = np.where(legal, gain, -1.0)
        here = int(gain.argmax())
        if gain[here] > best:
            best, found = float(gain[here]), (column, float((place[here] + place[here + 1]) / 2))
    return found


def _values(tree: object, table: F64) -> F64:
    if not isinstance(tree, tuple):
        return np.full(len(table), tree, np.float64)
    column, threshold, left, right = tree
    goes = table[:, column] <= threshold
    found = np.empty(len(table))
    found[goes], found[~goes] = _values(left, table[goes]), _values(right, table[~goes])
    return found
