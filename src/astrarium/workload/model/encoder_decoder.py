"""Encoder-decoder transformers: T5 (text in, relative positions) and Whisper (sound in, learned positions).

The encoder's output travels with the decoder's stream through all its layers, forward and, as a gradient, backward.
The last layer of the encoder ends it and looks up the decoder's tokens: what then goes on is the decoder's stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from astrarium.config import Config, Knob, Problem
from astrarium.errors import InputError, UnsupportedError
from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, add, gather, gemm, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.graph.options import usual_axes
from astrarium.workload.model.base import Counts, Model
from astrarium.workload.model.hugging_face_keys import Fields, Keys, Readers
from astrarium.workload.model.parameters import ffn_count, linear_count
from astrarium.workload.model.parts import (
    ACTIVATION,
    INSIDE,
    LOSS_WIDTHS,
    STREAM,
    attended,
    block,
    causal,
    dropped,
    ffn,
    linear,
    loss,
    mirrored,
    norm,
)

__all__ = ["Audio", "EncoderDecoder"]


MEMORY = f"memory{STREAM}"
TARGET, TARGET_INSIDE = "[batch,target.res,d]", "[batch,target,d]"
OFFSETS = "offsets"     # of scores, by distance: a weight of each stack's first layer, read by the others


class Audio(Config, frozen=True, kw_only=True):
    """Sound as frames of mel bands, taken in by two convolutions of width 3, the second with stride 2 (Whisper)."""

    mels: Annotated[int, Knob("Mel bands of a frame.", ge=1)]


def _positions(model: EncoderDecoder) -> Iterator[Problem]:
    if model.positions == "learned" and not model.max_positions:
        yield Problem("max_positions", "is missing", "the length of the decoder's learned position table")
    if model.positions == "relative" and not model.buckets:
        yield Problem("buckets", "is missing", "the relative distances that are told apart (T5: 32)")
    if not model.biases and not model.key_bias:
        yield Problem("key_bias", "has no effect without biases", "no key_bias")


class EncoderDecoder(Model, frozen=True, kw_only=True):
    """An encoder, and a decoder that also attends to the encoder's output. The defaults are T5's."""

    tag: ClassVar[str] = "encoder_decoder"
    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_positions,)
    encoder_layers: Annotated[int, Knob("Layers of the encoder.", ge=1, lt=100_001)]
    decoder_layers: Annotated[int, Knob("Layers of the decoder.", ge=1, lt=100_001)]
    d_model: Annotated[int, Knob("Length of a token's vector.", ge=1, lt=2**20)]
    heads: Annotated[int, Knob("Heads of every attention.", ge=1, lt=65_537)]
    head_size: Annotated[int | None, Knob("Length of a head's vectors; left out: d_model / heads.", ge=1,
                                          lt=2**20)] = None
    ffn: Annotated[int, Knob("Inner size of the FFN.", ge=1, lt=2**24)]
    gated: Annotated[bool, Knob("The FFN has a gate: three matrices instead of two.")] = False
    activation: Annotated[Literal["silu", "gelu", "relu"], Knob("Activation of the FFN.")] = "relu"
    vocab: Annotated[int, Knob("Tokens of the vocabulary, with padding.", ge=1)]
    tied_embeddings: Annotated[bool, Knob("The head is the embedding, transposed.")] = True
    audio: Annotated[Audio | None, Knob("What the encoder takes; left out: tokens of the vocabulary.")] = None
    encoder_seq: Annotated[int, Knob("Tokens of one sample in the encoder.", ge=1)] = 512
    decoder_seq: Annotated[int, Knob("Tokens of one sample in the decoder.", ge=1)] = 512
    positions: Annotated[Literal["relative", "learned", "none"],
                         Knob("A learned offset per distance and head in each stack (T5), or a learned table in the "
                              "decoder and a fixed one in an encoder of sound (Whisper).")] = "relative"
    buckets: Annotated[int, Knob("Relative distances that are told apart.", ge=0)] = 32
    max_positions: Annotated[int, Knob("Length of the decoder's learned position table.", ge=0)] = 0
    norm: Annotated[Literal["rms", "layer"], Knob("RMS norm (scale), or layer norm (scale and offset).")] = "rms"
    biases: Annotated[bool, Knob("Linear layers have an offset.")] = False
    key_bias: Annotated[bool, Knob("The keys too (Whisper: not).")] = True

    @property
    def seq(self) -> int:
        """Tokens of one sample in the encoder."""
        return self.encoder_seq

    @property
    def layers(self) -> int:
        """Layers of both."""
        return self.encoder_layers + self.decoder_layers

    @property
    def head(self) -> Fraction:
        """Length of a head's vectors."""
        return Fraction(self.d_model, self.heads) if self.head_size is None else Fraction(self.head_size)

    def stack(self, options: Options) -> Stack:
        """The blocks; options.seq is the encoder's. Raises InputError for another length of sound."""
        if self.audio is not None and options.seq != self.encoder_seq:
            raise InputError("workload.seq", f"{options.seq} is not the encoder's length",
                             expected=f"{self.encoder_seq}, or nothing")
        front, back = self.encoder_layers, self.decoder_layers
        kinds = [("encoder", index == 0, index == front - 1) for index in range(front)]
        kinds += [("decoder", index == 0, index == back - 1) for index in range(back)]
        distinct = list(dict.fromkeys(kinds))
        layers = tuple(_encoder_layer(self, options, first=first, last=last) if side == "encoder" else
                       _decoder_layer(self, options, first=first, last=last) for side, first, last in distinct)
        source = _tokens(self, options) if self.audio is None else _sound(self, options)
        blocks = (source, *layers, _head(self, options))
        sizes: dict[str, Size] = {
            "d": self.d_model, "heads": self.heads, "head": self.head, "ffn": self.ffn, "vocab": self.vocab,
            "target": self.decoder_seq, "buckets": self.buckets or 1, "positions": self.max_positions or 1,
            "frames": 2 * options.seq, "bands": 3 * self.audio.mels if self.audio else 1, "three": 3 * self.d_model}
        axes = {**mirrored(usual_axes(options), "target"), "frames": ("sp", "cp")}
        return Stack(blocks, (0,), tuple(1 + distinct.index(kind) for kind in kinds), (len(blocks) - 1,), sizes, axes,
                     tied=frozenset({"embedding"} if self.tied_embeddings and self.audio is None else ()))

    def counts(self) -> Counts:
        """Parameters by part; all are used by every token."""
        d, layers = self.d_model, self.encoder_layers + self.decoder_layers
        width = self.heads * self.head
        biases = (3 * width if self.key_bias else 2 * width) + d if self.biases else 0
        sound = self.audio
        front = 0 if sound is None else linear_count(3 * sound.mels, d, True) + linear_count(3 * d, d, True)
        tables = {"relative": 2 * self.buckets * self.heads, "none": 0, "learned": self.max_positions * d}
        return {
            "embedding": self.vocab * d, "convolutions": front, "positions": tables[self.positions],
            "fixed_positions": self.encoder_seq * d if self.positions == "learned" and sound is not None else 0,
            "attention": (layers + self.decoder_layers) * (4 * d * width + biases),
            "ffn": layers * ffn_count(d, self.ffn, gated=self.gated, bias=self.biases),
            "norms": (2 * layers + self.decoder_layers + 2) * d * (2 if self.norm == "layer" else 1),
            "head": 0 if self.tied_embeddings else self.vocab * d,
        }, 0

    @staticmethod
    def readers() -> Readers:
        """Map `model_type` of a Hugging Face config.json to a reader."""
        return {"t5": _t5, "whisper": _whisper}


