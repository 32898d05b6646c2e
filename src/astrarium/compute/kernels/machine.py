"""What the analytic base knows of a device: its data sheet."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.errors import InputError, nearest

__all__ = ["BYTES", "STANDS_IN", "WEIGHT_BYTES", "WEIGHT_ONLY", "Machine"]

BYTES: Mapping[str, float] = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "int8": 1.0,
                              "fp4": 0.5625, "int4": 0.5, "w8a16": 2.0, "w4a16": 2.0, "mxfp4_a16": 2.0,
                              "mxfp4_a8": 1.0}
"""Bytes of one operand element. fp4 carries an 8-bit scale for each 16 elements (NVFP4)."""

WEIGHT_BYTES: Mapping[str, float] = {**BYTES, "w8a16": 1.0, "w4a16": 0.5, "mxfp4_a16": 0.53125, "mxfp4_a8": 0.53125}
"""Bytes of one element of a product's right operand. mxfp4 carries an 8-bit scale for each 32 elements (OCP MX)."""

WEIGHT_ONLY: Mapping[tuple[str, str], str] = {
    (bits, held): name for bits in ("bf16", "fp16")
    for held, name in (("int8", "w8a16"), ("int4", "w4a16"), ("mxfp4", "mxfp4_a16"))} | {("fp8", "mxfp4"): "mxfp4_a8"}
"""(format in which a product computes, format of its weights) -> the name of such kernels."""

STANDS_IN: Mapping[str, tuple[str, ...]] = {"fp16": ("bf16",), "bf16": ("fp16",), "fp8": ("fp8_block",),
                                            "fp8_block": ("fp8",), "int8": ("fp8", "bf16"), "fp4": ("fp8", "bf16"),
                                            "int4": ("bf16",), "fp32": ("bf16",)}
"""Whose relative efficiency a precision without rows takes, in this order."""

SAME_RATE: Mapping[str, str] = {"fp16": "bf16", "bf16": "fp16", "fp8_block": "fp8", "w8a16": "bf16", "w4a16": "bf16",
                                "mxfp4_a16": "bf16", "mxfp4_a8": "fp8"}


class Machine(Struct, frozen=True):
    """Data-sheet rates. `peaks`: flop/ns (dense) of matrix products by precision; `bandwidth`: byte/ns of local memory;
    `units`: SMs or cores over which tiles are spread; `launch`: ns that the smallest kernel takes;
    `stream`: rising (bytes, ns) of a kernel that only moves bytes."""

    name: str
    peaks: Mapping[str, float]
    bandwidth: float
    units: int
    launch: float = 2000.0
    stream: tuple[tuple[float, float], ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    def at(self, clock: float) -> Machine:
        """This machine at another clock. `clock`: fraction of the data sheet's clock."""
        return replace(self, peaks={name: peak * clock for name, peak in self.peaks.items()})

    def streaming_like(self, other: Machine) -> Machine:
        """This machine with the sizes and times of another's streams, those above its smallest in proportion to the
        bandwidths."""
        least = other.stream[0][1]
        return replace(self, stream=tuple((size, least + (ns - least) * other.bandwidth / self.bandwidth)
                                          for size, ns in other.stream))

    def peak(self, precision: str) -> float:
        """The peak at a precision, flop/ns. fp16 and bf16 are one; raises InputError where the sheet has none."""
        for name in (precision, SAME_RATE.get(precision, precision)):
            if name in self.peaks:
                return self.peaks[name]
        raise InputError(f"compute.device {self.name}", f"no peak at {precision!r} is known",
                         expected="one of " + ", ".join(self.peaks), did_you_mean=nearest(precision, self.peaks))
