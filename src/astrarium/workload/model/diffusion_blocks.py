"""A diffusion transformer as blocks of operators. The condition (time and class) travels beside the stream."""

from __future__ import annotations

from astrarium.errors import InputError
from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, gather, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.diffusion import Diffusion
from astrarium.workload.model.parts import ACTIVATION, INSIDE, NORM, STREAM, attended, block, ffn, linear

__all__ = ["diffusion_stack"]

CONDITION = "condition[batch,d]"
MODULATED = NORM["layer"]       # a norm without gain and offset of its own; scale and shift of the condition instead


def diffusion_stack(model: Diffusion, options: Options) -> Stack:
    """The blocks of a DiT. Raises InputError where the run asks for another length than the latent's patches."""
    if options.seq != model.seq:
        raise InputError("workload.seq", f"{options.seq} is not what a latent has", expected=f"{model.seq}, or nothing")
    sizes: dict[str, Size] = {
        "d": model.d_model, "d_out": model.d_model, "heads": model.heads, "head": model.head, "ffn": model.ffn,
        "values": model.channels * model.patch**2, "predicted": model.out_channels * model.patch**2,
        "frequencies": model.time_frequencies, "classes": model.classes + 1, "six": 6 * model.d_model,
        "two": 2 * model.d_model}
    return Stack((_embedding(model), _layer(model, options), _head(model)), (0,), (1,) * model.layers, (2,), sizes)


def _embedding(model: Diffusion) -> Block:
    """Patches; the condition: an MLP over the time's sines and cosines, and the class's row."""
    weights: dict[str, str] = {}
    ops: list[Op] = [
        linear("patch", "latent[batch,seq,values]", "values,d", f"e{INSIDE}", weights, bias=True),
        point("place", f"e{STREAM} -> x{STREAM}", 1, saves="nothing"),
        linear("time1", "time[batch,frequencies]", "frequencies,d", "t1[batch,d]", weights, bias=True),
        point("time_activation", "t1[batch,d] -> t2[batch,d]", ACTIVATION["silu"]),
        linear("time2", "t2[batch,d]", "d,d_out", "t3[batch,d_out]", weights, bias=True)]
    if model.classes:
        weights["class_embedding"] = "classes d"
        ops += [gather("class", "class_index[batch] * class_embedding[classes,d] -> k[batch,d]"),
                point("condition", f"t3[batch,d_out] + k[batch,d] -> {CONDITION}", 1 + ACTIVATION["silu"])]
    else:
        ops.append(point("condition", f"t3[batch,d_out] -> {CONDITION}", ACTIVATION["silu"]))
    return block("embedding", ops, weights, start="", end=f"x{STREAM}", memory=CONDITION, gives=True,
                 widths={"class_index": "index"})


def _layer(model: Diffusion, options: Options) -> Block:
    """adaLN-Zero: six vectors of the condition shift, scale and gate attention and FFN."""
    del model
    weights: dict[str, str] = {}
    six = "m[batch,six]"
    ops: list[Op] = [linear("modulation", CONDITION, "d,six", six, weights, bias=True),
                     point("norm1", f"x{STREAM} + {six} -> h{STREAM}", MODULATED)]
    ops += attended(options, weights, "h", "a")
    ops += [point("residual1", f"x{STREAM} + a{STREAM} + {six} -> r{STREAM}", 2),
            point("norm2", f"r{STREAM} + {six} -> g{STREAM}", MODULATED),
            *ffn(weights, gated=False, activation="gelu", bias=True),
            point("residual2", f"r{STREAM} + f{STREAM} + {six} -> y{STREAM}", 2)]
    return block("layer", ops, weights, memory=CONDITION, takes=True, gives=True)


def _head(model: Diffusion) -> Block:
    """Norm, the noise (and variance) of every patch, mean square error."""
    del model
    weights: dict[str, str] = {}
    ops = [linear("modulation", CONDITION, "d,two", "m[batch,two]", weights, bias=True),
           point("final_norm", f"x{STREAM} + m[batch,two] -> h{STREAM}", MODULATED),
           linear("predict", f"h{STREAM}", "d,predicted", "p[batch,seq.res,predicted]", weights, bias=True),
           point("loss", "p[batch,seq.res,predicted] -> loss[batch,seq.res]", 3)]
    return block("head", ops, weights, end="", memory=CONDITION, takes=True, widths={"loss": "stats"})
