"""Compute models on the units that kernels do not reserve (`collective.kernels.units`)."""

from __future__ import annotations

from msgspec.structs import replace

from astrarium.compute.analytic import Analytic
from astrarium.compute.config import Compute, Roofline
from astrarium.design import Design
from astrarium.errors import InputError, UnsupportedError
from astrarium.lower.kernel_times import kernel_gpu
from astrarium.units import FlopRate

__all__ = ["on_free_units", "reserved_units"]

PATH = "collective.kernels.units"
PEAKS = ("peak", "fp8_peak", "fp4_peak", "int8_peak", "fp32_peak")


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
    """A compute model on the units that kernels leave: every peak at the share of these units, memory as it is. Raises
    UnsupportedError for a model whose times do not depend on units, InputError for a device with other units."""
    reserved = reserved_units(design)
    if not reserved:
        return compute
    total = kernel_gpu(design)[1].units
    if isinstance(compute, Roofline):
        return replace(compute, peak=FlopRate.of(float(compute.peak) * (total - reserved) / total))
    if not isinstance(compute, Analytic) or compute.sustained:
        raise UnsupportedError(PATH, f"{reserved}, with compute.model {compute.tag}"
                               f"{' and clock: sustained' * compute.sustained}, whose times are of all units",
                               expected="compute.model: roofline or analytic, or units: 0")
    if compute.units != total:
        raise InputError(PATH, f"are of a GPU with {total} units, and compute has {compute.units}",
                         expected="as many (compute.units)")
    peaks = {name: FlopRate.of(float(peak) * (total - reserved) / total) for name in PEAKS
             if (peak := getattr(compute, name)) is not None}
    return replace(compute, units=total - reserved, **peaks)
