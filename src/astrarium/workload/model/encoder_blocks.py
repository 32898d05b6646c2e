"""An encoder of text or images as blocks of operators: embedding, layers, heads."""

from __future__ import annotations

from astrarium.errors import InputError
from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, add, gather, gemm, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.encoder import Encoder
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

__all__ = ["encoder_stack"]

FIRST = "[batch,d]"


def encoder_stack(model: Encoder, options: Options) -> Stack:
    """The blocks of an encoder. Raises InputError where the run asks for another length than an image's patches."""
    if model.image is not None and options.seq != model.seq:
        raise InputError("workload.seq", f"{options.seq} is not what an image has",
                         expected=f"{model.seq} (patches and class token), or nothing")
    image = model.image
    sizes: dict[str, Size] = {"d": model.d_model, "heads": model.heads, "head": model.head, "ffn": model.ffn,
                              "vocab": model.vocab or 1, "positions": model.max_positions or 1,
                              "types": model.token_types or 1, "classes": model.classes or 1, "d_out": model.d_model}
    if image is not None:
        sizes |= {"patches": image.patches, "pixels": image.channels * image.patch**2}
    start = _tokens(model, options) if image is None else _patches(model, options)
    axes = {"patches": ("sp", "cp")}
    return Stack((start, _layer(model, options), _heads(model)), (0,), (1,) * model.layers, (2,), sizes, axes,
                 tied=frozenset({"embedding"} if model.masked_lm else ()))


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


def _heads(model: Encoder) -> Block:
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
        ops += loss(logits, "[batch,seq]")
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
