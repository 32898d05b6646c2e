"""Diffusion transformers (DiT, arXiv 2212.09748): a ViT over latents whose norms are steered by time and class.

The condition (time and class) travels with the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Annotated, Any, ClassVar

from astrarium.config import Knob, Problem
from astrarium.errors import InputError
from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, gather, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.base import Counts, Model
from astrarium.workload.model.parameters import ffn_count, linear_count
from astrarium.workload.model.parts import ACTIVATION, INSIDE, NORM, STREAM, attended, block, ffn, linear

__all__ = ["Diffusion"]


CONDITION = "condition[batch,d]"
MODULATED = NORM["layer"]       # a norm without gain and offset of its own; scale and shift of the condition instead


def _patches(model: Diffusion) -> Iterator[Problem]:
    if model.latent % model.patch:
        yield Problem("patch", f"{model.patch} does not divide a latent of {model.latent}",
                      f"a divisor of {model.latent}")


class Diffusion(Model, frozen=True, kw_only=True):
    """A diffusion transformer with adaLN-Zero blocks; one step of denoising is one forward pass."""

    tag: ClassVar[str] = "diffusion"
    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_patches,)
    layers: Annotated[int, Knob("Layers.", ge=1, lt=100_001)]
    d_model: Annotated[int, Knob("Length of a token's vector.", ge=1, lt=2**20)]
    heads: Annotated[int, Knob("Heads of a layer.", ge=1, lt=65_537)]
    ffn: Annotated[int, Knob("Inner size of the FFN.", ge=1, lt=2**24)]
    latent: Annotated[int, Knob("Side of the latent (an image of 256 pixels: 32).", ge=1)]
    patch: Annotated[int, Knob("Side of a patch of the latent.", ge=1)]
    channels: Annotated[int, Knob("Channels of the latent.", ge=1)] = 4
    learn_sigma: Annotated[bool, Knob("The variance is predicted too: twice the channels come out.")] = True
    classes: Annotated[int, Knob("Classes that steer; one more, for no class, is kept. 0: none.", ge=0)] = 1000
    time_frequencies: Annotated[int, Knob("Sines and cosines that encode the time step.", ge=1)] = 256

    @property
    def head(self) -> Fraction:
        """Length of a head's vectors."""
        return Fraction(self.d_model, self.heads)

    @property
    def seq(self) -> int:
        """Patches of one sample."""
        return (self.latent // self.patch) ** 2

    @property
    def out_channels(self) -> int:
        """Output channels."""
        return self.channels * (2 if self.learn_sigma else 1)

    def stack(self, options: Options) -> Stack:
        """The blocks. Raises InputError if the sequence length of the run is not the number of the latent's patches."""
        if options.seq != self.seq:
            raise InputError("workload.seq", f"{options.seq} is not what a latent has",
                             expected=f"{self.seq}, or nothing")
        sizes: dict[str, Size] = {
            "d": self.d_model, "d_out": self.d_model, "heads": self.heads, "head": self.head, "ffn": self.ffn,
            "values": self.channels * self.patch**2, "predicted": self.out_channels * self.patch**2,
            "frequencies": self.time_frequencies, "classes": self.classes + 1, "six": 6 * self.d_model,
            "two": 2 * self.d_model}
        return Stack((_embedding(self), _layer(self, options), _head(self)), (0,), (1,) * self.layers, (2,), sizes)

    def counts(self) -> Counts:
        """Parameters by part; all are used by every token."""
        d, patch = self.d_model, self.patch**2
        return {
            "embedding": linear_count(patch * self.channels, d, True) + (self.classes + 1 if self.classes else 0) * d,
            "fixed_positions": self.seq * d,
            "time": linear_count(self.time_frequencies, d, True) + linear_count(d, d, True),
            "attention": self.layers * (linear_count(d, 3 * d, True) + linear_count(d, d, True)),
            "ffn": self.layers * ffn_count(d, self.ffn, gated=False, bias=True),
            "modulation": self.layers * linear_count(d, 6 * d, True) + linear_count(d, 2 * d, True),
            "head": linear_count(d, patch * self.out_channels, True),
        }, 0


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
