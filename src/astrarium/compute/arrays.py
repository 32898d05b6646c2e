"""Systolic arrays: cycles of matrix products and what their buffers read and write, in closed form over many products.

A product (m, n, k) is laid on the array in tiles (SCALE-Sim's folds). `sr` runs along the rows, `sc` along the columns,
`t` streams:

    output stationary   sr, sc, t = m, n, k      a tile takes     R + C + t - 2 cycles
    weight stationary   sr, sc, t = k, n, m      a tile takes 2 * R + C + t - 2
    input stationary    sr, sc, t = k, m, n      a tile takes 2 * R + C + t - 2

There are ceil(sr / R) * ceil(sc / C) tiles, column of tiles after column of tiles (Samajdar et al., "A systematic
methodology for characterizing scalability of DNN accelerators using SCALE-Sim", ISPASS 2020; the output-stationary term
is what SCALE-Sim 3.0.0 counts, which hides the drain).
"""

from __future__ import annotations

from math import isqrt
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

__all__ = ["RATES", "WORDS", "Arrays", "Dataflow", "Tiles", "Traffic", "Words", "accesses", "cycles", "product_cycles",
           "traffic"]

F64 = npt.NDArray[np.float64]
Dataflow = Literal["output_stationary", "weight_stationary", "input_stationary"]
PARTS = tuple(2**power for power in range(9))
"""Into how many equal parts a product may be cut (`Arrays.cut`)."""


