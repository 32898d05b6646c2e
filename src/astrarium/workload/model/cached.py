"""Attention of a decoder with a key-value cache: what a step of inference appends, reads and computes.

Under sp the context is spread over the ranks: every rank has the cache of its share of all sequences. A step whose
sequences have a past brings its queries to all of them and sums up what they find (one all_gather of the queries, one
reduce_scatter of the outputs; softmax statistics, two numbers per head and token, are left out). A step without a past
gathers keys and values instead, as training does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from astrarium.workload.graph import Options
from astrarium.workload.graph.ir import Block, Op, append, attention, gemm, point
from astrarium.workload.graph.layout import Number

__all__ = ["LayerKind", "StateFormat", "cache_axes", "cache_sizes", "cached_core", "kv_heads", "packed_scores",
           "sampler_ops", "sparse", "state_widths", "states_of", "whole_context"]

KEYS, VALUES = "key_cache", "value_cache"


StateFormat = Literal["activations", "fp32"]


def state_widths(state_format: StateFormat, convolved: Iterable[str]) -> Mapping[str, str]:
    """Roles of the state of a recurrence, and of the last tokens of its convolutions: never the cache's."""
    role = "stats" if state_format == "fp32" else "activations"
    tails = {f"{kind}_{name}": "activations" for name in convolved for kind in ("tail", "end")}
    return MappingProxyType({"state": role, "end": role, **tails})


class LayerKind(NamedTuple):
    """What differs between the layers of one decoder: experts or not, how far back a token looks (None: all),
    whether a gated delta net stands in the place of attention, and whether sparse attention has an indexer here or
    takes the choice of the layer before."""

    moe: bool
    window: int | None
    delta: bool = False
    indexes: bool = True


def _suffix(kind: LayerKind) -> str:
    return "" if kind.window is None else ".window"


def kv_heads(heads: int, options: Options) -> int:
    """Key and value heads as stored: in inference each rank of tp has at least one, a copy where they are few."""
    tp = options.degrees.get("tp", 1)
    few = options.packed is not None and heads < tp and tp % heads == 0
    return tp if few else heads


def cache_sizes(sight: int | None, options: Options) -> Mapping[str, Number]:
    """Sizes of a step's own dims; the context in whole rows for each rank of sp (caches are paged). `sight`: tokens
    that a query sees in the layers that do not see all."""
    packed = options.packed
    if packed is None:
        return MappingProxyType({})
    found: dict[str, Number] = {"sampled": max(1, packed.sampled), "one": 1}    # the head of 0 never runs
    for suffix, window in (("", None), (".window", sight)):
        found["ctx" + suffix] = _whole(packed.context(window), options)
        found["pairs" + suffix] = _whole(packed.pairs(window, options.mask == "skip"), options)
    return MappingProxyType(found)


def _whole(size: int, options: Options) -> int:
    """The next multiple of sp."""
    sp = options.degrees.get("sp", 1)
    return -(-size // sp) * sp


def cache_axes(options: Options) -> Mapping[str, tuple[str, ...]]:
    """Axes of a step's own dims."""
    if options.packed is None:
        return MappingProxyType({})
    return MappingProxyType({"seq.all": (), "ctx": ("sp",), "ctx.window": ("sp",), "pairs": ("sp",),
                             "pairs.window": ("sp",), "sampled": (), "one": ()})


def states_of(kind: LayerKind) -> Mapping[str, str]:
    """The caches of a layer and their dims."""
    dims = f"batch ctx{_suffix(kind)} kv_heads head"
    return MappingProxyType({KEYS: dims, VALUES: dims})


def cached_core(kind: LayerKind, options: Options, q: str, k: str, *, owner: bool) -> list[Op]:
    """From queries, and in the layer that owns the cache keys and values, to the heads' outputs `o`."""
    packed = options.packed
    assert packed is not None
    rows, ctx = "[batch,seq.all,kv_heads,head]", f"ctx{_suffix(kind)}"
    cache = f"[batch,{ctx},kv_heads,head]"
    ops = [append(name, f"{source}{rows} -> {state}{cache}")
           for name, source, state in (("cache_k", k, KEYS), ("cache_v", "v", VALUES))] if owner else []
    if packed.fresh and owner:
        query, keys, values = "seq", f"{k}{rows}", f"v{rows}"
        seen = packed.tokens
    else:
        query, keys, values = "seq.all", f"{KEYS}{cache}", f"{VALUES}{cache}"
        seen = whole_context(kind, options)
    return ops + packed_scores(kind, options, f"{q}[batch,{query},heads,head]", keys, values,
                               f"o[batch,{query},heads,head]", seen)


def whole_context(kind: LayerKind, options: Options) -> int:
    """Rows of the cache that a layer reads, in whole rows for each rank of sp."""
    assert options.packed is not None
    return _whole(options.packed.context(kind.window), options)


def packed_scores(kind: LayerKind, options: Options, q: str, k: str, v: str, out: str, seen: int, *,
                  kv: str = "kv_heads") -> list[Op]:
    """Attention of block-diagonal scores: the pairs that the step computes of all queries with all `seen` keys."""
    packed = options.packed
    assert packed is not None
    pairs = packed.pairs(kind.window, options.mask == "skip")
    work = pairs / (packed.tokens * seen)
    count = sum(part.count for part in packed.parts)
    if options.attention == "flash":
        return [attention("attention", f"{q} * {k} * {v} -> {out}", work=work, sequences=count)]
    score = f"[batch,heads,pairs{_suffix(kind)}]"
    row, along = k[k.index("[") + 1:].split(",")[1], () if kv == "heads" else (kv,)
    return [gemm("scores", f"{q} * {k} -> s{score}", work=work, along=along, packed=work, sequences=count),
            point("softmax", f"s{score} -> p{score}", 5, saves="outputs"),
            gemm("mix", f"p{score} * {v} -> {out}", along=(*along, row), packed=work, sequences=count)]


def sampler_ops(logits: str, token: str) -> list[Op]:
    """A token from the logits of each row: maximum and sum of a shard of the vocabulary, then over tp; one draw."""
    return [point("maximum", f"{logits} -> m{token}", 1, grad=False),
            point("sum", f"{logits} + m{token} -> z{token}", 3, grad=False),
            point("draw", f"m{token} + z{token} -> token{token}", 1, grad=False)]


def sparse(block: Block, density: float) -> Block:
    """The block with weights of which a product computes only the share `density` (2:4 sparsity: 0.5)."""
    if density == 1.0:
        return block
    return block.with_ops(op._replace(work=op.work * density)
                          if op.kind == "gemm" and op.inputs[1].tensor in block.weights else op for op in block.ops)
