"""`compute.model: analytic`: a device without measured kernels, from its data sheet and what measured ones share."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from msgspec.structs import replace

from astrarium.compute.config import Compute
from astrarium.compute.timed import Predict, Predicted
from astrarium.config import Knob, default
from astrarium.config.spec import Problem
from astrarium.errors import InputError
from astrarium.units import FlopRate, OptionalFlopRate

if TYPE_CHECKING:
    from astrarium.compute.kernels import DeviceModel
    from astrarium.engine.plugins.compute import ComputeNodes

__all__ = ["Analytic"]

PEAKS = ("peak", "fp8_peak", "fp4_peak", "int8_peak", "fp32_peak")


@functools.lru_cache(maxsize=16)
def _fitted(peaks: tuple[tuple[str, float], ...], bandwidth: float, units: int, part: float) -> DeviceModel:
    from astrarium.compute.kernels import Machine, from_sheet

    return from_sheet(Machine("the data sheet", dict(peaks), bandwidth, units), part)


def _limited(compute: Analytic) -> Iterable[Problem]:
    if compute.matrix is not None and compute.power is None:
        yield Problem("power", "is missing", "the power limit of the data sheet, or no `matrix`")


class Analytic(Predicted, frozen=True, kw_only=True):
    """Kernels of a device without measured rows: its data sheet, at the efficiency of measured devices."""

    tag: ClassVar[str] = "analytic"
    memory_bound: ClassVar[bool] = True
    rules = (*Predicted.rules, _limited)
    peak: Annotated[FlopRate, Knob("Dense bf16 peak of the data sheet.", gt=0)]
    fp8_peak: Annotated[OptionalFlopRate, Knob("Dense fp8 peak; left out: fp8 kernels are refused.")] = default(None)
    fp4_peak: Annotated[OptionalFlopRate, Knob("Dense fp4 peak; left out: fp4 kernels are refused.")] = default(None)
    int8_peak: Annotated[OptionalFlopRate, Knob("Dense int8 peak; left out: int8 kernels are refused.")] = default(None)
    fp32_peak: Annotated[OptionalFlopRate, Knob("fp32 (or TF32) peak of products; left out: they are refused.")
                         ] = default(None)
    units: Annotated[int, Knob("Multiprocessors (SMs, compute units) over which tiles are spread.", ge=1)]
    matrix: Annotated[Literal["mma", "wgmma", "tcgen05"] | None, Knob(
        "Matrix instruction: mma (Ampere, Ada, Blackwell cards), wgmma (Hopper), tcgen05 (Blackwell of data centres): "
        "products run at what it makes of `power`, which is then the limit of the data sheet; left out: at a typical "
        "part of the peak.")] = None

    def on_units(self, left: int, total: int) -> Compute:
        """Fewer units, at the peaks of a whole unit each. Raises InputError for a device with other units."""
        if self.sustained:
            return super().on_units(left, total)
        if self.units != total:
            raise InputError("compute.units", f"is {self.units}, and kernels run on a GPU with {total} units",
                             expected="as many")
        peaks = {name: FlopRate.of(float(peak) * left / total) for name in PEAKS
                 if (peak := getattr(self, name)) is not None}
        return replace(self, units=left, **peaks)

    def peak_at(self, precision: str) -> float | None:
        """The data sheet's peak in a number format; None if it has none."""
        found = self.peak if precision in ("bf16", "fp16") else getattr(self, f"{precision}_peak")
        return None if found is None else float(found)

    def fitted(self, bandwidth: float) -> DeviceModel:
        """The model of the sheet with a memory of `bandwidth` byte/ns."""
        from astrarium.compute.kernels.power import TYPICAL, sustained

        given = {"bf16": self.peak, "fp8": self.fp8_peak, "fp4": self.fp4_peak, "int8": self.int8_peak,
                 "fp32": self.fp32_peak}
        peaks = tuple((name, float(peak)) for name, peak in given.items() if peak is not None)
        part = (TYPICAL if self.matrix is None or self.power is None
                else sustained(float(self.peak), float(self.power), self.matrix))
        return _fitted(peaks, bandwidth, self.units, part)

    def timed_by(self, nodes: ComputeNodes) -> tuple[DeviceModel, Predict]:
        """The device's model, and the times of kernels alone at a clock, ns."""
        from astrarium.compute.kernels.predict import latencies

        if nodes.memory.bandwidth is None:
            raise InputError("memory.bandwidth", "is missing", expected="what the data sheet says of local memory")
        model = self.fitted(nodes.memory.bandwidth)
        return model, lambda some, clock: latencies(model, some, None, clock)
