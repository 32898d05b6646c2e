"""Number formats of a published checkpoint."""

from __future__ import annotations

from typing import Annotated, Literal

from astrarium.config import Config, Knob

__all__ = ["Checkpoint", "Stored"]

Stored = Literal["fp32", "fp16", "bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int8", "int4"]


class Checkpoint(Config, frozen=True, kw_only=True):
    """Formats in which a model is published. Inference takes those that its `formats` leaves out, and says so; training
    has its own (`precision`)."""

    weights: Annotated[Stored, Knob("Weights of the layers' products.")] = "bf16"
    attention: Annotated[Stored | None, Knob("Those of attention or its replacement; left out: as weights."
                                             )] = None
    experts: Annotated[Stored | None, Knob("Those of routed experts; left out: as weights.")] = None
    scale_group: Annotated[int | None, Knob("Weights that share one 16-bit scale, in int4 and int8.", ge=1)] = None
    weight_only: Annotated[bool, Knob("Products unpack the weights to 16 bits, whatever their format (W4A16).")] = False
    cache: Annotated[Literal["bf16", "fp8"] | None, Knob("Keys and values in the cache; left out: 16 bits.")] = None
