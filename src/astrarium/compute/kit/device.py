"""From rows of the kit to a device: what it is most like, its calibration, and the file that holds it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import Struct

from astrarium import catalog
from astrarium.compute import kernels
from astrarium.compute.calibration import Calibration, calibrated, refusal
from astrarium.compute.calibration_file import kernel_lines
from astrarium.compute.config import near
from astrarium.compute.kernels import Machine, latency_ns
from astrarium.compute.kernels.asked import STREAMS
from astrarium.compute.kernels.machine import BYTES
from astrarium.compute.kernels.power import CHIPS, GH100, Chip
from astrarium.compute.kit.cases import Case
from astrarium.compute.kit.probe import Driver, Found
from astrarium.compute.timings import Timing
from astrarium.errors import InputError
from astrarium.units import Bandwidth

__all__ = ["KNOWN", "Base", "Device", "base_of", "chip_of_rows", "constants_of", "device_of", "device_text",
           "reached"]

KNOWN: Mapping[str, str] = MappingProxyType({
    "Tesla V100-SXM2-32GB": "v100_sxm2_32gb", "NVIDIA A100-SXM4-40GB": "a100_sxm_40gb",
    "NVIDIA A100-SXM4-80GB": "a100_sxm_80gb", "NVIDIA L40S": "l40s", "NVIDIA H100 80GB HBM3": "h100_sxm",
    "NVIDIA H200": "h200_sxm", "NVIDIA H20": "h20", "NVIDIA B200": "b200", "NVIDIA GB200": "gb200",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx_pro_6000", "AMD Instinct MI300X": "mi300x",
    "AMD Instinct MI325X": "mi325x"})
"""Names that drivers have of devices of the catalog."""
LIMITED = 0.97      # of the highest clock, below which the power limit holds a product
STACK = "pytorch"
LARGE = 3           # caches from which on a stream is out of them
PLAIN = ("add", "mul", "to_bf16")       # operators that take the time of their bytes
Row = tuple[Case, float, float, float]


class Base(Struct, frozen=True):
    """What the rows correct: a device with measured kernels, or a data sheet; `like`: whose name the catalog has; `why`
    is a sentence."""

    machine: str | Machine
    why: str
    like: str = ""


class Device(Struct, frozen=True):
    """A measured device. `operator`, `gap`: ns of the host for an operator, and between kernels; 0: not measured.
    `dropped`: rows of formats without a peak; `rates`: see `reached`."""

    found: Found
    driver: Driver
    base: Base
    calibration: Calibration
    operator: float
    gap: float
    dropped: int
    rates: tuple[float, float]


def device_of(found: Found, driver: Driver, rows: Sequence[Row], timings: Sequence[Timing], base: Base, idle: float,
              operators: int) -> Device:
    """The device of rows; `idle`: W at rest, `operators`: of the step that rows of kind `host` time."""
    refused = refusal(base.machine)
    used = [timing for timing in timings if not refused(timing.kernel)]
    operator, gap = constants_of(rows, operators)
    return Device(found, driver, base, calibrated(base.machine, used, "torch", chip_of_rows(found, driver, rows, idle)),
                  operator, gap, len(timings) - len(used), reached(rows, found.l2))


def base_of(found: Found, timings: Sequence[Timing]) -> Base:
    """The device of the catalog that the driver's name says; else that whose kernels take times most like those
    measured, with its data sheet in proportion. Raises InputError for too few rows."""
    if found.name in KNOWN:
        return _of_name(found.name, KNOWN[found.name])
    products = [each for each in timings if each.kernel.kind == "gemm" and each.kernel.precision == "bf16"
                and not each.kernel.op]
    streams = [each for each in timings if each.kernel.kind in STREAMS and each.kernel.op in PLAIN]
    if not products or not streams:
        raise InputError("calibrate --measure", f"{len(products)} products and {len(streams)} streams were measured, "
                         "which tells no device", expected="a longer --limit, or --base DEVICE")
    rates = {name: (_rate(name, products), _rate(name, streams)) for name in kernels.names()}
    nearest = min(rates, key=lambda name: sum(abs(np.log(each)) for each in rates[name]))
    sheet, (fast, wide) = kernels.load(nearest).machine, rates[nearest]
    machine = Machine("the data sheet", {name: peak * fast for name, peak in sheet.peaks.items()},
                      sheet.bandwidth * wide, found.units)
    return Base(machine, f"{nearest}, the nearest of the catalog, with {fast:.3g} of its peaks and {wide:.3g} of its "
                         "bandwidth (no data sheet was given: --peak, --bandwidth, --units)")


def _of_name(driver: str, like: str) -> Base:
    """A device of the catalog: its kernels, if they are of its memory, else its data sheet."""
    row, named = catalog.device(like), kernels.named(like)
    bandwidth = Bandwidth(row.row["bandwidth"])
    if named is not None and near(bandwidth, kernels.load(named).machine.bandwidth):
        return Base(named, f"{named}, which the driver calls {driver}", like)
    peaks = {name: float(row.peak(name)) for name in dict.fromkeys(("bf16", *row.precisions)) if name in BYTES}
    return Base(Machine("the data sheet", peaks, float(bandwidth), int(row.row["units"])),
                f"the data sheet of {like}, which the driver calls {driver}", like)


def _rate(name: str, timings: Sequence[Timing]) -> float:
    """What a device of the catalog takes for the largest third of kernels, over what they took: the median."""
    largest = sorted(timings, key=lambda each: max(each.kernel.flops, each.kernel.bytes))[-(len(timings) // 3 + 1):]
    told = latency_ns(kernels.load(name), [each.kernel for each in largest])
    return float(np.median(told / [each.ns for each in largest]))


def reached(rows: Sequence[Row], cache: int) -> tuple[float, float]:
    """Highest rates measured: flop/ns of a bf16 product, byte/ns of a stream far beyond the `cache`; 0: of none."""
    products = [2.0 * case.m * case.n * case.k / ns for case, ns, _, _ in rows
                if case.kind == "gemm" and case.precision == "bf16" and case.op != "sustained"]
    streams = [case.bytes / ns for case, ns, _, _ in rows if case.op in PLAIN and case.bytes >= LARGE * cache]
    return max(products, default=0.0), max(streams, default=0.0)


def constants_of(rows: Sequence[Row], operators: int) -> tuple[float, float]:
    """(ns of the host for an operator, ns between kernels beyond those in a CUDA graph); 0: not measured."""
    times = {(case.kind, case.op): ns for case, ns, _, _ in rows if case.kind in ("host", "launch")}
    gap = times.get(("launch", "stream"), 0.0) - times.get(("launch", "graph"), np.inf)
    return times.get(("host", "eager"), 0.0) / operators, max(0.0, gap)


def chip_of_rows(found: Found, driver: Driver, rows: Sequence[Row], idle: float) -> Chip | None:
    """What the chip draws, by the clocks of sustained products that the power limit holds; its `active` (of a unit) and
    `byte` are H100's. None where no clocks or limits are known, or no product meets the limit."""
    if not driver.highest or not driver.limit or not idle:
        return None
    flops = list[float]()
    for case, ns, clock, _ in rows:
        share = clock / driver.highest
        if case.op == "sustained" and 0 < share < LIMITED:
            work, moved = 2.0 * case.m * case.n * case.k, 2.0 * (case.m * case.k + case.k * case.n + case.m * case.n)
            left = driver.limit - idle - GH100.active * found.units * share**3 - GH100.byte * moved / ns
            flops.append(left * ns / (work * share**2))
    if not flops or min(flops) <= 0:
        return None
    return Chip(driver.limit, driver.highest / 1e3, idle, float(np.median(flops)), GH100.active, GH100.byte)


