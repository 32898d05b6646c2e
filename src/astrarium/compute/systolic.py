"""`compute.model: systolic`: products on systolic arrays, all else by the vector unit and local memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple

import numpy as np

from astrarium import catalog
from astrarium.compute.arrays import RATES, Arrays, Dataflow
from astrarium.compute.config import Compute
from astrarium.config import Knob, default
from astrarium.config.spec import Problem
from astrarium.errors import InputError, nearest
from astrarium.units import Bytes, FlopRate, OptionalBytes, OptionalFlopRate, OptionalFrequency, OptionalTime

if TYPE_CHECKING:
    import numpy.typing as npt

    from astrarium.compute.systolic_times import Chip
    from astrarium.engine.plugins.compute import ComputeNodes

__all__ = ["Systolic"]

BUFFERS = ("ifmap_buffer", "filter_buffer", "ofmap_buffer")


class _Sheet(NamedTuple):
    """What the catalog knows of a device's arrays."""

    rows: int
    columns: int
    arrays: int
    clock: float        # cycles per ns at which the arrays give the device's dense 16-bit peak
    buffer: float | None
    dataflow: Dataflow | None
    tiles: Literal["apart", "overlapped"] | None
    rates: tuple[tuple[str, float], ...]


def _sheet(name: str) -> _Sheet:
    rows_of = catalog.load("devices")
    known = [each for each, row in rows_of.items() if "systolic" in row]
    if name not in known:
        message = f"{name} has no systolic arrays in the catalog" if name in rows_of else f"{name[:60]!r} is not known"
        expected = "one of " + ", ".join(known) + ", or rows, columns and clock"
        raise InputError("compute.device", message, expected=expected, did_you_mean=nearest(name, known))
    device = catalog.device(name)
    found, peak = device.row["systolic"], float(device.peak("bf16"))
    rows, columns, arrays = found["rows"], found["columns"], found["arrays"]
    rates = {each: float(device.peak(each)) / peak for each in device.precisions}
    return _Sheet(rows, columns, arrays, peak / (2.0 * rows * columns * arrays),
                  float(Bytes(found["buffer"])) if "buffer" in found else None, found.get("dataflow"),
                  found.get("tiles"), tuple(rates.items()))


def _known(compute: Systolic) -> Iterable[Problem]:
    if compute.device is not None:
        try:
            _sheet(compute.device)
        except InputError as error:
            yield Problem("device", error.message, error.expected, error.did_you_mean)
            return
    for name, what in (("rows", "a count of rows"), ("columns", "a count of columns"), ("clock", "a frequency, 1 GHz")):
        if compute.device is None and getattr(compute, name) is None:
            yield Problem(name, "is missing", f"{what}, or `device`, whose arrays are known")
    sheet = None if compute.device is None else _sheet(compute.device)
    if compute.buffer is None and (sheet is None or sheet.buffer is None):
        for name in BUFFERS:
            if getattr(compute, name) is None:
                yield Problem(name, "is missing", "its size, or `buffer`; a third of it is used")


