"""Attention of a decoder with a key-value cache: what a step of inference appends, reads and computes.

Under sp the context is spread over the ranks: every rank has the cache of its share of all sequences. A step whose
sequences have a past brings its queries to all of them and sums up what they find (one all_gather of the queries, one
reduce_scatter of the outputs; softmax statistics, two numbers per head and token, are left out). A step without a past
gathers keys and values instead, as training does.

Decoding sequences and every class of prompts have separate kernels, as in engines. The dims of kernel i, where there
are several, end in `.i`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from astrarium.workload.graph import Options
from astrarium.workload.graph.ir import Block, Op, append, attention, gemm, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.graph.packed import Packed
from astrarium.workload.model.parts import fused

__all__ = [
    "AttentionBatch",
    "HeadDims",
    "LayerKind",
    "StateFormat",
    "cache_axes",
    "cache_sizes",
    "cached_core",
    "joined",
    "kv_heads",
    "packed_scores",
    "parts_of",
    "sampler_ops",
    "sparse",
    "state_widths",
    "states_of",
]

KEYS, VALUES = "key_cache", "value_cache"
TILE = 64
"""Queries that a block of FlashAttention 2 takes from one sequence where the cache is paged (kBlockM of
flash_fwd_launch_template.h, run_mha_fwd_splitkv_dispatch). A step of vLLM with prompts is one such kernel, so one
query of a sequence has a block to itself, for every head; a step without prompts has heads in the place of queries."""


StateFormat = Literal["activations", "fp32"]


class LayerKind(NamedTuple):
    """What differs between the layers of one decoder: experts or not, how far back a token looks (None: all),
    whether a gated delta net or a Mamba mixer replaces attention, and whether sparse attention has an
    indexer here or takes the choice of the layer before. `sparse` False: attention to all tokens beside layers of
    sparse attention. `mixes`, `feeds`: whether there is attention (or its replacement), and an FFN or experts;
    `inner`: size of the FFN (None: the model's). `ratio`: tokens of a compressed entry, where attention is to those."""

    moe: bool
    window: int | None
    delta: bool = False
    indexes: bool = True
    mamba: bool = False
    sparse: bool = True
    mixes: bool = True
    feeds: bool = True
    inner: int | None = None
    ratio: int | None = None

    @property
    def attends(self) -> bool:
        """Whether there is attention, with a cache."""
        return self.mixes and not self.delta and not self.mamba


class HeadDims(NamedTuple):
    """Dims of a layer's key and value heads, and of their keys and values."""

    kv: str = "kv_heads"
    key: str = "head"
    value: str = "head"


HEADS = HeadDims()


def _suffix(kind: LayerKind) -> str:
    return "" if kind.window is None else ".window"


def kv_heads(heads: int, options: Options) -> int:
    """Key and value heads as stored: in inference each rank of tp has at least one, a copy where they are few."""
    tp = options.degrees.get("tp", 1)
    few = options.packed is not None and heads < tp and tp % heads == 0
    return tp if few else heads


class AttentionBatch(NamedTuple):
    """Sequences of a step that share a kernel of attention: their dims end in `dim`, their operators and tensors in
    `name`. `fresh`: they have nothing in the cache, so that keys and values are used as they are made."""

    step: Packed
    dim: str
    name: str
    fresh: bool

    @property
    def decoding(self) -> bool:
        """Whether they are past their prompts."""
        return all(each.decoding for each in self.step.parts)

    def seen(self, window: int | None, options: Options) -> int:
        """Rows of the cache that a layer reads, in whole rows for each rank of sp."""
        return self.step.tokens if self.fresh else _whole(self.step.context(window), options)


def parts_of(options: Options) -> tuple[AttentionBatch, ...]:
    """The kernels of a step's attention. Over ranks of sp all sequences of a step lie alike: fresh, or in the cache."""
    packed = options.packed
    assert packed is not None
    steps, spread = packed.kernels, options.degrees.get("sp", 1) > 1
    ends = [(f".{number}", f"_{number}") for number in range(len(steps))] if len(steps) > 1 else [("", "")]
    return tuple(AttentionBatch(step, *end, packed.fresh if spread else step.fresh)
                 for step, end in zip(steps, ends, strict=True))


def state_widths(state_format: StateFormat, convolved: Iterable[str], options: Options) -> Mapping[str, str]:
    """Roles of the state of a recurrence, and of the last tokens of its convolutions: never the cache's."""
    if options.packed is None:
        return MappingProxyType({})
    role = "stats" if state_format == "fp32" else "activations"
    parts = [part.name for part in parts_of(options)]
    tails = {each: "activations" for name in convolved for each in (f"tail_{name}", *(
        f"end_{name}{part}" for part in parts))}
    ends = {f"end{part}": role for part in parts}
    return MappingProxyType({"state": role, "end": role, **ends, **tails})


def cache_sizes(sight: int | None, options: Options) -> Mapping[str, Size]:
    """Sizes of a step's own dims; the context in whole rows for each rank of sp (caches are paged). `sight`: tokens
    that a query sees in the layers that do not see all."""
    packed = options.packed
    if packed is None:
        return MappingProxyType({})
    found: dict[str, Size] = {"sampled": max(1, packed.sampled), "one": 1}    # the head of 0 never runs
    for suffix, window in (("", None), (".window", sight)):
        found["ctx" + suffix] = _whole(packed.context(window), options)
        found["pairs" + suffix] = _whole(packed.pairs(window, options.mask == "skip"), options)
        for part in parts_of(options):
            found[f"ctx{suffix}{part.dim}"] = _whole(part.step.context(window), options)
            found[f"pairs{suffix}{part.dim}"] = _whole(part.step.pairs(window, options.mask == "skip"), options)
    for part in parts_of(options):
        found[f"seq{part.dim}"] = _share(part.step.tokens, options)
        found |= dict.fromkeys((f"seq.all{part.dim}", f"seq.index{part.dim}"), part.step.tokens)
    return MappingProxyType(found)


def _whole(size: int, options: Options) -> int:
    """The next multiple of sp."""
    sp = options.degrees.get("sp", 1)
    return -(-size // sp) * sp


def _share(tokens: int, options: Options) -> Size:
    """Tokens that sp divides: those of a part need not be a multiple, those of the step are."""
    return float(tokens) if tokens % options.degrees.get("sp", 1) else tokens


def cache_axes(options: Options) -> Mapping[str, tuple[str, ...]]:
    """Axes of a step's own dims."""
    if options.packed is None:
        return MappingProxyType({})
    found: dict[str, tuple[str, ...]] = {"sampled": (), "one": (), "vocab.all": ()}
    for end in ("", *(part.dim for part in parts_of(options))):
        found |= dict.fromkeys((f"seq.all{end}", f"seq.index{end}"), ())
        found |= dict.fromkeys((f"ctx{end}", f"ctx.window{end}", f"pairs{end}", f"pairs.window{end}"), ("sp",))
        found[f"seq{end}"] = ("sp", "cp")
    return MappingProxyType(found)


def states_of(kind: LayerKind, heads: HeadDims = HEADS) -> Mapping[str, str]:
    """The caches of a layer and their dims."""
    dims = f"batch ctx{_suffix(kind)} {heads.kv}"
    return MappingProxyType({KEYS: f"{dims} {heads.key}", VALUES: f"{dims} {heads.value}"})


def cached_core(kind: LayerKind, options: Options, q: str, k: str, heads: HeadDims = HEADS, *,
                owner: bool, read: int | None = None) -> list[Op]:
    """From queries, and in the layer that owns the cache keys and values, to the heads' outputs `o`. `read`: of all
    that is cached, the tokens that a query sees, where an indexer chooses them."""
    context, kv = f"ctx{_suffix(kind)}", heads.kv
    ops = fused("rope", [
        append(name, f"{source}[batch,seq.all,{kv},{size}] -> {state}[batch,{context},{kv},{size}]")
        for name, source, state, size in (("cache_k", k, KEYS, heads.key), ("cache_v", "v", VALUES, heads.value))
        ] if owner else [])
    if read is not None:
        kind = kind._replace(window=read)
        context = f"ctx{_suffix(kind)}"
    for each in parts_of(options):
        part = each._replace(fresh=each.fresh and owner)
        if part.fresh:
            query, seen, keys, values = "seq", "seq.all", k, "v"
        else:
            query, seen, keys, values = "seq.all", context, KEYS, VALUES
        made, seen = f"[batch,{query}{part.dim},heads", f"[batch,{seen}{part.dim},{kv}"
        ops += joined(part, packed_scores(
            kind, options, part, f"{q}{made},{heads.key}]", f"{keys}{seen},{heads.key}]",
            f"{values}{seen},{heads.value}]", f"o{made},{heads.value}]", kv=kv))
    return ops


def joined(part: AttentionBatch, ops: list[Op]) -> list[Op]:
    """Operators of which the last makes a part's rows of a tensor that all parts make together."""
    return [*ops[:-1], ops[-1]._replace(joins=bool(part.dim))]


def packed_scores(kind: LayerKind, options: Options, part: AttentionBatch, q: str, k: str, v: str, out: str, *,
                  kv: str = "kv_heads") -> list[Op]:
    """Attention of block-diagonal scores: the pairs that the part computes of all its queries with all keys that it
    sees."""
    step = part.step
    work = step.pairs(kind.window, options.mask == "skip") / (step.tokens * part.seen(kind.window, options))
    count = sum(each.count for each in step.parts)
    if options.attention == "flash_2" and part.decoding and part.dim and kv != "heads":
        work *= max(1.0, TILE * count / step.tokens)
    if options.attention != "unfused":
        return [attention(f"attention{part.name}", f"{q} * {k} * {v} -> {out}", work=work, sequences=count)]
    score, s, p = f"[batch,heads,pairs{_suffix(kind)}{part.dim}]", f"s{part.name}", f"p{part.name}"
    row, along = k[k.index("[") + 1:].split(",")[1], () if kv == "heads" else (kv,)
    return [gemm(f"scores{part.name}", f"{q} * {k} -> {s}{score}", work=work, along=along, packed=work,
                 sequences=count),
            point(f"softmax{part.name}", f"{s}{score} -> {p}{score}", 5, saves="outputs"),
            gemm(f"mix{part.name}", f"{p}{score} * {v} -> {out}", along=(*along, row), packed=work, sequences=count)]


def sampler_ops(options: Options, logits: str, token: str) -> list[Op]:
    """A token from the logits of each row: maximum and sum of a shard of the vocabulary, then over tp; one draw.
    Engines gather all logits and draw from them in fp32."""
    if options.engine:
        every = f"{token[:-1]},vocab.all]"
        return [point("widen", f"logits{every} -> wide{every}", 0)._replace(fused="widen"),
                point("draw", f"wide{every} -> token{token}", 1)]
    return [point("maximum", f"{logits} -> m{token}", 1, grad=False),
            point("sum", f"{logits} + m{token} -> z{token}", 3, grad=False),
            point("draw", f"m{token} + z{token} -> token{token}", 1, grad=False)]


def sparse(block: Block, density: float) -> Block:
    """The block with weights of which a product computes only the share `density` (2:4 sparsity: 0.5)."""
    if density == 1.0:
        return block
    return block.with_ops(op._replace(work=op.work * density)
                          if op.kind == "gemm" and op.inputs[1].tensor in block.weights else op for op in block.ops)
