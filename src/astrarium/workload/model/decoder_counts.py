"""Parameters of a decoder in closed form."""

from __future__ import annotations

from collections.abc import Mapping

from astrarium.workload.model.base import Count, Counts
from astrarium.workload.model.cached import LayerKind
from astrarium.workload.model.compressed import compressed_counts
from astrarium.workload.model.decoder_shape import Shape
from astrarium.workload.model.delta_net import delta_counts
from astrarium.workload.model.experts import Experts
from astrarium.workload.model.head_sizes import sizes_of
from astrarium.workload.model.indexer import block_counts, index_counts
from astrarium.workload.model.latent import latent_counts
from astrarium.workload.model.mamba_mixer import mamba_counts
from astrarium.workload.model.parameters import ffn_count, linear_count
from astrarium.workload.model.streams import stream_counts

__all__ = ["decoder_counts"]


def decoder_counts(model: Shape) -> Counts:
    """(parameters by part, those of them that a token does not use)."""
    kinds = [model.layer(index) for index in range(model.layers)]
    norm = model.d_model * (2 if model.norm == "layer" else 1)
    mixed = {kind: _mixer_counts(model, kind) for kind in {*kinds}}
    parts: dict[str, Count] = {
        "embedding": model.vocab * model.d_model,
        "positions": (model.max_positions or 0) * model.d_model if model.positions == "learned" else 0,
        "attention": sum(mixed[kind][0] for kind in kinds),
        "ffn": sum(_ffn_counts(model, kind) for kind in kinds),
        "norms": sum(norm * _norms(model, kind) + mixed[kind][1] for kind in kinds) + norm * (
            2 if model.embedding_norm else 1),
        "head": linear_count(0 if model.tied_embeddings else model.d_model, model.vocab, "head" in model.biases)}
    part, head = stream_counts(model.streams, model.d_model)
    parts["streams"] = sum(kind.mixes + kind.feeds for kind in kinds) * part + head
    experts, router, unused = _expert_counts(model, model.moe) if model.moe else (0, 0, 0)
    routed = sum(kind.moe for kind in kinds)
    parts |= {"experts": routed * experts, "router": routed * router}
    last = kinds[-1]
    module = sum(mixed[last]) + norm * (_norms(model, last) + 3) + 2 * model.d_model**2 + _ffn_counts(model, last)
    parts["mtp"] = model.mtp * (module + (experts + router if last.moe else 0))
    return parts, routed * unused + parts["mtp"]


def _norms(model: Shape, kind: LayerKind) -> int:
    """Norms over d_model of one layer."""
    each = 2 if model.post_norms else 1
    beside = 3 if kind.moe and model.moe and model.moe.beside_ffn else 0
    return each * (kind.mixes + kind.feeds) + beside


def _ffn_counts(model: Shape, kind: LayerKind) -> Count:
    """Parameters of one layer's FFN; 0 where it has experts in its place."""
    if not kind.feeds or (kind.moe and not (model.moe and model.moe.beside_ffn)):
        return 0
    return ffn_count(model.d_model, kind.inner or model.ffn, gated=model.gated, bias="mlp" in model.biases)


def _expert_counts(model: Shape, moe: Experts) -> tuple[Count, Count, Count]:
    """Parameters of (all experts, the router) of one layer, and those of experts that a token does not go to."""
    inner, bias = moe.expert_ffn or model.ffn, "mlp" in model.biases
    expert = ffn_count(moe.latent or model.d_model, inner, gated=model.gated, bias=bias)
    shared = ffn_count(model.d_model, moe.shared_ffn or inner, gated=model.gated, bias=bias)
    latent = 2 * model.d_model * (moe.latent or 0)
    router = moe.experts * (model.d_model + moe.router_bias) + (model.d_model if moe.shared_gate else 0)
    beside = model.d_model + moe.experts if moe.beside_ffn else 0       # scales of the router's input and of experts
    return (moe.experts * expert + moe.shared_experts * shared + latent, router + beside,
            (moe.experts - moe.top_k) * expert)


def _mixer_counts(model: Shape, kind: LayerKind) -> tuple[Count, Count]:
    """Parameters of (matrices, norms) of one layer's attention, or of its replacement."""
    if not kind.mixes:
        return 0, 0
    if kind.delta and model.delta:
        return delta_counts(model.delta, model.d_model)
    if kind.mamba and model.mamba:
        return mamba_counts(model.mamba, model.d_model)
    if model.compressed is not None:
        return compressed_counts(model.compressed, kind.ratio or 0, model.d_model, model.heads, int(model.head))
    if model.mla is not None:
        matrices, norms = latent_counts(model.mla, model.d_model, model.heads, bias="out" in model.biases)
        if model.sparse is None or not kind.sparse or not kind.indexes:
            return matrices, norms
        indexer = index_counts(model.sparse, model.d_model, model.mla.q_rank or 0)
        return matrices + indexer[0], norms + indexer[1]
    sizes = sizes_of(model, kind)
    query, keys, values = model.heads * sizes.key, sizes.kv * sizes.key, sizes.kv * sizes.value
    made = query * (2 if model.gated_heads else 1) + keys + (values if sizes.projected else 0)
    matrices = linear_count(model.d_model, made, "qkv" in model.biases) + (model.heads if sizes.sinks else 0)
    every: Mapping[str, Count] = {"head": 2 * sizes.key, "all": query + keys, "none": 0}
    scales = every[model.qk_norm_scale] if model.qk_norm else 0
    out = linear_count(model.heads * sizes.value, model.d_model, "out" in model.biases)
    more = block_counts(model.sparse, model.d_model) if model.sparse is not None and kind.sparse else (0, 0)
    return matrices + out + more[0], scales + more[1]