def device_text(device: Device, date: str, errors: Sequence[str]) -> tuple[str, str]:
    """(name, file) of a device: a row of the catalog with its kernels, and a stack with the host's constants."""
    found = device.found
    name = "my_" + re.sub(r"[^a-z0-9]+", "_", found.name.lower()).strip("_")
    table, sheet = f"devices.{name}", _sheet(device)
    sheet["source"] = (f"astrarium calibrate --measure, {date}, {found.versions}, driver {device.driver.version or '-'}"
                       f"; peaks, bandwidth: {device.base.why}; capacity, units, clock, power: the driver")
    calibration = device.calibration
    lines = [f"# {found.name}, measured by `astrarium calibrate --measure`. A design takes it as {{model: calibrated,",
             "# file: this file}, or by its name with --catalog THIS_FILE; plan: --device THIS_FILE.",
             *(f"# {line}" for line in errors), f"[{table}]", *_fields(sheet), "", f"[{table}.kernels]",
             *kernel_lines(calibration, f"{table}.kernels.")]
    return name, "\n".join([*lines, *_stack(device, name)]) + "\n"


def _sheet(device: Device) -> dict[str, Any]:
    """Columns of the catalog, without the source."""
    found, driver, base = device.found, device.driver, device.base
    if base.like:
        row = catalog.device(base.like).row
        sheet: dict[str, Any] = {name: row[name] for name in (
            "peak", "peaks", "bandwidth", "memory", "l2", "scale_up", "idle_power") if name in row}
    else:
        machine = kernels.load(base.machine).machine if isinstance(base.machine, str) else base.machine
        known = {name: _rate_text(peak) for name, peak in machine.peaks.items() if name in catalog.PRECISIONS}
        sheet = {"peak": _rate_text(machine.peak("bf16")), "peaks": known, "bandwidth": f"{machine.bandwidth:.4g} GB/s"}
    sheet = {"title": f"{found.name}, measured", **sheet, "capacity": f"{found.memory // 2**20} MiB",
             "units": found.units}
    sheet |= {"clock": f"{driver.highest:g} MHz"} if driver.highest else {}
    return sheet | ({"power": f"{driver.limit:g} W"} if driver.limit else {})


def _rate_text(peak: float) -> str:
    return f"{peak / 1e3:.4g} TFLOP/s"


def _stack(device: Device, name: str) -> Iterator[str]:
    """Lines of a stack with the host's constants, of a GPU that has them."""
    if not device.operator:
        return
    table, base = f"stacks.{name}_{STACK}", catalog.load("stacks")[STACK]
    software = {**base["workload"]["software"], "host_launch": f"{device.operator / 1e3:.4g} us"}
    compute: dict[str, Any] = {"launch_gap": f"{device.gap / 1e3:.3g} us"} if device.gap else {}
    if device.calibration.chip is not None or device.base.machine in CHIPS:
        compute["clock"] = "sustained"
    yield from ("", f"[{table}]", *_fields({"based_on": STACK, "title": f"PyTorch, eager, on {name}",
                "source": f"host_launch, launch_gap: measured as devices.{name}; else: {STACK}"}),
                f"[{table}.workload]", *_fields({"software": software}), f"[{table}.compute]", *_fields(compute))


def _fields(values: Mapping[str, Any]) -> Iterator[str]:
    """Lines of TOML."""
    yield from (f"{name} = {_value(value)}" for name, value in values.items())


def _value(value: Any) -> str:
    """A value of TOML, of whose texts those of JSON are a part."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_fields(value)) + " }"
    return json.dumps(value, ensure_ascii=False)
