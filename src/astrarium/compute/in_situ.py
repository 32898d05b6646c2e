"""Kernels in a long run of a software stack, from the times that a model gives to kernels alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from astrarium.arrays import F64
from astrarium.config import Config, Knob

if TYPE_CHECKING:
    from astrarium.engine.plugins.kernels import KernelTable

__all__ = ["InSitu", "factors_of"]

CLASS = {"gemm": "gemm", "grouped_gemm": "gemm", "attention": "attention", "mla": "attention",
         "attention_backward": "attention_backward"}
NARROW = ("fp8", "fp4", "int8", "int4")


class InSitu(Config, frozen=True, kw_only=True):
    """Kernels in a long run: factors on the times that a model gives to kernels alone."""

    gemm: Annotated[float, Knob("Products of matrices (clocks under sustained power, kernels that the stack picks).",
                                gt=0)] = 1.0
    gemm_narrow: Annotated[float | None, Knob("Those in formats of 8 and 4 bits; left out: as `gemm`.", gt=0)] = None
    attention: Annotated[float, Knob("Attention in one kernel, forward.", gt=0)] = 1.0
    attention_backward: Annotated[float, Knob("Its backward pass.", gt=0)] = 1.0
    vector: Annotated[float, Knob("Everything bound by memory.", gt=0)] = 1.0


def factors_of(kernels: KernelTable, settings: InSitu) -> F64:
    """The factor of each kernel's class."""
    found = np.empty(len(kernels))
    for part in kernels.parts:
        kind = CLASS.get(part.kind, "vector")
        narrow = kind == "gemm" and part.precision in NARROW and settings.gemm_narrow is not None
        found[part.place] = settings.gemm_narrow if narrow else getattr(settings, kind)
    return found
