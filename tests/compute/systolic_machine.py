"""A systolic array, register by register: what the closed forms of compute/arrays.py are tested against."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from astrarium.compute.arrays import Arrays

I64 = npt.NDArray[np.int64]


def laid(left: I64, right: I64, rows: int, columns: int) -> list[tuple[I64, I64, slice]]:
    """(streamed [t, rows], stationary [rows, columns], columns of the result) of each tile, padded with zeros."""
    k, found = left.shape[1], []
    for column in range(0, right.shape[1], columns):
        for row in range(0, k, rows):
            a, b = left[:, row:row + rows], right[row:row + rows, column:column + columns]
            found.append((np.pad(a, ((0, 0), (0, rows - a.shape[1]))),
                          np.pad(b, ((0, rows - b.shape[0]), (0, columns - b.shape[1]))),
                          slice(column, column + b.shape[1])))
    return found


def weight_stationary(left: I64, right: I64, rows: int, columns: int, overlapped: bool) -> tuple[I64, int]:
    """(left @ right, cycles). Weights shift down a shadow register of each element; an element takes them over when the
    first row of a tile reaches it. Operands move right and sums move down by one element a cycle."""
    tiles, t = laid(left, right, rows, columns), len(left)
    whole = 2 * rows + columns + t - 2
    starts = [rows + at * (max(t, rows) if overlapped else whole) for at in range(len(tiles))]
    result = np.zeros((t, right.shape[1]), np.int64)
    weight, shadow, acts, sums = (np.zeros((rows, columns), np.int64) for _ in range(4))
    row, column = np.indices((rows, columns))
    cycle = last = 0
    while cycle <= starts[-1] + t + rows + columns:
        old_shadow, old_acts, old_sums = shadow.copy(), acts.copy(), sums.copy()
        acts[:, 1:], sums[1:], sums[0] = old_acts[:, :-1], old_sums[:-1], 0
        acts[:, 0] = 0
        for (streamed, stationary, _), start in zip(tiles, starts):
            weight = np.where(cycle == start + row + column, old_shadow, weight)
            for r in range(rows):
                if 0 <= cycle - start - r < t:
                    acts[r, 0] = streamed[cycle - start - r, r]
            turn = cycle - (start - rows) - column       # of each column's chain
            moves = (turn >= row) & (turn < rows)
            above = np.vstack([np.zeros((1, columns), np.int64), old_shadow[:-1]])
            above[0] = stationary[np.clip(rows - 1 - turn[0], 0, rows - 1), np.arange(columns)]
            shadow = np.where(moves, above, shadow)
        sums = sums + acts * weight
        for (_, _, where), start in zip(tiles, starts):
            for c in range(where.stop - where.start):
                which = cycle - start - c - (rows - 1)
                if 0 <= which < t:
                    result[which, where.start + c] += sums[rows - 1, c]
            if cycle - start - (columns - 1) - (rows - 1) == t - 1:
                last = cycle
        cycle += 1
    return result, last + 1


def output_stationary(left: I64, right: I64, rows: int, columns: int, step: int) -> tuple[I64, int]:
    """(left @ right, cycles until the last product is added). A finished sum moves to a register of its element; once a
    column's are finished, they shift down together. Raises AssertionError where a sum would overwrite another."""
    k = left.shape[1]
    corners = [(i, j) for j in range(0, right.shape[1], columns) for i in range(0, len(left), rows)]
    a = np.pad(left, ((0, -len(left) % rows), (0, 0)))
    b = np.pad(right, ((0, 0), (0, -right.shape[1] % columns)))
    result, last = np.zeros((len(a), b.shape[1]), np.int64), 0
    sums, held = np.zeros((rows, columns), np.int64), np.full((rows, columns), -1)
    place: dict[tuple[int, int], int] = {}
    for cycle in range(step * (len(corners) - 1) + 2 * (k + rows + columns) + rows):
        for at, (i, j) in enumerate(corners):
            for c in range(columns):
                moved = cycle - (at * step + k + rows - 1 + c)
                if 0 <= moved < rows:
                    held[moved:, c] = np.concatenate([[-1], held[moved:-1, c]])
            for r, c in np.ndindex(rows, columns):
                turn = cycle - at * step - r - c
                if 0 <= turn < k:
                    sums[r, c] = (0 if turn == 0 else sums[r, c]) + a[i + r, turn] * b[turn, j + c]
                    last = cycle
                    if turn == k - 1:
                        place[(r, c)] = at
                        result[i + r, j + c] = sums[r, c]
        for (r, c), at in place.items():
            assert held[r, c] == -1, "a sum overwrites another"
            held[r, c] = at
        place.clear()
    return result[:len(left), :right.shape[1]], last + 1


def tiles_of(arrays: Arrays, m: int, n: int, k: int) -> list[tuple[float, float]]:
    """(elements read, elements written) of each tile of a product on one array, in order, where sums that a column of
    tiles makes stay on chip."""
    flow, r, c = arrays.dataflow, arrays.rows, arrays.columns
    out, held = flow == "output_stationary", flow == "input_stationary"
    sr, sc, t = {"output_stationary": (m, n, k), "weight_stationary": (k, n, m), "input_stationary": (k, m, n)}[flow]
    swept_buffer, other_buffer = (arrays.filter, arrays.ifmap) if held else (arrays.ifmap, arrays.filter)
    found = []
    for j in range(0, sc, c):
        wide = min(c, sc - j)
        for i in range(0, sr, r):
            high = min(r, sr - i)
            read = t * high if j == 0 or sr * t > swept_buffer / 2 else 0
            if out:
                read += t * wide if i == 0 or t * min(c, sc) > other_buffer / 2 else 0
                found.append((float(read), float(high * wide)))
            else:
                found.append((float(read + high * wide), float(t * wide) if i + r >= sr else 0.0))
    return found


def double_buffered(tiles: list[tuple[float, float]], step: float, tail: float, bandwidth: float, ahead: int) -> float:
    """Cycles of tiles whose operands come from memory, event by event. Memory moves one thing after another: the reads
    of the next tile, at most `ahead` tiles before it runs, else what finished tiles have to write. A tile runs once the
    one before is done, its reads are in, and the writes of the tile `ahead` before it are out."""
    count, memory = len(tiles), 0.0
    done, read, wrote = [0.0] * count, 0, 0
    ran, arrived, out = 0, [0.0] * count, [0.0] * count
    while wrote < count:
        while ran < read and (ran < ahead or wrote > ran - ahead):
            start = max(arrived[ran], done[ran - 1] if ran else 0.0, out[ran - ahead] if ran >= ahead else 0.0)
            done[ran] = start + step + (tail if ran == count - 1 else 0.0)
            ran += 1
        may_read = done[read - ahead] if ahead <= read <= ran + ahead - 1 and read < count else 0.0
        reads = read < count and (read < ahead or read - ahead < ran)
        writes = wrote < ran
        if reads and (not writes or max(memory, may_read) <= max(memory, done[wrote])):
            memory = max(memory, may_read) + tiles[read][0] / bandwidth
            arrived[read] = memory
            read += 1
        else:
            memory = max(memory, done[wrote]) + tiles[wrote][1] / bandwidth
            out[wrote] = memory
            wrote += 1
    return max(memory, done[-1])
