"""Functions that are dear: evaluated at some points, many at once and only where they are asked for. Between two points
they are taken as linear, unless a value there says otherwise (trees of a fitted model jump): then points are closer."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from astrarium.arrays import F64, I64

__all__ = ["MOST", "Plane", "Row", "past_nodes", "prompt_nodes"]

MOST = 1 << 22      # tokens of one sequence
NODES = 16      # of a block of a row, which are asked for together
TILE, PARTS = 4, 8
CHECKED = (1, 3)    # fourths of a cell of a plane each way, at which it is checked
TOKENS = 128        # of a tile of a product
ROUGH = 0.001       # of a step's time, beyond which a function is not linear between two points


def past_nodes() -> list[int]:
    """Tokens in the cache before a part of a prompt."""
    found = list(range(32))
    while found[-1] < MOST:
        found.append(found[-1] + (1 << (found[-1] + 1).bit_length() - 5))
    return found


def prompt_nodes() -> list[int]:
    """Tokens of a prompt: both sides of each step of a block of 128 queries."""
    found = [*range(2, 33), *range(40, 129, 8)]
    while found[-1] < MOST:
        last = found[-1]
        blocks = max(1, last // 128 // 32)
        inner = range(32, 128, 32) if blocks == 1 else ()
        found += [last + 1, *(last + each for each in inner), last + 128 * blocks]
    return found


class Row:
    """A function of a number of 0 or more, linear between whole ones. `fine` points at least between powers of two;
    `tiled`: and both sides of where a product needs more tiles; `least`: what a step takes besides."""

    def __init__(self, function: Callable[[I64], F64], fine: int, least: float, *, tiled: bool = False) -> None:
        self._function, self._fine, self._least, self._tiled = function, fine, least, tiled
        self._blocks: dict[tuple[int, int], F64] = {}

    def __call__(self, at: float) -> float:
        """The value at `at`."""
        whole = int(at)
        block, place = self._block(whole)
        low = block.item(place)
        return low + (block.item(place + 1) - low) * (at - whole)

    def along(self, first: float, count: int) -> F64:
        """The values at `first`, `first` + 1, ... [count]."""
        whole = int(first)
        rest, parts, left = first - whole, [], count
        while left > 0:
            block, place = self._block(whole)
            low, high = block[place:-1][:left], block[place + 1:][:left]
            parts.append(low + (high - low) * rest)
            whole, left = whole + len(low), left - len(low)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _block(self, at: int) -> tuple[F64, int]:
        """The values of the block that has `at` and of the next number, and its place there."""
        step = max(1, (1 << at.bit_length() >> 1) // self._fine)
        start = at - at % (step * NODES)
        found = self._blocks.get((step, start))
        if found is None:
            found = self._blocks[step, start] = self._made(start, step)
        return found, at - start

    def _made(self, start: int, step: int) -> F64:
        every = np.arange(start, start + step * NODES + 1)
        chosen = (every - start) % step == 0
        if self._tiled:
            chosen |= every % TOKENS < 2
        chosen[-1] = True
        nodes = every[chosen]
        values = self._function(nodes)
        while (more := self._between(nodes, values)).size:
            nodes, values = np.append(nodes, more), np.append(values, self._function(more))
            order = np.argsort(nodes)
            nodes, values = nodes[order], values[order]
        return np.interp(every, nodes, values)

    def _between(self, nodes: I64, values: F64) -> I64:
        """Middles of the parts at whose ends the values are not on a line with their neighbours."""
        gaps = np.diff(nodes)
        if len(nodes) < 3 or gaps.max() < 2:
            return np.zeros(0, np.int64)
        share = gaps[:-1] / (gaps[:-1] + gaps[1:])
        off = np.abs(values[:-2] + (values[2:] - values[:-2]) * share - values[1:-1])
        bent = off > ROUGH * (np.abs(values[1:-1]) + self._least)
        found: I64 = (nodes[:-1] + gaps // 2)[(np.append(False, bent) | np.append(bent, False)) & (gaps > 1)]
        return found


class Plane:
    """A function of two whole numbers at `rows` x `columns`, bilinear between them. `least`: what a step with this many
    rows takes besides."""

    def __init__(self, rows: Sequence[int], columns: Sequence[int], function: Callable[[I64, I64], F64],
                 least: Callable[[int], float], deep: bool = False) -> None:
        self._rows, self._columns, self._function, self._least, self._deep = rows, columns, function, least, deep
        self._tiles: dict[tuple[int, int], tuple[list[float], list[bool]]] = {}
        self._finer: dict[tuple[int, int], Plane] = {}
        self._exact: dict[tuple[int, int], float] = {}

    def __call__(self, row: int, column: int) -> float:
        """The value at (`row`, `column`)."""
        i, j = bisect_right(self._rows, row) - 1, bisect_right(self._columns, column) - 1
        tile = self._tiles.get((i // TILE, j // TILE))
        if tile is None:
            tile = self._tiles[i // TILE, j // TILE] = self._made(i // TILE * TILE, j // TILE * TILE)
        values, rough = tile
        if rough[i % TILE * TILE + j % TILE]:
            return self._closer(row, column, i, j)
        low, left, at = self._rows[i], self._columns[j], i % TILE * (TILE + 1) + j % TILE
        down = (row - low) / (self._rows[i + 1] - low)
        along = (column - left) / (self._columns[j + 1] - left)
        first = values[at] + (values[at + 1] - values[at]) * along
        second = values[at + TILE + 1] + (values[at + TILE + 2] - values[at + TILE + 1]) * along
        return first + (second - first) * down

    def _closer(self, row: int, column: int, i: int, j: int) -> float:
        """The value in a cell in which the function is not bilinear."""
        if self._deep:
            found = self._exact.get((row, column))
            if found is None:
                found = self._exact[row, column] = float(self._function(np.array([row]), np.array([column]))[0])
            return found
        finer = self._finer.get((i, j))
        if finer is None:
            finer = self._finer[i, j] = Plane(_between(self._rows[i], self._rows[i + 1]),
                                              _between(self._columns[j], self._columns[j + 1]), self._function,
                                              self._least, True)
        return finer(row, column)

    def _made(self, row: int, column: int) -> tuple[list[float], list[bool]]:
        """Values of a tile [TILE + 1, TILE + 1], and in which cells [TILE, TILE] they are not enough."""
        rows, columns = np.array(self._rows[row:row + TILE + 1]), np.array(self._columns[column:column + TILE + 1])
        heights, widths, parts = np.diff(rows), np.diff(columns), np.array(CHECKED)
        inner = (rows[:-1, None] + heights[:, None] * parts // 4).ravel()
        across = (columns[:-1, None] + widths[:, None] * parts // 4).ravel()
        found = self._function(np.concatenate([np.repeat(rows, len(columns)), np.repeat(inner, len(across))]),
                               np.concatenate([np.tile(columns, len(rows)), np.tile(across, len(inner))]))
        corners = found[:len(rows) * len(columns)].reshape(len(rows), len(columns))
        middle = found[len(rows) * len(columns):].reshape(len(inner), len(across))
        least = np.array([self._least(each) for each in (1 << np.log2(rows[:-1]).astype(np.int64)).tolist()])[:, None]
        values, rough = np.zeros((TILE + 1, TILE + 1)), np.zeros((TILE, TILE), np.bool_)
        values[:len(rows), :len(columns)] = corners
        off = np.abs(_bilinear(rows, columns, corners, inner, across) - middle)
        off = off > ROUGH * (middle + np.repeat(least, len(parts), axis=0))
        rough[:len(heights), :len(widths)] = off.reshape(len(heights), len(parts), len(widths), -1).any(axis=(1, 3))
        return values.ravel().tolist(), rough.ravel().tolist()


def _bilinear(rows: I64, columns: I64, values: F64, inner: I64, across: I64) -> F64:
    """Values [inner, across] from those at `rows` x `columns`."""
    along = np.array([np.interp(across, columns, each) for each in values])
    found: F64 = np.array([np.interp(inner, rows, each) for each in along.T]).T
    return found


def _between(low: int, high: int) -> list[int]:
    """Up to PARTS + 1 whole numbers from `low` to `high`, and one beyond."""
    return [*sorted({low + (high - low) * part // PARTS for part in range(PARTS + 1)}), high + 1]
