"""Diffusion transformers (DiT, arXiv 2212.09748): a ViT over latents whose norms are steered by time and class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Annotated, Any, ClassVar

from astrarium.config import Knob, Problem
from astrarium.workload.model.base import Model

__all__ = ["Diffusion"]


def _patches(model: Diffusion) -> Iterator[Problem]:
    if model.latent % model.patch:
        yield Problem("patch", f"{model.patch} does not divide a latent of {model.latent}",
                      f"a divisor of {model.latent}")


class Diffusion(Model, frozen=True, kw_only=True):
    """A diffusion transformer with adaLN-Zero blocks; one step of denoising is one forward pass."""

    tag: ClassVar[str] = "diffusion"
    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_patches,)
    layers: Annotated[int, Knob("Layers.", ge=1, lt=100_001)]
    d_model: Annotated[int, Knob("Length of a token's vector.", ge=1)]
    heads: Annotated[int, Knob("Heads of a layer.", ge=1, lt=65_537)]
    ffn: Annotated[int, Knob("Inner size of the FFN.", ge=1)]
    latent: Annotated[int, Knob("Side of the latent (an image of 256 pixels: 32).", ge=1)]
    patch: Annotated[int, Knob("Side of a patch of the latent.", ge=1)]
    channels: Annotated[int, Knob("Channels of the latent.", ge=1)] = 4
    learn_sigma: Annotated[bool, Knob("The variance is predicted too: twice the channels come out.")] = True
    classes: Annotated[int, Knob("Classes that steer; one more, for no class, is kept. 0: none.", ge=0)] = 1000
    time_frequencies: Annotated[int, Knob("Sines and cosines that stand for the time step.", ge=1)] = 256

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
        """Channels that come out."""
        return self.channels * (2 if self.learn_sigma else 1)
