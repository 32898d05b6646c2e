"""Encoders and encoder-decoders of Hugging Face, one function per `model_type`; defaults are those of its classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from astrarium.config.coerce import shown
from astrarium.errors import InputError, UnsupportedError, nearest
from astrarium.workload.model.base import Model
from astrarium.workload.model.encoder import Encoder, Image
from astrarium.workload.model.encoder_decoder import Audio, EncoderDecoder
from astrarium.workload.model.hugging_face_keys import Keys

__all__ = ["OTHERS"]


def _architecture(keys: Keys, *known: str) -> str:
    """The first of `architectures`; where there is none, the first of `known`."""
    named = keys.plain.get("architectures")
    if named is None:
        return known[0]
    if not isinstance(named, list) or not named or not isinstance(named[0], str):
        raise InputError(f"{keys.name}: architectures", f"{shown(named)} is impossible", expected="a list of one name")
    found: str = named[0]
    if found not in known:
        raise UnsupportedError(f"{keys.name}: architectures[0]", f"{found[:60]!r} has no model here",
                               expected="one of " + ", ".join(known), did_you_mean=nearest(found, known))
    return found


def _labels(keys: Keys) -> int:
    labels = keys.plain.get("id2label")
    return len(labels) if isinstance(labels, Mapping) else keys.whole("num_labels", 2)


def _trunk(keys: Keys) -> dict[str, Any]:
    return {"layers": keys.whole("num_hidden_layers"), "d_model": keys.whole("hidden_size"),
            "heads": keys.whole("num_attention_heads"), "ffn": keys.whole("intermediate_size"),
            "activation": keys.activation("hidden_act", "gelu")}


def _bert(keys: Keys) -> Model:
    kind = _architecture(keys, "BertModel", "BertForPreTraining", "BertForMaskedLM", "BertForSequenceClassification")
    keys.only("position_embedding_type", "absolute")
    keys.only("is_decoder", False)
    positions = keys.whole("max_position_embeddings")
    keys.notes.append(f"samples have {positions:,} tokens, which is how far positions reach (model.text_seq)")
    classes = {"BertForPreTraining": 2, "BertForSequenceClassification": _labels(keys)}.get(kind, 0)
    return Encoder(**_trunk(keys), vocab=keys.whole("vocab_size"), text_seq=positions, max_positions=positions,
                   token_types=keys.whole("type_vocab_size", 2), pre_norm=False, pooler=kind != "BertForMaskedLM",
                   classes=classes, masked_lm=kind in ("BertForPreTraining", "BertForMaskedLM"))


def _vit(keys: Keys) -> Model:
    kind = _architecture(keys, "ViTModel", "ViTForImageClassification")
    keys.only("qkv_bias", True)
    image = Image(size=keys.whole("image_size"), patch=keys.whole("patch_size"), channels=keys.whole("num_channels", 3))
    return Encoder(**_trunk(keys), image=image, pooler=kind == "ViTModel",
                   classes=_labels(keys) if kind == "ViTForImageClassification" else 0)


def _t5(keys: Keys) -> Model:
    stated = keys.text("feed_forward_proj", "relu")
    gate, _, name = stated.rpartition("-")
    if gate not in ("", "gated") or name not in ("relu", "gelu", "silu"):
        raise UnsupportedError(f"{keys.name}: feed_forward_proj", f"{stated[:60]!r} has no model here",
                               expected="relu, gated-gelu or gated-silu")
    activation: Any = name
    layers, seq = keys.whole("num_layers"), keys.whole("n_positions", 512)
    keys.notes.append(f"samples have {seq:,} tokens on both sides, which is n_positions (model.encoder_seq and "
                      "decoder_seq)")
    return EncoderDecoder(
        encoder_layers=layers, decoder_layers=keys.whole("num_decoder_layers", layers), d_model=keys.whole("d_model"),
        heads=keys.whole("num_heads"), head_size=keys.whole("d_kv"), ffn=keys.whole("d_ff"), gated=gate == "gated",
        activation=activation, vocab=keys.whole("vocab_size"), tied_embeddings=keys.flag("tie_word_embeddings", True),
        encoder_seq=seq, decoder_seq=seq, buckets=keys.whole("relative_attention_num_buckets", 32))


def _whisper(keys: Keys) -> Model:
    heads, ffn = keys.whole("encoder_attention_heads"), keys.whole("encoder_ffn_dim")
    keys.only("decoder_attention_heads", heads)
    keys.only("decoder_ffn_dim", ffn)
    positions = keys.whole("max_target_positions", 448)
    keys.notes.append(f"samples have {positions:,} tokens of text, which is how far positions reach "
                      "(model.decoder_seq)")
    return EncoderDecoder(
        encoder_layers=keys.whole("encoder_layers"), decoder_layers=keys.whole("decoder_layers"),
        d_model=keys.whole("d_model"), heads=heads, ffn=ffn, activation=keys.activation("activation_function", "gelu"),
        vocab=keys.whole("vocab_size"), tied_embeddings=keys.flag("tie_word_embeddings", True),
        audio=Audio(mels=keys.whole("num_mel_bins")), encoder_seq=keys.whole("max_source_positions", 1500),
        decoder_seq=positions, positions="learned", buckets=0, max_positions=positions, norm="layer", biases=True,
        key_bias=False)


OTHERS: Mapping[str, Callable[[Keys], Model]] = MappingProxyType({
    "bert": _bert, "vit": _vit, "t5": _t5, "whisper": _whisper,
})
