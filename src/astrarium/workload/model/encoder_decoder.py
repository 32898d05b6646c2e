"""Encoder-decoder transformers: T5 (text in, relative positions) and Whisper (sound in, learned positions)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from astrarium.config import Config, Knob, Problem
from astrarium.workload.model.base import Model

__all__ = ["Audio", "EncoderDecoder"]


class Audio(Config, frozen=True, kw_only=True):
    """Sound as frames of mel bands, taken in by two convolutions of width 3, the second with stride 2 (Whisper)."""

    mels: Annotated[int, Knob("Mel bands of a frame.", ge=1)]


def _positions(model: EncoderDecoder) -> Iterator[Problem]:
    if model.positions == "learned" and not model.max_positions:
        yield Problem("max_positions", "is missing", "the length of the decoder's learned position table")
    if model.positions == "relative" and not model.buckets:
        yield Problem("buckets", "is missing", "the relative distances that are told apart (T5: 32)")
    if not model.biases and not model.key_bias:
        yield Problem("key_bias", "means nothing without biases", "no key_bias")


class EncoderDecoder(Model, frozen=True, kw_only=True):
    """An encoder, and a decoder that also attends to the encoder's output. The defaults are T5's."""

    tag: ClassVar[str] = "encoder_decoder"
    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_positions,)
    encoder_layers: Annotated[int, Knob("Layers of the encoder.", ge=1, lt=100_001)]
    decoder_layers: Annotated[int, Knob("Layers of the decoder.", ge=1, lt=100_001)]
    d_model: Annotated[int, Knob("Length of a token's vector.", ge=1)]
    heads: Annotated[int, Knob("Heads of every attention.", ge=1, lt=65_537)]
    head_size: Annotated[int | None, Knob("Length of a head's vectors; left out: d_model / heads.", ge=1)] = None
    ffn: Annotated[int, Knob("Inner size of the FFN.", ge=1)]
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
