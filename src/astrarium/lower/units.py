"""Compute models on the units that kernels do not reserve (`collective.kernels.units`)."""

from __future__ import annotations

from astrarium.compute.config import Compute
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.lower.kernel_times import kernel_gpu

__all__ = ["on_free_units", "reserved_units"]

PATH = "collective.kernels.units"


def reserved_units(design: Design) -> int:
    """Compute units of each GPU that only collectives use. Raises InputError where they are all that it has."""
    kernels = design.collective.kernels
    if kernels is None or not kernels.units:
        return 0
    total = kernel_gpu(design)[1].units
    if kernels.units >= total:
        raise InputError(PATH, f"{kernels.units} of {total} units", expected="some left for compute")
    return kernels.units


def on_free_units(design: Design, compute: Compute) -> Compute:
    """A compute model on the units that kernels leave. Raises as `Compute.on_units`."""
    reserved = reserved_units(design)
    if not reserved:
        return compute
    total = kernel_gpu(design)[1].units
    return compute.on_units(total - reserved, total)
