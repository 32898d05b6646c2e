"""Attention with many queries (prefill, training's forward pass) and with few (decoding), as one fused kernel.

A block of 128 queries of one head is one unit's work (Dao, "FlashAttention-2", 2023, arXiv 2307.08691, section 3.2), so
blocks fill the device in waves; what a mask leaves out is not computed. Decoding reads all keys and values once.
"""

from __future__ import annotations

import numpy as np

from astrarium.arrays import F64
from astrarium.compute.kernels.machine import BYTES, Machine
from astrarium.compute.kernels.table import Described, log2, part

__all__ = ["COLUMNS", "decode", "describe", "indexer", "latent"]

COLUMNS = ("batch", "heads", "kv_heads", "queries", "keys", "key_length", "value_length", "work", "cache_bytes")
QUERY_BLOCK = 128


def _cost(shape: F64, precision: str, machine: Machine) -> tuple[F64, F64]:
    """(compute, access), ns."""
    batch, heads, kv_heads, queries, keys, long, value, work, cache = shape
    compute = 2 * batch * heads * queries * keys * (long + value) * work / machine.peak(precision)
    seen = np.minimum(keys, np.maximum(keys * work * np.where(queries == 1, 1.0, 2.0), 1.0))
    moved = batch * (kv_heads * seen * (long + value) * cache + heads * queries * (long + value) * BYTES[precision])
    return compute, moved / machine.bandwidth


def describe(shape: F64, precision: str, machine: Machine, option: F64) -> Described:
    """Base time and features of fused attention, f64 [9, n] in the order of COLUMNS.

    All rows have a causal mask: a kernel that computes more has the efficiency of the causal one.
    """
    batch, heads, kv_heads, queries, keys, long, value, work, cache = shape
    base = np.maximum(*_cost(shape, precision, machine)) + machine.launch
    work = np.minimum(work, (queries + 1) / (2 * queries))
    compute, access = _cost(np.array([*shape[:7], work, cache]), precision, machine)
    roof = np.maximum(compute, access) + machine.launch
    blocks = batch * heads * np.ceil(queries / QUERY_BLOCK)
    waves = blocks / machine.units
    features = (log2(batch * heads), log2(queries), log2(keys), log2(heads / kv_heads), log2(long), log2(value),
                log2(work), log2(compute), log2(compute / access), log2(waves), part(waves),
                log2(np.ceil(waves) / waves), part(queries / QUERY_BLOCK), log2(batch), log2(heads), log2(kv_heads),
                cache, log2(roof), option)
    return Described(base, features)


def decode(shape: F64, precision: str, machine: Machine, option: F64) -> Described:
    """Base time and features of decoding (one query a sequence), f64 [9, n] in the order of COLUMNS."""
    batch, heads, kv_heads, queries, keys, long, value, work, cache = shape
    compute, access = _cost(shape, precision, machine)
    roof = np.maximum(compute, access) + machine.launch
    waves = batch * kv_heads / machine.units
    features = (log2(batch), log2(heads), log2(kv_heads), log2(heads / kv_heads), log2(keys), log2(queries), log2(long),
                log2(value), log2(work), log2(access), log2(compute / access), log2(waves), part(waves),
                log2(waves * keys), cache, log2(roof), option)
    return Described(roof, features)


def latent(shape: F64, precision: str, machine: Machine, option: F64) -> Described:
    """Base time and features of multi-head latent attention with absorbed weights: every head reads one cached latent,
    whose first part is the value (DeepSeek-V2, 2024, arXiv 2405.04434, section 2.1.2)."""
    batch, heads, _, queries, keys, long, value, work, cache = shape
    compute = 2 * batch * heads * queries * keys * (long + value) * work / machine.peak(precision)
    moved = batch * (keys * work * long * cache + heads * queries * (long + value) * BYTES[precision])
    access = moved / machine.bandwidth
    base = np.maximum(compute, access) + machine.launch
    waves = batch * np.ceil(heads * queries / 64) / machine.units
    features = (log2(batch), log2(heads), log2(keys), log2(queries), log2(access), log2(compute / access), log2(waves),
                part(waves), log2(waves * keys), cache, log2(base), option)
    return Described(base, features)


def indexer(shape: F64, precision: str, machine: Machine, option: F64) -> Described:
    """Base time and features of the scores by which sparse attention chooses keys: one key for all heads, whose scores
    are summed, so that one number for each query and key is written (DeepSeek-V3.2, section 2.1)."""
    batch, heads, _, queries, keys, long, _, work, cache = shape
    compute = 2 * batch * heads * queries * keys * long * work / machine.peak(precision)
    moved = batch * (keys * long * cache + queries * heads * long * cache + 4 * queries * keys * work)
    access = moved / machine.bandwidth
    base = np.maximum(compute, access) + machine.launch
    waves = batch * np.ceil(queries * heads / 128) / machine.units
    features = (log2(batch), log2(heads), log2(queries), log2(keys), log2(work), log2(batch * queries), log2(compute),
                log2(compute / access), log2(waves), log2(base), option)
    return Described(base, features)
