"""The measured rows that `pip install astrarium[measured]` brings: aiconfigurator-core (Apache-2.0, NVIDIA)."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.compute.kernels.artefacts import artefact
from astrarium.errors import InputError, install_line, nearest

__all__ = ["FEW", "PRECISIONS", "SHAPES", "Rows", "casts", "devices", "read", "streams", "tables"]

PRECISIONS: Mapping[str, str] = {
    "bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "fp4", "sq": "int8", "int8_wo": "w8a16",
    "int4_wo": "w4a16", "w4a16_mxfp4": "mxfp4_a16", "w4a8_mxfp4_mxfp8": "mxfp4_a8"}
"""Names of the tables' precisions."""
SLOW = ("triton",)
FEW = 16
"""Queries of a sequence up to which latent attention is decoding's kernel: one token, or a draft that is verified."""
Columns = Mapping[str, npt.NDArray[Any]]


class Rows(Struct, frozen=True, eq=False):
    """Measured kernels of a device and class: `shape` f64 [columns, n], `precision` and `variant` (framework/version)
    str [n], `ns` f64 [n]."""

    shape: F64
    precision: npt.NDArray[np.str_]
    variant: npt.NDArray[np.str_]
    ns: F64

    def where(self, chosen: npt.NDArray[Any]) -> Rows:
        """The rows of a mask or of indexes."""
        return Rows(self.shape[:, chosen], self.precision[chosen], self.variant[chosen], self.ns[chosen])


def _folder() -> Path:
    spec = importlib.util.find_spec("aiconfigurator_core")
    if spec is None or not spec.submodule_search_locations or importlib.util.find_spec("pyarrow") is None:
        raise InputError("compute.rows", "the measured rows are not installed",
                         expected=f"{install_line('measured')}, or `rows: fitted`")
    return Path(spec.submodule_search_locations[0]) / "systems" / "data"


def devices() -> tuple[str, ...]:
    """Devices that have rows of matrix products, in order."""
    return tuple(sorted(path.parent.name for path in _folder().glob("*/gemm")))


def tables(device: str, family: str, name: str) -> list[tuple[str, Path]]:
    """("framework/version", file) of each stored table, in order. Raises InputError for an unknown device."""
    folder = _folder() / device
    if not folder.is_dir():
        known = devices()
        raise InputError("compute.device", f"{device[:60]!r} has no measured rows",
                         expected="one of " + ", ".join(known), did_you_mean=nearest(device, known))
    return [("/".join(path.parts[-3:-1]), path) for path in sorted((folder / family).glob(f"*/*/{name}.parquet"))]


def _columns(path: Path) -> Columns:
    pq: Any = importlib.import_module("pyarrow.parquet")

    table = pq.read_table(path)
    return {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}


def _gemm(table: Columns) -> tuple[list[Any], Any]:
    return [np.ones(len(table["m"])), table["m"], table["n"], table["k"]], table["gemm_dtype"]


def _absorbed(table: Columns) -> tuple[list[Any], Any]:
    """Products with a matrix for each head that latent attention absorbs: keys' before, values' behind."""
    one = np.ones(len(table["num_tokens"]))
    before = np.array(["pre" in name for name in table["op_name"]])
    return [table["num_heads"], table["num_tokens"], np.where(before, 512 * one, 128 * one),
            np.where(before, 128 * one, 512 * one)], np.where(table["bmm_dtype"] == "bfloat16", "bfloat16", "")


def _visible(queries: F64, window: F64) -> F64:
    """Part of queries x queries that a causal mask with a sliding window (0: none) leaves."""
    wide = np.where(window > 0, np.minimum(window, queries), queries)
    return np.asarray((wide * (wide + 1) / 2 + (queries - wide) * wide) / queries**2)


def _heads(table: Columns) -> tuple[Any, Any, Any, Any]:
    """(window, heads of keys, bytes of a cached element, head length)."""
    heads = table["num_heads"].astype(float)
    kv = table["num_key_value_heads"].astype(float)
    window = np.asarray(table.get("window_size", np.zeros(len(heads))), np.float64)
    return window, np.where(kv > 0, kv, heads), np.where(table["kv_cache_dtype"] == "fp8", 1.0, 2.0), table["head_dim"]