class Arrays(Struct, frozen=True):
    """`count` equal arrays of rows x columns that multiply and add once a cycle; `ifmap`, `filter`, `ofmap`: bytes of
    the buffers that all of them share, half of which hold what is in use and half what comes or goes.

    `overlapped`: a tile follows the one before at once, its stationary operand has come meanwhile; else each tile fills
    and drains by itself. `kept`: partial sums are added up in the ofmap buffer where a column of them fits into half of
    it, else written and read again; False: each tile writes its own, and nothing reads them, as SCALE-Sim counts.
    `cut`: a product may be cut into parts along the operand that is swept."""

    rows: int
    columns: int
    count: int = 1
    dataflow: Dataflow = "weight_stationary"
    ifmap: float = float("inf")
    filter: float = float("inf")
    ofmap: float = float("inf")
    overlapped: bool = False
    kept: bool = True
    cut: bool = False

    def splits(self) -> tuple[tuple[int, int, int], ...]:
        """(parts of m, parts of n, products at once) whose product is `count`. k is never cut: no array adds to
        another's sums."""
        low = [each for each in range(1, isqrt(self.count) + 1) if self.count % each == 0]
        whole = sorted({*low, *(self.count // each for each in low)})
        return tuple((a, b, self.count // a // b) for a in whole for b in whole if self.count // a % b == 0)


RATES = {"fp8": "fp8_rate", "fp8_block": "fp8_rate", "int8": "int8_rate", "fp32": "fp32_rate"}
"""Number format -> the field of `compute.model: systolic` that has its speed."""


class Words(NamedTuple):
    """Bytes of an element: of the operands, of the result, of a partial sum."""

    operand: F64 | float = 2.0
    result: F64 | float = 2.0
    partial: F64 | float = 4.0


WORDS = Words()
"""Operands and results in 16 bits, sums in fp32."""


class Traffic(NamedTuple):
    """Bytes, or accesses, of each buffer [products]."""

    ifmap: F64
    filter: F64
    ofmap_writes: F64
    ofmap_reads: F64


class Tiles(NamedTuple):
    """How products lie on the arrays [products]. `high`, `wide`: rows and columns that all arrays have together for one
    product; `step`: cycles from a tile to the next; `tail`: cycles that the last tile takes longer."""

    sr: F64
    sc: F64
    t: F64
    high: F64
    wide: F64
    down: F64       # tiles along sr
    across: F64     # tiles along sc
    step: F64
    tail: F64

    @property
    def cycles(self) -> F64:
        """Cycles without stalls [products]."""
        return self.down * self.across * self.step + self.tail


def _tiles(arrays: Arrays, m: F64, n: F64, k: F64, split: tuple[F64 | float, F64 | float] = (1.0, 1.0)) -> Tiles:
    of_m, of_n = split
    flow, rows, columns = arrays.dataflow, arrays.rows, arrays.columns
    sr, sc, t = {"output_stationary": (m, n, k), "weight_stationary": (k, n, m), "input_stationary": (k, m, n)}[flow]
    down, across, streams = {"output_stationary": (of_m, of_n, 1.0), "weight_stationary": (1.0, of_n, of_m),
                             "input_stationary": (1.0, of_m, of_n)}[flow]
    high, wide, each = np.asarray(down * rows), np.asarray(across * columns), np.ceil(t / streams)
    whole = (1 if flow == "output_stationary" else 2) * rows + columns + each - 2
    step = np.maximum(each, rows) if arrays.overlapped else whole
    return Tiles(sr, sc, t, high, wide, np.ceil(sr / high), np.ceil(sc / wide), step, np.maximum(whole - step, 0))


def cycles(arrays: Arrays, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike) -> F64:
    """Cycles of products on one array that never waits for memory [products]. SCALE-Sim counts cycles from 0 and prints
    the number of the last one."""
    return _tiles(arrays, *_sizes(m, n, k)).cycles


def accesses(arrays: Arrays, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike) -> Traffic:
    """Elements that the array reads from and writes to its buffers [products]; what it adds to partial sums is not
    counted as a read."""
    sizes = _sizes(m, n, k)
    m_, n_, k_ = sizes
    found = _tiles(arrays, *sizes)
    if arrays.dataflow == "output_stationary":
        return Traffic(found.across * m_ * k_, found.down * n_ * k_, m_ * n_, 0 * m_)
    swept, once = found.across * found.sr * found.t, found.sr * found.sc
    ifmap, filters = (swept, once) if arrays.dataflow == "weight_stationary" else (once, swept)
    return Traffic(ifmap, filters, found.down * m_ * n_, 0 * m_)


class _Columns(NamedTuple):
    """Columns of tiles: the first, those between, the last; each [3, products]."""

    number: F64
    swept: F64
    other: F64
    writes: F64
    reads: F64


def _columns(arrays: Arrays, tiles: Tiles, words: Words, at_once: F64 | float = 1.0) -> _Columns:
    """Bytes that each column of tiles moves to and from memory, where `at_once` products share the buffers.

    The swept operand (ifmap; filter where the input is stationary) is read by every column, once where all of it fits
    into half of its buffer. The other is read once, but for the filter of an output-stationary array: again by every
    tile of a column where the column's part does not fit."""
    flow, half = arrays.dataflow, 0.5 / np.asarray(at_once, np.float64)
    holds_swept, holds_other = (arrays.filter, arrays.ifmap) if flow == "input_stationary" else (
        arrays.ifmap, arrays.filter)
    first = np.minimum(tiles.wide, tiles.sc)
    last = np.where(tiles.across > 1, tiles.sc - (tiles.across - 1) * tiles.wide, 0.0)
    count, width = _three(1.0, np.maximum(tiles.across - 2, 0.0), tiles.across > 1), _three(first, first, last)
    swept = tiles.sr * tiles.t * words.operand
    again = np.where(swept <= holds_swept * half, 0.0, swept)
    if flow == "output_stationary":
        part = tiles.t * words.operand
        times = np.where(part * first <= holds_other * half, 1.0, tiles.down)
        return _Columns(count, _three(swept, again, again), part * times * width, tiles.sr * width * words.result,
                        0.0 * width)
    other, sums = tiles.sr * words.operand * width, tiles.t * width
    spilt = (tiles.down - 1) * words.partial
    if not arrays.kept:
        return _Columns(count, _three(swept, again, again), other, sums * (words.result + spilt), 0.0 * sums)
    spilt = np.where(tiles.t * first * words.partial <= arrays.ofmap * half, 0.0, spilt)
    return _Columns(count, _three(swept, again, again), other, sums * (words.result + spilt), sums * spilt)


def _three(first: F64 | float, middle: F64 | float, last: F64 | float | npt.NDArray[np.bool_]) -> F64:
    return np.stack(np.broadcast_arrays(first, middle, last)).astype(np.float64)


def traffic(arrays: Arrays, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike, words: Words = WORDS) -> Traffic:
    """Bytes between the buffers and memory, of products on one array, uncut [products]."""
    found = _columns(arrays, _tiles(arrays, *_sizes(m, n, k)), words)
    swept, other, writes, reads = ((found.number * each).sum(axis=0) for each in found[1:])
    ifmap, filters = (other, swept) if arrays.dataflow == "input_stationary" else (swept, other)
    return Traffic(ifmap, filters, writes, reads)


def _with_stalls(arrays: Arrays, tiles: Tiles, words: Words, bandwidth: F64, at_once: F64) -> F64:
    """Cycles with stalls: what the first tile reads and what the last one leaves to write take their time; between them
    a column of tiles takes its cycles or its bytes, the longer. Results that come at the end of a column are written
    while the next one runs. `bandwidth`: bytes a cycle, which `at_once` products share."""
    found, several = _columns(arrays, tiles, words, at_once), tiles.across > 1
    high, wide = np.minimum(tiles.high, tiles.sr), np.minimum(tiles.wide, tiles.sc)
    if arrays.dataflow == "output_stationary":
        fill, drain = tiles.t * (high + wide) * words.operand, high * wide * words.result
        late = _three(np.where(several, 0.0, -drain), 0.0, -drain)
    else:
        fill = (tiles.t * high + high * wide) * words.operand
        result = tiles.t * wide * words.result
        drain = np.where(several, tiles.t * (tiles.sc - (tiles.across - 1) * tiles.wide) * words.result, result)
        late = _three(-result, 0.0, np.where(several, result - drain, 0.0))
    late[0] -= fill
    tails = _three(np.where(several, 0.0, tiles.tail), 0.0, tiles.tail)
    rate = bandwidth / at_once
    moved = found.swept + found.other + found.writes + found.reads + late
    between: F64 = (found.number * np.maximum(tiles.down * tiles.step + tails, moved / rate)).sum(axis=0)
    taken: F64 = between + (fill + drain) / rate
    return taken


def product_cycles(arrays: Arrays, batch: npt.ArrayLike, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike,
                   words: Words = WORDS, bandwidth: npt.ArrayLike = float("inf")) -> F64:
    """Cycles of `batch` products of each shape on all arrays, with stalls, in the best way to split and cut them
    [products].

    Arrays share out m, n and the batch (`Arrays.splits`), never k; products at once share buffers and bandwidth. A
    product that may be `cut` is cut along the swept operand into the best of `PARTS`.

    Args:
        arrays: The arrays and their buffers.
        batch: Products of the shape [products].
        m: Rows of the result [products].
        n: Columns of the result [products].
        k: Terms of each sum [products].
        words: Bytes of elements.
        bandwidth: Bytes a cycle between memory and the buffers, shared by all operands.
    """
    counts, (m_, n_, k_) = np.atleast_1d(np.asarray(batch, np.float64)), _sizes(m, n, k)
    ways = [(*split, part) for split in arrays.splits() for part in (PARTS if arrays.cut else PARTS[:1])]
    of_m, of_n, at_once, parts = np.array(ways, np.float64).T[..., None]        # each [ways, 1]
    cut = (m_, np.ceil(n_ / parts)) if arrays.dataflow == "input_stationary" else (np.ceil(m_ / parts), n_)
    tiles = _tiles(arrays, cut[0], cut[1], k_, (of_m, of_n))
    each = _with_stalls(arrays, tiles, words, np.asarray(bandwidth, np.float64), at_once)
    found: F64 = (np.ceil(counts / at_once) * parts * each).min(axis=0)
    return found


def _sizes(m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike) -> tuple[F64, F64, F64]:
    found = np.broadcast_arrays(*(np.atleast_1d(np.asarray(each, np.float64)) for each in (m, n, k)))
    return found[0], found[1], found[2]