def _tokens(model: EncoderDecoder, options: Options) -> Block:
    del model
    ops = [gather("tokens", f"index[batch,seq] * embedding[vocab,d] -> e{INSIDE}")]
    last = dropped(options, ops, "e", "dropout0")
    return block("embedding", ops, {"embedding": "vocab d"}, start="", end=f"{last}{STREAM}", widths={"index": "index"})


def _sound(model: EncoderDecoder, options: Options) -> Block:
    """Two convolutions of width 3 as products over three neighbours; the second halves the length."""
    weights: dict[str, str] = {}
    flops = ACTIVATION[model.activation]
    ops = [linear("convolution1", "sound[batch,frames,bands]", "bands,d", "c1[batch,frames,d]", weights, bias=True),
           point("activation1", "c1[batch,frames,d] -> c2[batch,frames,d]", flops),
           point("neighbours", "c2[batch,frames,d] -> c3[batch,seq,three]", 0, saves="nothing"),
           linear("convolution2", "c3[batch,seq,three]", "three,d", f"c4{INSIDE}", weights, bias=True),
           point("activation2", f"c4{INSIDE} -> c5{INSIDE}", flops),
           point("place", f"c5{STREAM} -> s{STREAM}", 1, saves="nothing")]
    last = dropped(options, ops, "s", "dropout0")
    return block("embedding", ops, weights, start="", end=f"{last}{STREAM}")


