"""PyTorch's operators whose time depends on rows and columns beside their bytes: norms, sums over rows, embeddings'
gradients, the optimizer.

A norm's block works on one row, so a kernel takes at least as long as one row does; the gradients of gamma and beta,
and a sum over rows, go down the rows one after another; long rows pass the cache more than once (PyTorch,
aten/src/ATen/native/cuda/layer_norm_kernel.cu). `embedding`'s gradient fills the table, then sorts the tokens and sums
those of one row, but not up to 3,072 tokens, where each block looks through all of them (Embedding.cu). A fused AdamW
computes so much that it depends on the numbers (rows of one column) as well as on their bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from astrarium.arrays import F64

__all__ = ["FEW", "Rowwise", "rowwise_ns", "which"]

CACHED = 42e6       # bytes of a kernel up to which most of them are in the L2
HARD = 12.0         # how sharply they leave it (power of the bytes)
SHARP = 4.0         # how hard the roof's edge is
LONG = 2048         # columns from which longer rows take longer a byte
FEW: Mapping[str, tuple[int, str]] = MappingProxyType({"embedding_backward": (3072, "embedding_backward_few")})
"""Operator -> rows up to which another kernel runs, and its name."""


class Rowwise(NamedTuple):
    """`launch`: ns; `row`: ns that each column takes in a row; `serial`: ns a row of what goes down the rows; `sums`:
    ns a number; `inside`, `beyond`: ns a byte in the L2 and in memory; `long`: how much more of it for each doubling of
    LONG columns."""

    launch: float
    row: float
    serial: float
    sums: float
    inside: float
    beyond: float
    long: float


def which(op: str, rows: F64, known: Mapping[str, Rowwise]) -> list[tuple[str, npt.NDArray[np.bool_]]]:
    """(name, mask) of the kernels that run an operator on these rows each; none without constants."""
    most, few = FEW.get(op, (0, ""))
    masks = [(op, rows > most), (few, rows <= most)]
    return [(name, mask) for name, mask in masks if name in known and mask.any()]


def rowwise_ns(shape: F64, moved: F64, constants: Rowwise) -> F64:
    """Times of kernels f64 [2, n] (rows, columns) that move `moved` bytes [n]."""
    rows, columns = shape
    launch, row, serial, sums, inside, beyond, long = constants
    cached = 1 / (1 + (moved / CACHED)**HARD)
    access = moved * (inside * cached + beyond * (1 - cached)) * (1 + long * np.maximum(0.0, np.log2(columns / LONG)))
    found: F64 = launch + serial * rows + sums * rows * columns + ((row * columns)**SHARP + access**SHARP)**(1 / SHARP)
    return found
