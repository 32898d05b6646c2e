"""Attention of PyTorch's `scaled_dot_product_attention`, forward and backward: blocks of queries, steps along the keys.

A block of 128 queries of one head runs on one multiprocessor, in steps of 128 keys (Dao, "FlashAttention-2", 2023,
arXiv 2307.08691, section 3.2); so do blocks of keys in backward passes. With a causal mask blocks are of unequal
length, and the last ones leave multiprocessors idle. The constants were fitted on rows of PyTorch 2.11 on one H100
(`tools/fit_torch.py --constants`): 15 and 19 of cuDNN (forward, backward), 17 and 18 of FlashAttention-2.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from astrarium.compute.kernels.attention import COLUMNS
from astrarium.compute.kernels.machine import Machine
from astrarium.compute.kernels.table import F64, Described, log2

__all__ = ["BACKENDS", "COLUMNS", "CONSTANTS", "Constants", "backward", "forward", "fused_ns"]

BACKENDS = ("cudnn", "flash")
"""Backends of the rows by the number of their variant; PyTorch 2.11 takes the first by default on H100."""
BLOCK = 128


class Constants(NamedTuple):
    """`rate`: of a multiprocessor's peak in the products of a step; `scores`: ns of the rest of a step; `block`: ns of
    a block beside its steps; `launch`: ns; `idle`: blocks by which a causal mask's last ones prolong the kernel;
    `moved`: how often operands and results pass the memory; `late`: how far the last wave is as long as a full one;
    `wide`: how much longer products take with heads of more than 128."""

    rate: float
    scores: float
    block: float
    launch: float
    idle: float
    moved: float
    late: float
    wide: float


CONSTANTS: Mapping[tuple[str, str], Constants] = MappingProxyType({
    ("forward", "cudnn"): Constants(1.092, 556.4, 502.7, 4659.0, 0.60, 0.596, 0.41, 1.12),
    ("forward", "flash"): Constants(0.697, 1001.0, 316.6, 4020.0, 1.23, 1.228, 0.69, 1.63),
    ("backward", "cudnn"): Constants(0.915, 1218.6, 5212.7, 13600.0, 0.47, 3.598, 1.00, 2.05),
    ("backward", "flash"): Constants(0.688, 2504.0, 1697.0, 8247.0, 1.01, 12.12, 0.00, 1.00)})
"""(pass, backend) -> constants."""
PRODUCTS = MappingProxyType({"forward": 2.0, "backward": 5.0})
"""Products of 128 x 128 x a head's length in a step."""


def fused_ns(way: str, shape: F64, precision: str, machine: Machine, constants: Constants) -> F64:
    """Times of kernels f64 [9, n] in the order of COLUMNS; `way`: forward or backward."""
    batch, heads, kv_heads, queries, keys, long, value, work, cache = shape
    wide, size = np.where(np.maximum(long, value) > BLOCK, constants.wide, 1.0), (long + value) / 2
    each = machine.peak(precision) / machine.units * constants.rate
    step = PRODUCTS[way] * 2 * BLOCK**2 * size * wide / each + constants.scores
    blocks, steps = batch * heads * np.ceil(queries / BLOCK), np.ceil(keys / BLOCK)
    waves, full = blocks / machine.units, steps * step + constants.block
    whole = full * (constants.late * np.ceil(waves) + (1 - constants.late) * np.maximum(waves, 1))
    seen = np.maximum(1.0, steps * work + np.minimum(0.5, (1 - work) * steps))
    masked = np.maximum(waves * (seen * step + constants.block) + constants.idle * np.minimum(waves, 1) * full, full)
    moved = cache * 2 * batch * size * (heads * queries + kv_heads * keys)
    found: F64 = constants.launch + np.where(work < 1, masked, whole) + constants.moved * moved / machine.bandwidth
    return found


def _describe(way: str, shape: F64, precision: str, machine: Machine, option: F64) -> Described:
    times = np.stack([fused_ns(way, shape, precision, machine, CONSTANTS[way, name]) for name in BACKENDS])
    base = times[option.astype(np.intp), np.arange(shape.shape[1])]
    return Described(base, (log2(base), option))


def forward(shape: F64, precision: str, machine: Machine, option: F64) -> Described:
    """Base time and features of forward passes; `option`: the backend's number."""
    return _describe("forward", shape, precision, machine, option)


def backward(shape: F64, precision: str, machine: Machine, option: F64) -> Described:
    """Base time and features of backward passes."""
    return _describe("backward", shape, precision, machine, option)
