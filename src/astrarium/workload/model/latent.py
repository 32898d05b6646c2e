"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1) as operators.

In training, and where a step of inference has no past, keys and values are made for every head. Where there is a past
the cache holds the latents, and the matrices that make keys and values are absorbed into the query and the output: the
heads then share one key and value of length kv_rank + rope_size (arXiv 2405.04434, section 2.1.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated

from astrarium.config import Config, Knob
from astrarium.workload.graph import Options
from astrarium.workload.graph.ir import Op, append, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.base import Count
from astrarium.workload.model.cached import AttentionBatch, LayerKind, joined, packed_scores, parts_of
from astrarium.workload.model.indexer import INDEX_CACHE, INDEX_STATE, Indexer, index_ops
from astrarium.workload.model.parameters import linear_count
from astrarium.workload.model.parts import INSIDE, NORM, STREAM, core, fused, linear

__all__ = ["Latent", "latent_counts", "latent_heads", "latent_sizes", "latent_states"]

CACHE = "latent_cache"
QUERY, KEY, VALUE = "[batch,seq,heads,qk_size]", "k[batch,seq,heads,qk_size]", "v[batch,seq,heads,v_size]"


class Latent(Config, frozen=True, kw_only=True):
    """Multi-head latent attention (MLA): keys and values come from one short vector per token (arXiv 2405.04434)."""

    q_rank: Annotated[int | None, Knob("Length of the vector that queries are made from; left out: d_model itself.",
                                       ge=1)] = None
    kv_rank: Annotated[int, Knob("Length of the vector that keys and values are made from: what is cached.", ge=1)]
    nope_size: Annotated[int, Knob("Part of a head's query and key without position.", ge=0)]
    rope_size: Annotated[int, Knob("Part of a head's query and key with rotary position; one key for all heads.", ge=0)]
    v_size: Annotated[int, Knob("A head's value.", ge=1)]


def latent_counts(mla: Latent, d_model: int, heads: int, *, bias: bool) -> tuple[Count, Count]:
    """Parameters of (matrices, norms) of one layer's latent attention; `bias`: the output has an offset."""
    query = heads * (mla.nope_size + mla.rope_size)
    first = d_model * query if mla.q_rank is None else mla.q_rank * (d_model + query)
    keys = d_model * (mla.kv_rank + mla.rope_size) + mla.kv_rank * heads * (mla.nope_size + mla.v_size)
    return first + keys + linear_count(heads * mla.v_size, d_model, bias), (mla.q_rank or 0) + mla.kv_rank


def latent_sizes(mla: Latent | None, d_model: int) -> Mapping[str, Size]:
    """Sizes of the dims of latent attention."""
    if mla is None:
        return MappingProxyType({})
    return MappingProxyType({
        "q_rank": mla.q_rank or d_model, "kv_rank": mla.kv_rank, "nope_size": mla.nope_size,
        "rope_size": mla.rope_size, "v_size": mla.v_size, "qk_size": mla.nope_size + mla.rope_size,
        "latent": mla.kv_rank + mla.rope_size, "one": 1})


def latent_states(kind: LayerKind, sparse: Indexer | None) -> Mapping[str, str]:
    """The caches of a layer and their dims."""
    suffix = "" if kind.window is None else ".window"
    found = {CACHE: f"batch ctx{suffix} one latent"}
    return MappingProxyType({**found, INDEX_CACHE: INDEX_STATE} if sparse is not None and kind.indexes else found)


def latent_heads(mla: Latent, sparse: Indexer | None, kind: LayerKind, options: Options, weights: dict[str, str],
                 work: float, *, owner: bool) -> list[Op]:
    """From h to the heads' outputs o[batch,seq,heads,v_size]."""
    indexes = owner and kind.indexes
    if options.packed is None:
        ops = [*_query(mla, weights), *(index_ops(sparse, options, weights) if sparse and indexes else []),
               *(_latents(weights) if owner else []), *_expanded(weights)]
        return [*ops, *core(options, work, q="qr", kv="heads", sizes=("qk_size", "v_size"))]
    if sparse is not None:      # of the cache, the rows that the indexer chose
        kind = kind._replace(window=sparse.top_k)
    down, norms, ups, turned = _stages([*_query(mla, weights), *(_latents(weights) if owner else [])])
    ops = [*down, *fused("latent_norm", norms), *ups]
    if sparse is not None and indexes:
        ops += index_ops(sparse, options, weights)
    absorbed: list[Op] = []
    joins: list[Op] = []
    scores: list[Op] = []
    for part in parts_of(options):
        short = sparse is None or all(each.past + each.new <= sparse.top_k for each in part.step.parts)
        if owner and short and (part.fresh or (sparse is None and not part.decoding)):
            scores += joined(part, _every_head(kind, options, weights, part))
            continue
        *made, join = _absorbed_query(weights, part.name, f"[batch,seq{part.dim},heads,")
        absorbed, joins = absorbed + made, [*joins, join]
        scores += joined(part, _absorbed(kind, options, weights, part))
    return [*ops, *absorbed, *fused("rope", [*turned, *(_cached() if owner else [])]), *joins, *scores]


def _stages(ops: Sequence[Op]) -> tuple[list[Op], list[Op], list[Op], list[Op]]:
    """What makes short vectors of h (in engines one product), their norms, products of these, rotations."""
    down = [op for op in ops if op.kind == "gemm" and op.inputs[0].tensor == "h"]
    norms = [op for op in ops if op.name.endswith("_norm")]
    ups = [op for op in ops if op.kind == "gemm" and op not in down]
    return down, norms, ups, [op for op in ops if op.name.startswith("rope")]


def _cached() -> list[Op]:
    """The latents of the new tokens, appended to the cache."""
    return [point("join_latent", "cn[batch,seq,kv_rank] + kr[batch,seq,rope_size] -> c[batch,seq,one,latent]", 0),
            append("cache_latent", f"c[batch,seq.all,one,latent] -> {CACHE}[batch,ctx,one,latent]")]


def _every_head(kind: LayerKind, options: Options, weights: dict[str, str], part: AttentionBatch) -> list[Op]:
    """Attention of prompts: keys and values of every head, those of a cached past made again from its latents."""
    rows = f"seq.all{part.dim}" if part.fresh else f"ctx{part.dim}"
    source = f"cn[batch,seq{part.dim}," if part.fresh else f"{CACHE}[batch,ctx{part.dim},one,"
    key, value = (f"{each}{part.name}[batch,{rows},heads,{size}]" for each, size in (("k", "qk_size"), ("v", "v_size")))
    query = f"[batch,seq{'' if part.fresh else '.all'}{part.dim},heads,"
    return [*_expanded(weights, part.name, source, f"[batch,{'seq' if part.fresh else 'ctx'}{part.dim},"),
            *packed_scores(kind, options, part, f"qr{query}qk_size]", key, value, f"o{query}v_size]", kv="heads")]


def _absorbed(kind: LayerKind, options: Options, weights: dict[str, str], part: AttentionBatch) -> list[Op]:
    """Attention on latents, the matrices that make keys and values in the query and the output."""
    rows = f"{CACHE}[batch,ctx{'' if kind.window is None else '.window'}{part.dim},one,"
    name, query = part.name, f"[batch,seq.all{part.dim},heads,"
    scores = packed_scores(kind, options, part._replace(fresh=False), f"qa{name}{query}latent]", f"{rows}latent]",
                           f"{rows}kv_rank]", f"ol{name}{query}kv_rank]", kv="one")
    heads = f"[batch,seq{part.dim},heads,"
    value = linear("v_up", f"ol{name}{heads}kv_rank]", "kv_rank,heads,v_size", f"o{heads}v_size]", weights, bias=False)
    return [*scores, value._replace(name=f"v_up{name}")]


def _query(mla: Latent, weights: dict[str, str]) -> list[Op]:
    """Queries, by way of a short vector where there is one; only their last part is rotated."""
    rotated = point("rope_q", f"q{QUERY} -> qr{QUERY}", 3 * mla.rope_size / (mla.nope_size + mla.rope_size),
                    saves="nothing")
    if mla.q_rank is None:
        return [linear("q", f"h{INSIDE}", "d,heads,qk_size", f"q{QUERY}", weights, bias=False), rotated]
    return [linear("q_down", f"h{STREAM}", "d,q_rank", "cq[batch,seq.res,q_rank]", weights, bias=False),
            _norm("q_norm", "cq", "cqn", "q_rank", weights),
            linear("q_up", "cqn[batch,seq,q_rank]", "q_rank,heads,qk_size", f"q{QUERY}", weights, bias=False), rotated]


def _norm(name: str, source: str, result: str, dim: str, weights: dict[str, str]) -> Op:
    weights[f"{name}_scale"] = dim
    return point(name, f"{source}[batch,seq.res,{dim}] + {name}_scale[{dim}] -> {result}[batch,seq.res,{dim}]",
                 NORM["rms"])


def _latents(weights: dict[str, str]) -> list[Op]:
    """What is cached: the vector cn that keys and values are made from, and the one rotated key kr."""
    rope = "[batch,seq.res,rope_size]"
    return [linear("kv_down", f"h{STREAM}", "d,kv_rank", "c_kv[batch,seq.res,kv_rank]", weights, bias=False),
            linear("k_rope", f"h{STREAM}", "d,rope_size", f"k_plain{rope}", weights, bias=False),
            _norm("kv_norm", "c_kv", "cn", "kv_rank", weights),
            point("rope_k", f"k_plain{rope} -> kr{rope}", 3, saves="nothing")]


def _expanded(weights: dict[str, str], name: str = "", source: str = "cn[batch,seq,", rows: str = "[batch,seq,"
              ) -> list[Op]:
    """Keys and values of every head, from latents."""
    made = ((f"k_up{name}", "nope_size", f"kn{name}"), (f"v_up{name}", "v_size", f"v{name}"))
    ops = [linear(each[:4], f"{source}kv_rank]", f"kv_rank,heads,{size}", f"{result}{rows}heads,{size}]", weights,
                  bias=False)._replace(name=each) for each, size, result in made]
    rotated = f"{source}rope_size]".replace("cn", "kr", 1) if source.startswith("cn") else f"{source}rope_size]"
    return [*ops, point(f"join_key{name}", f"kn{name}{rows}heads,nope_size] + {rotated} -> k{name}{rows}heads,qk_size]",
                        0, saves="nothing")]


def _absorbed_query(weights: dict[str, str], name: str, heads: str) -> list[Op]:
    """Queries that meet latents: their unrotated part times the matrix that makes keys, beside the rotated part. In
    engines the product and the rotation write both into one tensor (TensorRT-LLM's fused_q)."""
    return [point(f"split_query{name}", f"q{heads}qk_size] -> qn{name}{heads}nope_size]", 0, saves="nothing"
                  )._replace(view=True),
            linear("k_up", f"qn{name}{heads}nope_size]", "kv_rank,heads,nope_size", f"ql{name}{heads}kv_rank]",
                   weights, bias=False)._replace(name=f"k_up{name}"),
            point(f"join_query{name}", f"ql{name}{heads}kv_rank] + qr{heads}qk_size] -> qa{name}{heads}latent]", 0,
                  saves="nothing")._replace(view=True)]
