"""An encoder-decoder as blocks of operators.

The encoder's output travels beside the decoder's stream through all its layers, forward and, as a gradient, backward.
The last layer of the encoder ends it and looks up the decoder's tokens: what then goes on is the decoder's stream.
"""

from __future__ import annotations

from astrarium.errors import InputError
from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, add, gather, gemm, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.graph.options import usual_axes
from astrarium.workload.model.encoder_decoder import EncoderDecoder
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

__all__ = ["encoder_decoder_stack"]

MEMORY = f"memory{STREAM}"
TARGET, TARGET_INSIDE = "[batch,target.res,d]", "[batch,target,d]"
OFFSETS = "offsets"     # of scores, by distance: a weight of each stack's first layer, read by the others


def encoder_decoder_stack(model: EncoderDecoder, options: Options) -> Stack:
    """The blocks of an encoder-decoder; options.seq is the encoder's. Raises InputError for another length of sound."""
    if model.audio is not None and options.seq != model.encoder_seq:
        raise InputError("workload.seq", f"{options.seq} is not the encoder's length",
                         expected=f"{model.encoder_seq}, or nothing")
    front, back = model.encoder_layers, model.decoder_layers
    kinds = [("encoder", index == 0, index == front - 1) for index in range(front)]
    kinds += [("decoder", index == 0, index == back - 1) for index in range(back)]
    distinct = list(dict.fromkeys(kinds))
    layers = tuple(_encoder_layer(model, options, first=first, last=last) if side == "encoder" else
                   _decoder_layer(model, options, first=first, last=last) for side, first, last in distinct)
    blocks = (_tokens(model, options) if model.audio is None else _sound(model, options), *layers, _head(model))
    sizes: dict[str, Size] = {
        "d": model.d_model, "heads": model.heads, "head": model.head, "ffn": model.ffn, "vocab": model.vocab,
        "target": model.decoder_seq, "buckets": model.buckets or 1, "positions": model.max_positions or 1,
        "frames": 2 * options.seq, "bands": 3 * model.audio.mels if model.audio else 1, "three": 3 * model.d_model}
    axes = {**mirrored(usual_axes(options), "target"), "frames": ("sp", "cp")}
    return Stack(blocks, (0,), tuple(1 + distinct.index(kind) for kind in kinds), (len(blocks) - 1,), sizes, axes,
                 tied=frozenset({"embedding"} if model.tied_embeddings and model.audio is None else ()))


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
    """(operators, result) of the decoder's embedding. Where the table stands in front or is the head's too, it is only
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


def _head(model: EncoderDecoder) -> Block:
    weights: dict[str, str] = {}
    logits = "logits[batch,target,vocab]"
    ops = [norm(model.norm, "final_norm", "x", "h", weights, TARGET)]
    if model.tied_embeddings:
        weights["embedding"] = "vocab d"
        ops.append(gemm("logits", f"h{TARGET_INSIDE} * embedding[vocab,d] -> {logits}"))
    else:
        ops.append(linear("logits", f"h{TARGET_INSIDE}", "d,vocab", logits, weights, bias=False))
    return block("head", ops + loss(logits, "[batch,target]"), weights, start=f"x{TARGET}", end="", widths=LOSS_WIDTHS)
