"""Encoders: BERT over tokens and ViT over patches of an image. Every token sees every other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from astrarium.config import Config, Knob, Problem
from astrarium.config.coerce import shown
from astrarium.errors import InputError, UnsupportedError, nearest
from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, add, gather, gemm, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.base import Count, Counts, Model
from astrarium.workload.model.hugging_face_keys import Fields, Keys, Readers
from astrarium.workload.model.parameters import ffn_count, linear_count
from astrarium.workload.model.parts import (
    ACTIVATION,
    INSIDE,
    LOSS_WIDTHS,
    STREAM,
    attended,
    block,
    dropped,
    ffn,
    linear,
    loss,
    norm,
)

__all__ = ["Encoder", "Image"]


FIRST = "[batch,d]"


def _whole_patches(image: Image) -> Iterator[Problem]:
    if image.size % image.patch:
        yield Problem("patch", f"{image.patch} does not divide an image of {image.size}", f"a divisor of {image.size}")


class Image(Config, frozen=True, kw_only=True):
    """A square image, cut into square patches of which each is a token."""

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_whole_patches,)
    size: Annotated[int, Knob("Pixels of a side.", ge=1)]
    patch: Annotated[int, Knob("Pixels of a side of a patch.", ge=1)]
    channels: Annotated[int, Knob("Colours.", ge=1)] = 3
    class_token: Annotated[bool, Knob("A learned token in front; its output represents the image.")] = True

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
                yield Problem(name, "has no effect for images", f"no {name}")


class Encoder(Model, frozen=True, kw_only=True):
    """An encoder over tokens (`vocab`, `text_seq`) or over an image (`image`). The defaults are ViT's."""

    tag: ClassVar[str] = "encoder"
    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_input,)
    layers: Annotated[int, Knob("Layers.", ge=1, lt=100_001)]
    d_model: Annotated[int, Knob("Length of a token's vector.", ge=1, lt=2**20)]
    heads: Annotated[int, Knob("Heads of a layer.", ge=1, lt=65_537)]
    ffn: Annotated[int, Knob("Inner size of the FFN.", ge=1, lt=2**24)]
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

    def stack(self, options: Options) -> Stack:
        """The blocks. Raises InputError where the run asks for another length than an image's patches."""
        if self.image is not None and options.seq != self.seq:
            raise InputError("workload.seq", f"{options.seq} is not what an image has",
                             expected=f"{self.seq} (patches and class token), or nothing")
        image = self.image
        sizes: dict[str, Size] = {"d": self.d_model, "heads": self.heads, "head": self.head, "ffn": self.ffn,
                                  "vocab": self.vocab or 1, "positions": self.max_positions or 1,
                                  "types": self.token_types or 1, "classes": self.classes or 1, "d_out": self.d_model}
        if image is not None:
            sizes |= {"patches": image.patches, "pixels": image.channels * image.patch**2}
        start = _tokens(self, options) if image is None else _patches(self, options)
        axes = {"patches": ("sp", "cp")}
        return Stack((start, _layer(self, options), _heads(self, options)), (0,), (1,) * self.layers, (2,), sizes, axes,
                     tied=frozenset({"embedding"} if self.masked_lm else ()))

    def counts(self) -> Counts:
        """Parameters by part; all are used by every token."""
        d, image = self.d_model, self.image
        if image is None:
            embedding: Count = ((self.vocab or 0) + self.token_types) * d
            positions = self.max_positions * d
        else:
            embedding = linear_count(image.channels * image.patch**2, d, True) + (d if image.class_token else 0)
            positions = image.tokens * d
        transform = linear_count(d, d, True) + 2 * d + (self.vocab or 0)
        return {
            "embedding": embedding, "positions": positions,
            "attention": self.layers * (linear_count(d, 3 * d, True) + linear_count(d, d, True)),
            "ffn": self.layers * ffn_count(d, self.ffn, gated=False, bias=True),
            "norms": (2 * self.layers + 1) * 2 * d,
            "pooler": linear_count(d, d, True) if self.pooler else 0,
            "head": (transform if self.masked_lm else 0) + linear_count(d, self.classes, True),
        }, 0

    @staticmethod
    def readers() -> Readers:
        """Map `model_type` of a Hugging Face config.json to a reader."""
        return {"bert": _bert, "vit": _vit}


def _tokens(model: Encoder, options: Options) -> Block:
    weights, last = {"embedding": "vocab d"}, "e"
    ops = [gather("tokens", f"index[batch,seq] * embedding[vocab,d] -> e{INSIDE}")]
    for table, dim, there in (("position", "positions", model.max_positions), ("type", "types", model.token_types)):
        if there:
            weights[table] = f"{dim} d"
            ops.append(gather(table, f"{table}_index[batch,seq.res] * {table}[{dim},d] -> {table}_rows{STREAM}"))
            ops.append(add(f"add_{table}", f"{last}{STREAM} + {table}_rows{STREAM} -> {table}_sum{STREAM}"))
            last = f"{table}_sum"
    if not model.pre_norm:
        ops.append(norm("layer", "embedding_norm", last, "n", weights))
        last = "n"
    last = dropped(options, ops, last, "dropout0")
    return block("embedding", ops, weights, start="", end=f"{last}{STREAM}",
                 widths={"index": "index", "position_index": "index", "type_index": "index"})


