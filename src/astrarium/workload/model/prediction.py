"""Modules for multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2).

In training one is a block of operators. It takes the stream as the layers leave it, joins it with the embedding of the
next token, runs one layer more and predicts with the model's own head; the stream goes on to the main head as it came.
Embedding and head are the model's; on the last stage of a pipeline, which has no embedding, the module has a copy.

In inference it is a draft of one layer: it joins the hidden states that the model left with the embeddings of the next
tokens, in one product, and guesses the token after them.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, Use, add, gather, point
from astrarium.workload.model.parts import INSIDE, STREAM, block, linear, norm

__all__ = ["module_stack", "prediction_block", "renamed"]

FINAL_NORM = frozenset({"final_norm_scale", "final_norm_offset"})
HEAD_NAMES = {"x": "y", "h": "last", "m": "most", "z": "sums", "t": "aims"}     # the layer has tensors of these names


def prediction_block(norm_kind: str, layer: Block, head: Block) -> Block:
    """The module around a layer of the model and the model's head."""
    weights = {name: " ".join(dims) for part in (layer, head) for name, dims in part.weights.items()}
    weights["embedding"] = "vocab d"
    ops = [norm(norm_kind, "norm_stream", "stream", "stream_normed", weights),
           gather("next", f"next_index[batch,seq] * embedding[vocab,d] -> row{INSIDE}"),
           norm(norm_kind, "norm_next", "row", "row_normed", weights)]
    for name, source in (("join_stream", "stream_normed"), ("join_next", "row_normed")):
        ops.append(linear(name, f"{source}{STREAM}", "d,d.joined", f"{name}[batch,seq.res,d.joined]", weights,
                          bias=False))
    ops.append(add("join", f"join_stream{STREAM} + join_next{STREAM} -> x{STREAM}"))
    tail = [renamed(op, HEAD_NAMES) for op in head.ops]
    widths = {**layer.widths, "next_index": "index",
              **{HEAD_NAMES.get(name, name): role for name, role in head.widths.items()}}
    made = block("prediction", [*ops, *layer.ops, *tail], weights, start=f"stream{STREAM}", end=f"stream{STREAM}",
                 widths=widths, experts=layer.experts)
    return replace(made, losses=(*layer.losses, tail[-1].outputs[0]),
                   borrowed=frozenset(head.weights) - FINAL_NORM)


def module_stack(model: Stack, norm_kind: str, options: Options) -> Stack:
    """A module as a draft in inference, from the stack of its model, whose last layer it has once more."""
    weights: dict[str, str] = {}
    ops = [gather("next", f"next_index[batch,seq] * embedding[vocab,d] -> row{INSIDE}"),
           norm(norm_kind, "norm_stream", "hidden", "stream_normed", weights),
           norm(norm_kind, "norm_next", "row", "row_normed", weights),
           point("pair", f"stream_normed{STREAM} + row_normed{STREAM} -> pair[batch,seq.res,d.both]", 0),
           linear("join", "pair[batch,seq.res,d.both]", "d.both,d", f"x{STREAM}", weights, bias=False)]
    weights["embedding"] = "vocab d"
    entry = replace(block("prediction", ops, weights, start="", widths={"next_index": "index"}, end=f"x{STREAM}"),
                    borrowed=frozenset({"embedding"}))
    head = model.blocks[-1]
    head = replace(head, borrowed=frozenset(head.weights) - FINAL_NORM)
    last = (2,) if options.packed is None or options.packed.sampled else ()
    return Stack((entry, model.blocks[model.layers[-1]], head), (0,), (1,), last,
                 {**model.sizes, "d.both": 2 * model.sizes["d"]}, model.axes)


def renamed(op: Op, names: Mapping[str, str]) -> Op:
    """The operator on tensors of other names."""
    def new(uses: tuple[Use, ...]) -> tuple[Use, ...]:
        return tuple(Use(names.get(use.tensor, use.tensor), use.dims) for use in uses)

    return op._replace(inputs=new(op.inputs), outputs=new(op.outputs))
