"""The file that holds a calibrated device: text of TOML, and back."""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec.structs import asdict

from astrarium.arrays import F64
from astrarium.compute.calibration import Calibration
from astrarium.compute.kernels import DeviceModel, Machine
from astrarium.compute.kernels.power import Chip
from astrarium.errors import InputError

__all__ = ["dumps", "load_calibrated"]

FORMAT = 1


def dumps(given: Calibration, note: str = "") -> str:
    """The calibration as TOML: the base, its errors as comments, and the rows themselves."""
    lines = ["# Kernel times of a device, by `astrarium calibrate`. In a design: {model: calibrated, file: this file}.",
             *(f"# {line}" for line in note.splitlines()), *kernel_lines(given)]
    return "\n".join(lines) + "\n"


def kernel_lines(given: Calibration, table: str = "") -> Iterator[str]:
    """Lines of a calibration, whose tables lie in `table` ("devices.mine.kernels.")."""
    yield from (f"format = {FORMAT}", f"stream = {given.stream:.6g}")
    if given.as_base:
        yield f"as_base = {json.dumps(sorted(given.as_base))}      # classes without a correction"
    if given.framework:
        yield f'framework = "{given.framework}"'
    if isinstance(given.base, str):
        yield f'base = "{given.base}"'
    else:
        yield from ("", f"[{table}machine]", f"bandwidth = {given.base.bandwidth:.17g}", f"units = {given.base.units}",
                    f"peaks = {{{', '.join(f'{name} = {peak:.17g}' for name, peak in given.base.peaks.items())}}}")
    if given.chip is not None:
        yield from ("", f"[{table}chip]", *(f"{name} = {value:.17g}" for name, value in asdict(given.chip).items()))
    for name, (shape, ns) in given.rows.items():
        rows = ",\n".join(f"  [{', '.join(f'{x:.17g}' for x in (*column, time))}]" for column, time in zip(shape.T, ns))
        yield from ("", f'[{table}rows."{name}"]', "values = [      # shape columns, ns", rows, "]")


def load_calibrated(path: str) -> DeviceModel:
    """The model of a file that `dumps` made; a file is read again only after it has changed. Raises InputError where it
    is none."""
    try:
        about = os.stat(path)
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from None
    return _loaded(path, (about.st_mtime_ns, about.st_size, about.st_ino))


@functools.lru_cache(maxsize=8)
def _loaded(path: str, _: tuple[int, ...]) -> DeviceModel:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        data = toml.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(path, f"is no TOML: {error}") from None
    data = _of_catalog(path, data)
    if data.get("format") != FORMAT:
        raise InputError(path, "is no calibration of kernels", expected="a file that `astrarium calibrate` wrote")
    try:
        rows = {name: _columns(each["values"]) for name, each in data.get("rows", {}).items()}
        base: str | Machine = str(data["base"]) if "base" in data else _machine(data["machine"])
        chip = Chip(**data["chip"]) if "chip" in data else None
        return Calibration(base, MappingProxyType(rows), _above(data["stream"], "stream"),
                           frozenset(data.get("as_base", ())), str(data.get("framework", "")), chip).model()
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(path, f"is a damaged calibration: {error}") from None


def _of_catalog(path: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The calibration in a file of catalog rows: that of its one device with kernels."""
    devices = data.get("devices", {})
    if not isinstance(devices, Mapping) or not devices:
        return data
    found = [row["kernels"] for row in devices.values() if isinstance(row, Mapping) and "kernels" in row]
    if len(found) != 1 or not isinstance(found[0], Mapping):
        raise InputError(path, f"has {len(found)} devices with kernels", expected="one")
    return found[0]


def _columns(values: Any) -> tuple[F64, F64]:
    table = np.array(values, np.float64).T
    if table.ndim != 2 or not (np.isfinite(table).all() and (table >= 0).all() and (table[-1] > 0).all()):
        raise ValueError("each row of values needs the sizes of a kernel and its time")
    return table[:-1], table[-1]


def _above(value: Any, name: str) -> float:
    if not 0 < float(value) < np.inf:
        raise ValueError(f"{name} is {value}")
    return float(value)


def _machine(data: Mapping[str, Any]) -> Machine:
    peaks = {name: _above(peak, f"peak {name}") for name, peak in data["peaks"].items()}
    return Machine("the data sheet", peaks, _above(data["bandwidth"], "bandwidth"), int(_above(data["units"], "units")))