def _attention(table: Columns) -> tuple[list[Any], Any]:
    window, kv, cache, long = _heads(table)
    queries = table["isl"].astype(float)
    return [table["batch_size"], table["num_heads"], kv, queries, queries, long, long, _visible(queries, window),
            cache], table["attn_dtype"]


def _latent_prompt(table: Columns) -> tuple[list[Any], Any]:
    """Prompts of latent attention with a key and a value for every head, of the lengths of DeepSeek-V3."""
    heads, queries = table["num_heads"].astype(float), table["isl"].astype(float)
    one, cache = np.ones(len(heads)), np.where(table["kv_cache_dtype"] == "fp8", 1.0, 2.0)
    return [table["batch_size"], heads, heads, queries, queries, 192 * one, 128 * one, _visible(queries, 0 * one),
            cache], table["mla_dtype"]


def _decode(table: Columns) -> tuple[list[Any], Any]:
    window, kv, cache, long = _heads(table)
    keys = table["step"].astype(float) + table["isl"]
    seen = np.where(window > 0, np.minimum(window, keys), keys) / keys
    one = np.ones(len(keys))
    return [table["batch_size"], table["num_heads"], kv, one, keys, long, long, seen, cache], table["attn_dtype"]


def _latent(table: Columns) -> tuple[list[Any], Any]:
    keys = table["step"].astype(float) + table["isl"]
    one, cache = np.ones(len(keys)), np.where(table["kv_cache_dtype"] == "fp8", 1.0, 2.0)
    shape = [table["batch_size"], table["num_heads"], one, one, keys, 576 * one, 512 * one, one, cache]
    return shape, table["mla_dtype"]


def _experts(table: Columns) -> tuple[list[Any], Any]:
    spread = table["moe_ep_size"].astype(float)
    inner = table["inter_size"] / table["moe_tp_size"]
    gated = np.where(["nongated" in source for source in table["kernel_source"]], 1.0, 2.0)
    skew = [float(name.rsplit("_", 1)[1]) if name.startswith("power_law") else 0.0 for name in table["distribution"]]
    groups, rows = table["num_experts"] / spread, table["num_tokens"] * table["topk"] / spread
    return [np.maximum(1.0, groups), np.maximum(1.0, rows), gated * inner, table["hidden_size"], inner, spread,
            skew], table["moe_dtype"]


def _delta(table: Columns) -> tuple[list[Any], Any]:
    """Gated delta nets without the convolution: decoding, and prompts of at least two tokens."""
    single, rule = table["phase"] == "generation", np.array(["delta_rule" in name for name in table["kernel_source"]])
    tokens = np.where(single, 1.0, table["seq_len"].astype(float))
    known = rule & (single | (tokens > 1))
    return [table["batch_size"], table["num_v_heads"], tokens, table["head_k_dim"], table["head_v_dim"]], np.where(
        known, "bfloat16", "")


def _sparse(table: Columns) -> tuple[list[Any], Any]:
    """Prompts of sparse latent attention: GLM-5's heads, 2,048 keys for each query whatever it sees."""
    queries = table["isl"].astype(float)
    one = np.ones(len(queries))
    return [table["batch_size"], 64 * one, one, queries, 2048 * one, 576 * one, 512 * one, one, 2 * one], np.where(
        queries > FEW, "bfloat16", "")


def _indexer(table: Columns) -> tuple[list[Any], Any]:
    """Scores of GLM-5's indexer: 32 heads of 128, causal behind `step` tokens of the past."""
    queries, past = table["isl"].astype(float), table["step"].astype(float)
    one, keys = np.ones(len(queries)), queries + past
    work = (queries * (queries + 1) / 2 + queries * past) / (queries * keys)
    return [table["batch_size"], 32 * one, one, queries, keys, 128 * one, 0 * one, work, one], np.where(
        queries > 1, "bfloat16", "")


