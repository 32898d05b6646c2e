"""Parameters of a model in closed form: by part, in total, and active (what one token uses)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from astrarium.errors import UnsupportedError
from astrarium.workload.model.base import Model
from astrarium.workload.model.decoder import Decoder, Latent
from astrarium.workload.model.diffusion import Diffusion
from astrarium.workload.model.dlrm import Dlrm
from astrarium.workload.model.encoder import Encoder
from astrarium.workload.model.encoder_decoder import EncoderDecoder
from astrarium.workload.model.mamba import Mamba

__all__ = ["Count", "Parameters", "parameters"]

Count = int | Fraction  # a Fraction only where heads do not divide d_model


@dataclass(frozen=True)
class Parameters:
    """Parameters by part (embedding, positions, attention, mixer, ffn, experts, router, norms, head, ...).

    `fixed_positions` are in the checkpoint, but not trained.
    """

    parts: Mapping[str, Count]
    inactive: Count = 0

    @property
    def total(self) -> Count:
        """All parameters, each counted once (a tied head is the embedding's)."""
        return _plain(sum(self.parts.values()))

    @property
    def trained(self) -> Count:
        """Parameters that have gradients."""
        return _plain(self.total - self.parts.get("fixed_positions", 0))

    @property
    def active(self) -> Count:
        """Parameters that one token (sample) uses: not experts that it does not go to, nor rows that it skips."""
        return _plain(self.total - self.inactive)


def parameters(model: Model) -> Parameters:
    """The parameters of `model`, as its checkpoint holds them. Raises UnsupportedError for other families."""
    count = _FAMILIES.get(type(model))
    if count is None:
        raise UnsupportedError("model", f"nobody counts the parameters of {type(model).__name__}")
    parts, inactive = count(model)
    return Parameters(MappingProxyType({name: _plain(value) for name, value in parts.items() if value}), inactive)


def _plain(value: Count) -> Count:
    return int(value) if value == int(value) else value


def _linear(rows: Count, columns: Count, bias: bool) -> Count:
    return rows * columns + (columns if bias else 0)


def _latent(mla: Latent, d_model: int, heads: int, out_bias: bool) -> tuple[Count, Count]:
    """(matrices, norms) of one layer's latent attention."""
    query = heads * (mla.nope_size + mla.rope_size)
    first = d_model * query if mla.q_rank is None else mla.q_rank * (d_model + query)
    keys = d_model * (mla.kv_rank + mla.rope_size) + mla.kv_rank * heads * (mla.nope_size + mla.v_size)
    return first + keys + _linear(heads * mla.v_size, d_model, out_bias), (mla.q_rank or 0) + mla.kv_rank


def _attention(model: Decoder) -> tuple[Count, Count]:
    """(matrices, norms) of one layer's attention."""
    if model.mla is not None:
        matrices, norms = _latent(model.mla, model.d_model, model.heads, "out" in model.biases)
        more = (0, 0) if model.sparse is None else (_indexer(model), 2 * model.sparse.head_size)
        return matrices + more[0], norms + more[1]
    query, keys = model.heads * model.head, model.groups * model.head
    made = query * (2 if model.gated_heads else 1)
    matrices = _linear(model.d_model, made + 2 * keys, "qkv" in model.biases) + (model.heads if model.sinks else 0)
    every: Mapping[str, Count] = {"head": 2 * model.head, "all": query + keys, "none": 0}
    scales = every[model.qk_norm_scale] if model.qk_norm else 0
    return matrices + _linear(query, model.d_model, "out" in model.biases), scales


def _indexer(model: Decoder) -> Count:
    """Matrices of one layer's indexer."""
    sparse, mla = model.sparse, model.mla
    if sparse is None or mla is None:
        return 0
    return (mla.q_rank or 0) * sparse.heads * sparse.head_size + model.d_model * (sparse.head_size + sparse.heads)


def _delta_net(model: Decoder) -> tuple[Count, Count]:
    """(matrices, norms) of one layer's gated delta net."""
    delta = model.delta
    assert delta is not None
    keys, values = delta.key_heads * delta.key_size, delta.value_heads * delta.value_size
    matrices = model.d_model * (2 * keys + 2 * values + 2 * delta.value_heads) + values * model.d_model
    return matrices + delta.convolution * (2 * keys + values) + 2 * delta.value_heads, delta.value_size


def _ffn(d_model: int, inner: int, *, gated: bool, bias: bool) -> Count:
    return _linear(d_model, inner * (2 if gated else 1), bias) + _linear(inner, d_model, bias)


def _decoder(model: Decoder) -> tuple[dict[str, Count], Count]:
    moe, norm = model.moe, model.d_model * (2 if model.norm == "layer" else 1)
    kinds = [model.layer(index) for index in range(model.layers)]
    routed = sum(kind.moe for kind in kinds)
    mixed = [_delta_net(model) if kind.delta else _attention(model) for kind in kinds]
    ffn = _ffn(model.d_model, model.ffn, gated=model.gated, bias="mlp" in model.biases)
    parts: dict[str, Count] = {
        "embedding": model.vocab * model.d_model,
        "positions": (model.max_positions or 0) * model.d_model if model.positions == "learned" else 0,
        "attention": sum(matrices for matrices, _ in mixed),
        "ffn": (model.layers - routed) * ffn,
        "norms": sum(2 * norm + inner for _, inner in mixed) + norm * (2 if model.embedding_norm else 1),
        "head": _linear(0 if model.tied_embeddings else model.d_model, model.vocab, "head" in model.biases),
    }
    last = kinds[-1]
    module = sum(mixed[-1]) + 2 * norm + 3 * norm + 2 * model.d_model**2 + (0 if last.moe else ffn)
    if moe is None:
        parts["mtp"] = model.mtp * module
        return parts, parts["mtp"]
    expert = _ffn(model.d_model, moe.expert_ffn or model.ffn, gated=model.gated, bias="mlp" in model.biases)
    experts = (moe.experts + moe.shared_experts) * expert
    router = moe.experts * (model.d_model + moe.router_bias) + (model.d_model if moe.shared_gate else 0)
    parts |= {"experts": routed * experts, "router": routed * router,
              "mtp": model.mtp * (module + (experts + router if last.moe else 0))}
    return parts, routed * (moe.experts - moe.top_k) * expert + parts["mtp"]


def _encoder(model: Encoder) -> tuple[dict[str, Count], Count]:
    d, image = model.d_model, model.image
    if image is None:
        embedding: Count = ((model.vocab or 0) + model.token_types) * d
        positions = model.max_positions * d
    else:
        embedding = _linear(image.channels * image.patch**2, d, True) + (d if image.class_token else 0)
        positions = image.tokens * d
    transform = _linear(d, d, True) + 2 * d + (model.vocab or 0)
    return {
        "embedding": embedding, "positions": positions,
        "attention": model.layers * (_linear(d, 3 * d, True) + _linear(d, d, True)),
        "ffn": model.layers * _ffn(d, model.ffn, gated=False, bias=True),
        "norms": (2 * model.layers + 1) * 2 * d,
        "pooler": _linear(d, d, True) if model.pooler else 0,
        "head": (transform if model.masked_lm else 0) + _linear(d, model.classes, True),
    }, 0


def _encoder_decoder(model: EncoderDecoder) -> tuple[dict[str, Count], Count]:
    d, layers = model.d_model, model.encoder_layers + model.decoder_layers
    width = model.heads * model.head
    biases = (3 * width if model.key_bias else 2 * width) + d if model.biases else 0
    sound = model.audio
    front = 0 if sound is None else _linear(3 * sound.mels, d, True) + _linear(3 * d, d, True)
    tables = {"relative": 2 * model.buckets * model.heads, "none": 0, "learned": model.max_positions * d}
    return {
        "embedding": model.vocab * d, "convolutions": front, "positions": tables[model.positions],
        "fixed_positions": model.encoder_seq * d if model.positions == "learned" and sound is not None else 0,
        "attention": (layers + model.decoder_layers) * (4 * d * width + biases),
        "ffn": layers * _ffn(d, model.ffn, gated=model.gated, bias=model.biases),
        "norms": (2 * layers + model.decoder_layers + 2) * d * (2 if model.norm == "layer" else 1),
        "head": 0 if model.tied_embeddings else model.vocab * d,
    }, 0


def _diffusion(model: Diffusion) -> tuple[dict[str, Count], Count]:
    d, patch = model.d_model, model.patch**2
    return {
        "embedding": _linear(patch * model.channels, d, True) + (model.classes + 1 if model.classes else 0) * d,
        "fixed_positions": model.seq * d,
        "time": _linear(model.time_frequencies, d, True) + _linear(d, d, True),
        "attention": model.layers * (_linear(d, 3 * d, True) + _linear(d, d, True)),
        "ffn": model.layers * _ffn(d, model.ffn, gated=False, bias=True),
        "modulation": model.layers * _linear(d, 6 * d, True) + _linear(d, 2 * d, True),
        "head": _linear(d, patch * model.out_channels, True),
    }, 0


def _mamba(model: Mamba) -> tuple[dict[str, Count], Count]:
    shared = 2 * model.groups * model.state
    mixer = model.d_model * (2 * model.inner + shared + model.heads) + model.inner * model.d_model
    convolution = _linear(model.convolution, model.inner + shared, True)
    return {
        "embedding": model.vocab * model.d_model,
        "mixer": model.layers * (mixer + convolution + 3 * model.heads),
        "norms": model.layers * (model.d_model + model.inner) + model.d_model,
        "head": 0 if model.tied_embeddings else model.vocab * model.d_model,
    }, 0


def _mlp(first: int, widths: tuple[int, ...]) -> Count:
    return sum(_linear(rows, columns, True) for rows, columns in zip((first, *widths), widths, strict=False))


def _dlrm(model: Dlrm) -> tuple[dict[str, Count], Count]:
    width = (len(model.tables) + 1) * model.embedding
    return {
        "embedding": sum(model.tables) * model.embedding,
        "bottom": _mlp(model.dense, tuple(model.bottom)),
        "cross": model.cross_layers * (2 * width * model.cross_rank + width),
        "top": _mlp(model.interacted, tuple(model.top)),
    }, (sum(model.tables) - model.rows) * model.embedding


_FAMILIES: Mapping[type[Model], Callable[[Any], tuple[dict[str, Count], Count]]] = MappingProxyType({
    Decoder: _decoder, Encoder: _encoder, EncoderDecoder: _encoder_decoder, Diffusion: _diffusion, Mamba: _mamba,
    Dlrm: _dlrm,
})