def _patches(model: Encoder, options: Options) -> Block:
    """A product per patch; the class token is put in front and the learned positions are added."""
    weights: dict[str, str] = {}
    image = model.image
    ops = [linear("patch", "image[batch,patches,pixels]", "pixels,d", "e[batch,patches,d]", weights, bias=True)]
    token = ""
    if image is not None and image.class_token:
        weights["class_token"] = "d"
        token = " + class_token[d]"
    weights["position"] = "seq.all d"
    ops.append(point("place", f"e[batch,patches,d] + position[seq.all,d]{token} -> s{STREAM}", 1, saves="nothing"))
    last = dropped(options, ops, "s", "dropout0")
    return block("embedding", ops, weights, start="", end=f"{last}{STREAM}")


def _layer(model: Encoder, options: Options) -> Block:
    """Norms in front of attention and FFN, or behind their sums."""
    weights: dict[str, str] = {}
    inner = "h" if model.pre_norm else "x"
    ops = [norm("layer", "norm1", "x", "h", weights)] if model.pre_norm else []
    ops += attended(options, weights, inner, "a")
    kept = dropped(options, ops, "a", "dropout1")
    ops.append(add("residual1", f"x{STREAM} + {kept}{STREAM} -> {'r' if model.pre_norm else 'r0'}{STREAM}"))
    ops.append(norm("layer", "norm2", "r", "g", weights) if model.pre_norm else
               norm("layer", "norm1", "r0", "r", weights))
    ops += ffn(weights, gated=False, activation=model.activation, bias=True,
               source=f"{'g' if model.pre_norm else 'r'}{INSIDE}")
    kept = dropped(options, ops, "f", "dropout2")
    ops.append(add("residual2", f"r{STREAM} + {kept}{STREAM} -> {'y' if model.pre_norm else 'y0'}{STREAM}"))
    if not model.pre_norm:
        ops.append(norm("layer", "norm2", "y0", "y", weights))
    return block("layer", ops, weights)


def _heads(model: Encoder, options: Options) -> Block:
    """Final norm; pooler and classifier on the first token (or the mean); BERT's head over the vocabulary on every
    token. Without any head, the outputs themselves."""
    weights: dict[str, str] = {}
    ops: list[Op] = []
    last = "x"
    if model.pre_norm:
        ops.append(norm("layer", "final_norm", "x", "h", weights))
        last = "h"
    if model.pooler or model.classes:
        ops += _pooled(model, last, weights)
    if model.masked_lm:
        ops += [linear("transform", f"{last}{INSIDE}", "d,d_out", "t0[batch,seq,d_out]", weights, bias=True),
                point("transform_activation", f"t0[batch,seq,d_out] -> t1{INSIDE}", ACTIVATION["gelu"]),
                norm("layer", "transform_norm", "t1", "t2", weights, INSIDE)]
        weights["embedding"], weights["vocab_offset"] = "vocab d", "vocab"
        logits = "logits[batch,seq,vocab]"
        ops.append(gemm("logits", f"t2{INSIDE} * embedding[vocab,d] + vocab_offset[vocab] -> {logits}"))
        ops += loss(options, logits, "[batch,seq]")
        if model.classes:
            ops.append(point("losses", "loss[batch,seq] + class_loss[batch] -> losses[batch,seq]", 1, saves="nothing"))
    if not ops:
        ops = [point("output", f"x{STREAM} -> out{STREAM}", 0, saves="nothing")]
    return block("head", ops, weights, end="", widths={**LOSS_WIDTHS, "scores": "stats"})


def _pooled(model: Encoder, source: str, weights: dict[str, str]) -> list[Op]:
    ops = [point("first", f"{source}{STREAM} -> c{FIRST}", 0, saves="nothing")]
    last = "c"
    if model.pooler:
        ops += [linear("pooler", f"c{FIRST}", "d,d_out", "pooled0[batch,d_out]", weights, bias=True),
                point("pooler_activation", f"pooled0[batch,d_out] -> pooled{FIRST}", ACTIVATION["gelu"])]
        last = "pooled"
    if model.classes:
        ops += [linear("classes", f"{last}{FIRST}", "d,classes", "scores[batch,classes]", weights, bias=True),
                point("class_loss", "scores[batch,classes] -> class_loss[batch]", 5)]
    return ops


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


def _trunk(keys: Keys) -> Fields:
    return {"layers": keys.whole("num_hidden_layers"), "d_model": keys.whole("hidden_size"),
            "heads": keys.whole("num_attention_heads"), "ffn": keys.whole("intermediate_size"),
            "activation": keys.activation("hidden_act", "gelu")}


def _bert(keys: Keys) -> Fields:
    kind = _architecture(keys, "BertModel", "BertForPreTraining", "BertForMaskedLM", "BertForSequenceClassification")
    keys.only("position_embedding_type", "absolute")
    keys.only("is_decoder", False)
    positions = keys.whole("max_position_embeddings")
    keys.notes.append(f"samples have {positions:,} tokens, which is how far positions reach (model.text_seq)")
    classes = {"BertForPreTraining": 2, "BertForSequenceClassification": _labels(keys)}.get(kind, 0)
    return {**_trunk(keys), "vocab": keys.whole("vocab_size"), "text_seq": positions, "max_positions": positions,
            "token_types": keys.whole("type_vocab_size", 2), "pre_norm": False, "pooler": kind != "BertForMaskedLM",
            "classes": classes, "masked_lm": kind in ("BertForPreTraining", "BertForMaskedLM")}


def _vit(keys: Keys) -> Fields:
    kind = _architecture(keys, "ViTModel", "ViTForImageClassification")
    keys.only("qkv_bias", True)
    image = Image(size=keys.whole("image_size"), patch=keys.whole("patch_size"), channels=keys.whole("num_channels", 3))
    return {**_trunk(keys), "image": image, "pooler": kind == "ViTModel",
            "classes": _labels(keys) if kind == "ViTForImageClassification" else 0}
