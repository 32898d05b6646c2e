"""Attention of PyTorch's `scaled_dot_product_attention`: blocks of queries, steps along the keys.

A block of 128 queries of one head runs on one multiprocessor, in steps of 128 keys (Dao, "FlashAttention-2", 2023,
arXiv 2307.08691, section 3.2); so do blocks of keys in backward passes. With a causal mask blocks are of unequal
length, and the last ones leave multiprocessors idle. The constants were fitted on rows of PyTorch 2.11 on one H100
(`tools/fit_torch.py --constants`): 15 and 19 of cuDNN (forward, backward), 17 and 18 of FlashAttention-2, and 57 of
each in decoding. There cuDNN has one block for all heads of one key head, which takes all steps along the keys, and
divides the keys only if every head has its own; FlashAttention-2 always divides them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from astrarium.arrays import F64
from astrarium.compute.kernels.attention import COLUMNS
from astrarium.compute.kernels.machine import Machine
from astrarium.compute.kernels.table import Described, log2

__all__ = ["BACKENDS", "COLUMNS", "CONSTANTS", "Constants", "backward", "decode", "decode_ns", "forward", "fused_ns"]

BACKENDS = ("cudnn", "flash")
"""Backends of the rows by the number of their variant; PyTorch 2.11 takes the first by default on H100."""
BLOCK = 128
UNIT = 989e3 / 132
"""flop/ns of the multiprocessor on which the constants were fitted: with a lower clock all of a block takes longer."""


class Constants(NamedTuple):
    """`rate`: of a multiprocessor's peak in the products of a step; `scores`: ns of the rest of a step; `block`: ns of
    a block beside its steps; `launch`: ns; `idle`: blocks by which a causal mask's last ones prolong the kernel;
    `moved`: how often operands and results pass the memory; `late`: how far the last wave is as long as a full one;
    `wide`: how much longer products take with heads of more than 128, in blocks of `rows`; `spread`: how often keys'
    and values' gradients of every head pass the memory, where heads share them."""

    rate: float
    scores: float
    block: float
    launch: float
    idle: float
    moved: float
    late: float
    wide: float
    spread: float
    rows: float


CONSTANTS: Mapping[tuple[str, str], Constants] = MappingProxyType({
    ("forward", "cudnn"): Constants(1.092, 556.4, 508.1, 4682.1, 0.605, 0.590, 0.418, 1.120, 0.0, 128),
    ("forward", "flash"): Constants(0.678, 898.0, 0.5, 4428.4, 1.339, 1.337, 0.838, 1.736, 0.0, 64),
    ("backward", "cudnn"): Constants(0.883, 1241.8, 5240.4, 9602.9, 0.610, 1.172, 1.0, 1.950, 3.985, 64),
    ("backward", "flash"): Constants(0.430, 1403.7, 3649.7, 11017.5, 0.585, 5.437, 0.0, 1.900, 7.190, 64)})
"""(pass, backend) -> constants."""
DECODE = MappingProxyType({"cudnn": (5500.0, 0.92, 1.1, 4.0), "flash": (8000.0, 0.78, 0.0, 1.0)})
"""Backend -> (ns of the launch; part of the bandwidth; time of a step over the forward pass's, 0: keys are divided
among blocks; how hard the roof's edge is)."""
PRODUCTS = MappingProxyType({"forward": 2.0, "backward": 5.0})
"""Products of 128 x 128 x a head's length in a step."""


def fused_ns(way: str, shape: F64, precision: str, machine: Machine, constants: Constants) -> F64:
    """Times of kernels f64 [9, n] in the order of COLUMNS; `way`: forward or backward."""
    batch, heads, kv_heads, queries, keys, long, value, work, cache = shape
    wide, size = np.maximum(long, value) > BLOCK, (long + value) / 2
    unit, rows = machine.peak(precision) / machine.units, np.where(wide, constants.rows, BLOCK)
    products = PRODUCTS[way] * 2 * BLOCK**2 * size * np.where(wide, constants.wide, 1.0) / (unit * constants.rate)
    step, steps = (products + constants.scores * UNIT / unit) * rows / BLOCK, np.ceil(keys / BLOCK)
    around = constants.block * UNIT / unit
    waves, full = batch * heads * np.ceil(queries / rows) / machine.units, steps * step + around
    whole = full * (constants.late * np.ceil(waves) + (1 - constants.late) * np.maximum(waves, 1))
    seen = np.maximum(1.0, steps * work + np.minimum(0.5, (1 - work) * steps))      # half of those on the diagonal
    masked = np.maximum(waves * (seen * step + around) + constants.idle * np.minimum(waves, 1) * full, full)
    moved = constants.moved * cache * 2 * batch * size * (heads * queries + kv_heads * keys)
    moved += constants.spread * (heads > kv_heads) * cache * 2 * batch * size * heads * keys
    found: F64 = constants.launch + np.where(work < 1, masked, whole) + moved / machine.bandwidth
    return found


def decode_ns(name: str, shape: F64, precision: str, machine: Machine) -> F64:
    """Times of one query a sequence, f64 [9, n] in the order of COLUMNS: the bytes, or the longest block."""
    batch, heads, kv_heads, _, keys, long, value, work, cache = shape
    launch, share, slower, sharp = DECODE[name]
    found: F64 = batch * kv_heads * keys * work * (long + value) * cache / (machine.bandwidth * share)
    if slower:
        forward = CONSTANTS["forward", name]
        unit = machine.peak(precision) / machine.units
        step = PRODUCTS["forward"] * BLOCK**2 * (long + value) / (unit * forward.rate) + forward.scores * UNIT / unit
        chain = np.ceil(batch * kv_heads / machine.units) * np.ceil(keys * work / BLOCK) * step * slower
        found = np.where(heads > kv_heads, (found**sharp + chain**sharp)**(1 / sharp), found)
    return launch + found


def decode(shape: F64, precision: str, machine: Machine, option: F64) -> Described:
    """Base time and features of decoding; `option`: the backend's number."""
    return _chosen([decode_ns(name, shape, precision, machine) for name in BACKENDS], option)


def _describe(way: str, shape: F64, precision: str, machine: Machine, option: F64) -> Described:
    return _chosen([fused_ns(way, shape, precision, machine, CONSTANTS[way, name]) for name in BACKENDS], option)


def _chosen(each: Sequence[F64], option: F64) -> Described:
    times = np.stack(each)
    base = times[option.astype(np.intp), np.arange(len(option))]
    return Described(base, (log2(base), option))


def forward(shape: F64, precision: str, machine: Machine, option: F64) -> Described:
    """Base time and features of forward passes; `option`: the backend's number."""
    return _describe("forward", shape, precision, machine, option)


def backward(shape: F64, precision: str, machine: Machine, option: F64) -> Described:
    """Base time and features of backward passes."""
    return _describe("backward", shape, precision, machine, option)
