"""Decoder-only architectures of Hugging Face, one function per `model_type`; defaults are those of its classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from astrarium.workload.model.base import Model
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.model.hugging_face_keys import Keys

__all__ = ["DECODERS"]


def _common(keys: Keys) -> dict[str, Any]:
    """What the LLaMA line of architectures shares."""
    return {
        "layers": keys.whole("num_hidden_layers"), "d_model": keys.whole("hidden_size"),
        "heads": keys.whole("num_attention_heads"), "kv_heads": keys.maybe("num_key_value_heads"),
        "head_size": keys.maybe("head_dim"), "ffn": keys.whole("intermediate_size"),
        "activation": keys.activation("hidden_act", "silu"), "vocab": keys.whole("vocab_size"),
        "seq": keys.whole("max_position_embeddings", 2048), "tied_embeddings": keys.flag("tie_word_embeddings", False),
    }


def _llama(keys: Keys) -> Model:
    attention = ("qkv", "out") if keys.flag("attention_bias", False) else ()
    mlp = ("mlp",) if keys.flag("mlp_bias", False) else ()
    return Decoder(**_common(keys), biases=(*attention, *mlp))


DECODERS: Mapping[str, Callable[[Keys], Model]] = {
    "llama": _llama,
}
