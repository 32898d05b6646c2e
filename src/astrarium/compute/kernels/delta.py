"""Gated delta nets: a state for each sequence and head that tokens update one by one, or chunk by chunk.

A step of decoding is one kernel that reads and writes all states. Prompts go through chunks of 64 tokens: products
inside a chunk, states between them, chunk by chunk for each sequence and head (arXiv 2412.06464, section 3.3).
"""

from __future__ import annotations

import numpy as np

from astrarium.arrays import F64
from astrarium.compute.kernels.machine import Machine
from astrarium.compute.kernels.table import Described, log2

__all__ = ["COLUMNS", "describe"]

COLUMNS = ("sequences", "heads", "tokens", "key_length", "value_length")
CHUNK = 64
UPDATE = 7.0        # FLOPs per number of a state and token
STATE_BYTES = 4.0   # states are kept in fp32


def describe(shape: F64, precision: str, machine: Machine, option: F64) -> Described:
    """Base time and features, f64 [5, n] in the order of COLUMNS; `tokens` of a sequence, 1 in decoding."""
    sequences, heads, tokens, key, value = shape
    single, each = tokens == 1, sequences * heads
    chunked = 2 * (CHUNK * (3 * key + 2 * value) + 3 * key * value)
    compute = each * tokens * np.where(single, UPDATE * key * value, chunked) / machine.peak(precision)
    moved = each * (tokens * 4 * (key + value) + STATE_BYTES * key * value * np.where(single, 2, 1))
    access = moved / machine.bandwidth
    base = np.maximum(compute, access) + machine.launch
    features = (log2(sequences), log2(heads), log2(tokens), log2(each), log2(each / machine.units), log2(compute),
                log2(access), log2(base), log2(key), log2(value), option)
    return Described(base, features)
