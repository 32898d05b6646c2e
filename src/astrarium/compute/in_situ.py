"""Times of kernels in a long run, from those that a compute model gives to kernels alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from astrarium.compute.checked import LIMIT_PS

if TYPE_CHECKING:
    from astrarium.compute.config import InSitu
    from astrarium.vocab import Kernel

__all__ = ["adjusted"]

I64 = npt.NDArray[np.int64]
CLASS = {"gemm": "gemm", "grouped_gemm": "gemm", "attention": "attention", "mla": "attention",
         "attention_backward": "attention_backward"}
NARROW = ("fp8", "fp4", "int8", "int4")


def _class(kernel: Kernel) -> str:
    found = CLASS.get(kernel.kind, "vector")
    return "gemm_narrow" if found == "gemm" and kernel.precision in NARROW else found


def adjusted(duration: I64, host: npt.NDArray[np.bool_], kernel: npt.NDArray[np.int32] | None,
             kernels: Sequence[Kernel], settings: InSitu) -> I64:
    """Durations (ps) of nodes with the factor of their kernel's class and the time between kernels; nodes of the host
    stay as they are, and nodes without a kernel count as one launch bound by memory."""
    factors = np.array([*(getattr(settings, _class(each)) for each in kernels), settings.vector])
    launches = np.array([*(each.launches for each in kernels), 1], np.int64)
    which = np.full(len(duration), -1) if kernel is None else kernel
    made = np.rint(duration * factors[which]) + launches[which] * float(settings.launch) * 1000.0
    return np.where(host, duration, np.minimum(made, LIMIT_PS).astype(np.int64))