def _offsets(model: EncoderDecoder, weights: dict[str, str], *, first: bool) -> tuple[str, dict[str, str]]:
    """(table of score offsets, states that hold it) of one layer."""
    if model.positions != "relative":
        return "", {}
    if not first:
        return OFFSETS, {OFFSETS: "buckets heads"}
    weights[OFFSETS] = "buckets heads"
    return OFFSETS, {}


def _ffn(model: EncoderDecoder, weights: dict[str, str], rows: str) -> list[Op]:
    return ffn(weights, gated=model.gated, activation=model.activation, bias=model.biases, source=f"g[batch,{rows},d]",
               result=f"f[batch,{rows},d]", inner=f"[batch,{rows},ffn]")


def _encoder_layer(model: EncoderDecoder, options: Options, *, first: bool, last: bool) -> Block:
    weights: dict[str, str] = {}
    table, states = _offsets(model, weights, first=first)
    ops = [norm(model.norm, "norm1", "x", "h", weights)]
    ops += attended(options, weights, "h", "a", bias=model.biases, key_bias=model.key_bias, offsets=table)
    kept = dropped(options, ops, "a", "dropout1")
    ops += [add("residual1", f"x{STREAM} + {kept}{STREAM} -> r{STREAM}"),
            norm(model.norm, "norm2", "r", "g", weights), *_ffn(model, weights, "seq")]
    kept = dropped(options, ops, "f", "dropout2")
    ops.append(add("residual2", f"r{STREAM} + {kept}{STREAM} -> y{STREAM}"))
    if not last:
        return block("first_encoder_layer" if first else "encoder_layer", ops, weights, states=states)
    ops.append(norm(model.norm, "encoder_norm", "y", "memory", weights))
    bridge, end = _targets(model, options, weights, states)
    return block("last_encoder_layer", ops + bridge, weights, states=states, end=end, memory=MEMORY, gives=True,
                 widths={"target_index": "index", "place_index": "index"})


def _targets(model: EncoderDecoder, options: Options, weights: dict[str, str],
             states: dict[str, str]) -> tuple[list[Op], str]:
    """(operators, result) of the decoder's embedding. If the table comes first or is the head's too, it is only
    read here."""
    own = model.audio is not None and not model.tied_embeddings
    (weights if own else states)["embedding"] = "vocab d"
    ops = [gather("target_tokens", f"target_index[batch,target] * embedding[vocab,d] -> te{TARGET_INSIDE}")]
    last = "te"
    if model.positions == "learned":
        weights["position"] = "positions d"
        ops.append(gather("place", f"place_index[batch,target.res] * position[positions,d] -> tp{TARGET}"))
        ops.append(add("target_sum", f"te{TARGET} + tp{TARGET} -> ts{TARGET}"))
        last = "ts"
    last = dropped(options, ops, last, "dropout3", TARGET)
    return ops, f"{last}{TARGET}"


