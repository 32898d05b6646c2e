"""The head of a language model: final norm, logits, and a loss in training or a token in inference."""

from __future__ import annotations

from astrarium.workload.graph import Options
from astrarium.workload.graph.ir import Block, add, gather, gemm
from astrarium.workload.model.cached import sampler_ops
from astrarium.workload.model.parts import LOSS_WIDTHS, STREAM, block, linear, loss, norm

__all__ = ["language_head"]


def language_head(options: Options, *, norm_kind: str, tied: bool, bias: bool = False, residual: str = "") -> Block:
    """Final norm, logits, and a cross entropy whose sums over the vocabulary are shared over tp; in inference a token
    for each row that is sampled. `tied`: the logits' matrix is the embedding. `residual`: what an engine still adds to
    the stream, and then norms all rows before it takes those that are sampled."""
    weights: dict[str, str] = {}
    packed = options.packed
    few = packed is not None and packed.sampled < packed.tokens
    rows, last = "sampled" if few else "seq", "last_index[batch,sampled] * {}[batch,seq.res,d] -> {}[batch,sampled,d]"
    if residual:
        ops = [add("residual", f"x{STREAM} + {residual} -> sum{STREAM}"),
               norm(norm_kind, "final_norm", "sum", "n" if few else "h", weights)]
        ops += [gather("last", last.format("n", "h"))] if few else []
    else:
        ops = [gather("last", last.format("x", "last"))] if few else []
        ops.append(norm(norm_kind, "final_norm", "last" if few else "x", "h", weights,
                        "[batch,sampled,d]" if few else STREAM))
    inner, logits, token = f"[batch,{rows},d]", f"logits[batch,{rows},vocab]", "[batch,seq]"
    if tied:
        weights["embedding"] = "vocab d"
        ops.append(gemm("logits", f"h{inner} * embedding[vocab,d] -> {logits}"))
    else:
        ops.append(linear("logits", f"h{inner}", "d,vocab", logits, weights, bias=bias))
    if packed is not None:
        wide = "wide" if options.engine else "logits"
        widths = {wide: "stats", "m": "stats", "z": "stats", "token": "index", "last_index": "index"}
        return block("head", ops + sampler_ops(options, logits, f"[batch,{rows}]"), weights, end="", widths=widths,
                     memory=residual, takes=bool(residual))
    return block("head", ops + loss(options, logits, token), weights, end="", widths=LOSS_WIDTHS)
