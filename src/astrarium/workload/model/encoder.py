"""Encoders: BERT over tokens and ViT over patches of an image. Every token sees every other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from astrarium.config import Config, Knob, Problem
from astrarium.workload.model.base import Model

__all__ = ["Encoder", "Image"]


def _patches(image: Image) -> Iterator[Problem]:
    if image.size % image.patch:
        yield Problem("patch", f"{image.patch} does not divide an image of {image.size}", f"a divisor of {image.size}")


class Image(Config, frozen=True, kw_only=True):
    """A square image, cut into square patches of which each is a token."""

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_patches,)
    size: Annotated[int, Knob("Pixels of a side.", ge=1)]
    patch: Annotated[int, Knob("Pixels of a side of a patch.", ge=1)]
    channels: Annotated[int, Knob("Colours.", ge=1)] = 3
    class_token: Annotated[bool, Knob("A learned token in front, whose output stands for the image.")] = True

    @property
    def patches(self) -> int:
        """Patches of one image."""
        return (self.size // self.patch) ** 2

    @property
    def tokens(self) -> int:
        """Patches, and the class token if any."""
        return self.patches + self.class_token


def _input(model: Encoder) -> Iterator[Problem]:
    if (model.image is None) == (model.vocab is None):
        yield Problem("image", "or vocab must be given, not both", "vocab for text, image for patches")
    if model.image is None and model.text_seq is None:
        yield Problem("text_seq", "is missing", "tokens of one sample")
    if model.image is not None:
        text_only = (("text_seq", model.text_seq), ("token_types", model.token_types),
                     ("max_positions", model.max_positions), ("masked_lm", model.masked_lm))
        for name, value in text_only:
            if value:
                yield Problem(name, "means nothing for images", f"no {name}")


class Encoder(Model, frozen=True, kw_only=True):
    """An encoder over tokens (`vocab`, `text_seq`) or over an image (`image`). The defaults are ViT's."""

    tag: ClassVar[str] = "encoder"
    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_input,)
    layers: Annotated[int, Knob("Layers.", ge=1, lt=100_001)]
    d_model: Annotated[int, Knob("Length of a token's vector.", ge=1)]
    heads: Annotated[int, Knob("Heads of a layer.", ge=1, lt=65_537)]
    ffn: Annotated[int, Knob("Inner size of the FFN.", ge=1)]
    activation: Annotated[Literal["silu", "gelu", "relu"], Knob("Activation of the FFN.")] = "gelu"
    image: Annotated[Image | None, Knob("The image; left out: tokens.")] = None
    vocab: Annotated[int | None, Knob("Tokens of the vocabulary; left out: an image.", ge=1)] = None
    text_seq: Annotated[int | None, Knob("Tokens of one sample of text; left out: an image.", ge=1)] = None
    max_positions: Annotated[int, Knob("Length of the learned position table of text; 0: none. Images: one per token.",
                                       ge=0)] = 0
    token_types: Annotated[int, Knob("Learned token types (BERT: 2).", ge=0)] = 0
    pre_norm: Annotated[bool, Knob("Norms in front of attention and FFN and one at the end (ViT), or behind each and "
                                   "one behind the embedding (BERT).")] = True
    pooler: Annotated[bool, Knob("A d_model x d_model layer on the first token's output.")] = False
    classes: Annotated[int, Knob("Outputs of the classifier on the first token's output; 0: none.", ge=0)] = 0
    masked_lm: Annotated[bool, Knob("BERT's head: transform, norm, the embedding transposed.")] = False

    @property
    def head(self) -> Fraction:
        """Length of a head's vectors."""
        return Fraction(self.d_model, self.heads)

    @property
    def seq(self) -> int:
        """Tokens of one sample."""
        return self.image.tokens if self.image is not None else self.text_seq or 0