def _decoder_layer(model: EncoderDecoder, options: Options, *, first: bool, last: bool) -> Block:
    """Attention to what came before, attention to the encoder's output, FFN."""
    weights: dict[str, str] = {}
    table, states = _offsets(model, weights, first=first)
    ops = [norm(model.norm, "norm1", "x", "h", weights, TARGET)]
    ops += attended(options, weights, "h", "a", rows="target", keys="target", bias=model.biases,
                    key_bias=model.key_bias, work=causal(options, model.decoder_seq), offsets=table)
    kept = dropped(options, ops, "a", "dropout1", TARGET)
    ops += [add("residual1", f"x{TARGET} + {kept}{TARGET} -> r{TARGET}"),
            norm(model.norm, "norm2", "r", "c", weights, TARGET)]
    ops += attended(options, weights, "c", "ca", prefix="cross_", rows="target", memory="memory", bias=model.biases,
                    key_bias=model.key_bias)
    kept = dropped(options, ops, "ca", "dropout2", TARGET)
    ops += [add("residual2", f"r{TARGET} + {kept}{TARGET} -> r2{TARGET}"),
            norm(model.norm, "norm3", "r2", "g", weights, TARGET), *_ffn(model, weights, "target")]
    kept = dropped(options, ops, "f", "dropout3", TARGET)
    ops.append(add("residual3", f"r2{TARGET} + {kept}{TARGET} -> y{TARGET}"))
    return block(f"{'first_' if first else 'last_' if last else ''}decoder_layer", ops, weights, states=states,
                 start=f"x{TARGET}", end=f"y{TARGET}", memory=MEMORY, takes=True, gives=not last)


def _head(model: EncoderDecoder, options: Options) -> Block:
    weights: dict[str, str] = {}
    logits = "logits[batch,target,vocab]"
    ops = [norm(model.norm, "final_norm", "x", "h", weights, TARGET)]
    if model.tied_embeddings:
        weights["embedding"] = "vocab d"
        ops.append(gemm("logits", f"h{TARGET_INSIDE} * embedding[vocab,d] -> {logits}"))
    else:
        ops.append(linear("logits", f"h{TARGET_INSIDE}", "d,vocab", logits, weights, bias=False))
    return block("head", ops + loss(options, logits, "[batch,target]"), weights, start=f"x{TARGET}", end="",
                 widths=LOSS_WIDTHS)


def _t5(keys: Keys) -> Fields:
    stated = keys.text("feed_forward_proj", "relu")
    gate, _, name = stated.rpartition("-")
    if gate not in ("", "gated") or name not in ("relu", "gelu", "silu"):
        raise UnsupportedError(f"{keys.name}: feed_forward_proj", f"{stated[:60]!r} has no model here",
                               expected="relu, gated-gelu or gated-silu")
    activation: Any = name
    layers, seq = keys.whole("num_layers"), keys.whole("n_positions", 512)
    keys.notes.append(f"samples have {seq:,} tokens on both sides, which is n_positions (model.encoder_seq and "
                      "decoder_seq)")
    return {"encoder_layers": layers, "decoder_layers": keys.whole("num_decoder_layers", layers),
            "d_model": keys.whole("d_model"), "heads": keys.whole("num_heads"), "head_size": keys.whole("d_kv"),
            "ffn": keys.whole("d_ff"), "gated": gate == "gated", "activation": activation,
            "vocab": keys.whole("vocab_size"), "tied_embeddings": keys.flag("tie_word_embeddings", True),
            "encoder_seq": seq, "decoder_seq": seq, "buckets": keys.whole("relative_attention_num_buckets", 32)}


def _whisper(keys: Keys) -> Fields:
    heads, ffn = keys.whole("encoder_attention_heads"), keys.whole("encoder_ffn_dim")
    keys.only("decoder_attention_heads", heads)
    keys.only("decoder_ffn_dim", ffn)
    positions = keys.whole("max_target_positions", 448)
    keys.notes.append(f"samples have {positions:,} tokens of text, which is how far positions reach "
                      "(model.decoder_seq)")
    return {"encoder_layers": keys.whole("encoder_layers"), "decoder_layers": keys.whole("decoder_layers"),
            "d_model": keys.whole("d_model"), "heads": heads, "ffn": ffn,
            "activation": keys.activation("activation_function", "gelu"), "vocab": keys.whole("vocab_size"),
            "tied_embeddings": keys.flag("tie_word_embeddings", True), "audio": Audio(mels=keys.whole("num_mel_bins")),
            "encoder_seq": keys.whole("max_source_positions", 1500), "decoder_seq": positions, "positions": "learned",
            "buckets": 0, "max_positions": positions, "norm": "layer", "biases": True, "key_bias": False}