Shape = Callable[[Columns], tuple[list[Any], Any]]
SHAPES: Mapping[str, tuple[tuple[str, str, Shape], ...]] = {
    "gemm": (("gemm", "gemm_perf", _gemm),),
    "bmm": (("mla_bmm", "mla_bmm_perf", _absorbed),),
    "attention": (("attention", "context_attention_perf", _attention),),
    "latent": (("mla", "context_mla_perf", _latent_prompt),),
    "decode": (("attention", "generation_attention_perf", _decode),),
    "mla": (("mla", "generation_mla_perf", _latent),),
    "experts": (("moe", "moe_perf", _experts),),
    "delta": (("linear_attention", "gdn_perf", _delta),),
    "sparse": (("sparse_attention", "glm5_dsa_attn_module_perf", _sparse),),
    "indexer": (("sparse_attention", "glm5_mqa_logits_module_perf", _indexer),),
}
"""Class -> (folder, table, shape of its rows)."""


def read(device: str, family: str) -> Rows:
    """All rows of a device and operator class whose precision has a name here; none where it has no table.

    Where a framework measured attention with several kernels, rows of its slower fall-back (Triton) are left out; of
    several rows of one shape the fastest counts, which the framework would pick.
    """
    parts = [_rows(device, family, folder, variant, path, shape_of) for folder, name, shape_of in SHAPES[family]
             for variant, path in tables(device, folder, name)]
    if not parts:
        none = np.zeros(0, np.str_)
        parts.append(Rows(np.zeros((0, 0)), none, none, np.zeros(0)))
    return Rows(np.concatenate([p.shape for p in parts], 1), np.concatenate([p.precision for p in parts]),
                np.concatenate([p.variant for p in parts]), np.concatenate([p.ns for p in parts]))


def _rows(device: str, family: str, folder: str, variant: str, path: Path, shape_of: Shape) -> Rows:
    """The rows of one table."""
    table = _columns(path)
    shape, precision = shape_of(table)
    named = np.array([PRECISIONS.get(p, "") for p in precision])
    source = table["kernel_source"].astype(str)
    fast = np.array([not any(slow in s for slow in SLOW) for s in source])
    found = {each: artefact(device, family, each, variant) for each in PRECISIONS.values()}
    real = {each for each, reason in found.items() if reason is None or reason.kept}
    keep = np.isin(named, list(real)) & (table["latency"] > 0)
    keep &= fast if folder == "attention" and fast.any() else True
    rows = Rows(np.array([np.asarray(c, np.float64) for c in shape]), named, np.full(len(named), variant),
                table["latency"] * 1e6)
    return _fastest(rows.where(keep))


def _fastest(rows: Rows) -> Rows:
    """One row of each shape and precision, in the order of the shapes."""
    _, precision = np.unique(rows.precision, return_inverse=True)
    keys = np.vstack([precision.ravel(), rows.shape])
    order = np.lexsort((rows.ns, *keys[::-1]))
    first = np.ones(len(order), np.bool_)
    first[1:] = (keys[:, order[1:]] != keys[:, order[:-1]]).any(0)
    return rows.where(order[first])


def casts(device: str, name: str, framework: str) -> F64:
    """(elements, ns) f64 [2, rows] of a table of kernels that cast a matrix into fp8: `scale_matrix_perf` scales it,
    `computescale_perf` finds the scale of all. Empty where the device has none."""
    parts = [np.zeros((2, 0))]
    for variant, path in tables(device, "quantize", name):
        if variant.startswith(framework):
            table = _columns(path)
            parts.append(np.array([1.0 * table["m"] * table["k"], table["latency"] * 1e6]))
    return np.concatenate(parts, 1)


def streams(device: str) -> F64:
    """(bytes, ns) f64 [2, rows] of kernels that scale a bf16 matrix into fp8: what only moves bytes. Empty where the
    device has none. sglang's are left out: they run at a tenth of the bandwidth of the others."""
    parts = [casts(device, "scale_matrix_perf", framework) for framework in ("trtllm", "vllm")]
    found: F64 = np.concatenate(parts, 1) * np.array([[3.0], [1.0]])
    return found