class Systolic(Compute, frozen=True, kw_only=True):
    """Products run on systolic arrays (tiles, buffers, stalls); other kernels use the vector unit or memory."""

    tag: ClassVar[str] = "systolic"
    memory_bound: ClassVar[bool] = True
    rules = (*Compute.rules, _known)
    device: Annotated[str | None, Knob("A device of the catalog whose arrays are known (tpu_v6e): what is left out "
                                       "below is its own.")] = None
    rows: Annotated[int | None, Knob("Rows of an array.", ge=1)] = None
    columns: Annotated[int | None, Knob("Columns of an array.", ge=1)] = None
    arrays: Annotated[int | None, Knob("Arrays of one NPU; left out: the device's, else 1.", ge=1, lt=2**16)] = None
    clock: Annotated[OptionalFrequency, Knob(
        "Clock of the arrays, one multiply-add an element and cycle; left out: that at which the device's arrays give "
        "its dense 16-bit peak.", gt=0)] = default(None)
    dataflow: Annotated[Dataflow | None, Knob("Which operand stays in the array; left out: the device's, else "
                                              "weight_stationary.")] = None
    tiles: Annotated[Literal["apart", "overlapped"] | None, Knob(
        "apart: each tile fills and drains alone (SCALE-Sim); overlapped: it follows the one before at once, its "
        "weights have been shifted in meanwhile; left out: the device's, else apart.")] = None
    buffer: Annotated[OptionalBytes, Knob("On-chip memory of the NPU for operands, a third for each without a size of "
                                          "its own; left out: the device's.", gt=0)] = default(None)
    ifmap_buffer: Annotated[OptionalBytes, Knob("Buffer of the left operand (m x k), double: half is in use.", gt=0)
                            ] = default(None)
    filter_buffer: Annotated[OptionalBytes, Knob("Buffer of the right operand (k x n), double.", gt=0)] = default(None)
    ofmap_buffer: Annotated[OptionalBytes, Knob("Buffer of the result (m x n) and of partial sums in fp32, double.",
                                                gt=0)] = default(None)
    partial_sums: Annotated[Literal["kept", "written"], Knob(
        "kept: added up on chip where they fit, else written to memory and read again; written: each tile writes its "
        "own, and nothing reads them (SCALE-Sim).")] = "kept"
    cut: Annotated[Literal["auto", "none"], Knob(
        "auto: a product is cut into 1, 2, 4 ... 256 parts along the operand that is swept, the fastest; none: it runs "
        "whole (SCALE-Sim).")] = "auto"
    vector: Annotated[OptionalFlopRate, Knob("Rate of the vector unit; left out: what is no product takes its bytes at "
                                             "memory bandwidth alone.", gt=0)] = default(None)
    fp8_rate: Annotated[float | None, Knob("Speed of fp8 products over bf16; left out: the device's, or they are "
                                           "refused.", gt=0)] = None
    int8_rate: Annotated[float | None, Knob("The same of int8.", gt=0)] = None
    fp32_rate: Annotated[float | None, Knob("The same of fp32.", gt=0)] = None
    unknown: Annotated[Literal["refuse", "roofline"], Knob(
        "A node that names no kernel: refused; or its flops at the peak or its bytes, the longer.")] = "refuse"
    missing: Annotated[OptionalTime, Knob("Time of a host node without a recorded one; left out: it is refused.")
                       ] = default(None)

    @property
    def _own(self) -> _Sheet:
        if self.device is not None:
            return _sheet(self.device)
        return _Sheet(self.rows or 0, self.columns or 0, 1, 0.0, None, None, None, ())

    @property
    def geometry(self) -> Arrays:
        """The arrays and their buffers, completed from the device."""
        own = self._own
        total = own.buffer if self.buffer is None else float(self.buffer)
        third = float("nan") if total is None else total / 3
        ifmap, filters, ofmap = (third if size is None else float(size) for size in
                                 (self.ifmap_buffer, self.filter_buffer, self.ofmap_buffer))
        return Arrays(self.rows or own.rows, self.columns or own.columns, self.arrays or own.arrays,
                      self.dataflow or own.dataflow or "weight_stationary", ifmap, filters, ofmap,
                      overlapped=(self.tiles or own.tiles) == "overlapped", kept=self.partial_sums == "kept",
                      cut=self.cut == "auto")

    @property
    def rate(self) -> float:
        """Cycles per ns."""
        return self._own.clock if self.clock is None else float(self.clock)

    @property
    def chip(self) -> Chip:
        """The model that times kernels."""
        from astrarium.compute.systolic_times import Chip

        speeds = ((each, self.speed(each)) for each in ("bf16", "fp16", *RATES))
        return Chip(self.geometry, self.rate, None if self.vector is None else float(self.vector),
                    tuple((each, speed) for each, speed in speeds if speed is not None))

    @property
    def peak(self) -> FlopRate:
        """All arrays' multiply-adds, flop/ns, in 16 bits."""
        return FlopRate.of(self.chip.peak)

    def speed(self, precision: str) -> float | None:
        """Products per cycle in a number format, over those in 16 bits; None if unknown."""
        own = {**dict(self._own.rates), "bf16": 1.0, "fp16": 1.0}
        found = getattr(self, RATES[precision]) if precision in RATES else None
        return own.get(precision.removesuffix("_block")) if found is None else float(found)

    def peak_at(self, precision: str) -> float | None:
        """The peak in a number format; None if unknown."""
        speed = self.speed(precision)
        return None if speed is None else float(self.peak) * speed

    def durations(self, nodes: ComputeNodes) -> npt.NDArray[np.int64]:
        """Kernels by the arrays or the vector unit, recorded times of host nodes. Raises InputError for a node without
        a kernel, for a number format without a rate, and where `memory.bandwidth` is not said."""
        from astrarium.compute.systolic_times import durations

        return durations(self.chip, nodes, self.unknown == "roofline", self.missing)
