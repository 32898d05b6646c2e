"""A device model corrected by a user's own timings, and the file that holds them."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from astrarium.compute.kernels import DeviceModel, Machine, from_sheet, latency_ns, load
from astrarium.compute.kernels.asked import STREAMS, normalised
from astrarium.compute.kernels.correction import Correction, corrected_by
from astrarium.compute.kernels.predict import no_rates
from astrarium.compute.timings import Timing
from astrarium.engine.plugins.kernels import tabled
from astrarium.errors import InputError
from astrarium.vocab import Kernel

__all__ = ["Calibration", "calibrated", "dumps", "load_calibrated", "refusal", "unseen_errors"]

FORMAT = 1
FOLDS = 5
"""Parts into which rows are cut to judge a calibration; a class with fewer rows is not judged."""
F64 = npt.NDArray[np.float64]


class Calibration(Struct, frozen=True, eq=False):
    """`base`: a measured device, or a data sheet; `rows`: "family/precision" -> (shape [columns, n], ns [n])."""

    base: str | Machine
    rows: Mapping[str, tuple[F64, F64]]
    stream: float = 1.0     # measured / predicted time of kernels that move bytes

    def model(self) -> DeviceModel:
        """The base with every correction."""
        plain = load(self.base) if isinstance(self.base, str) else from_sheet(self.base)
        machine = replace(plain.machine, stream=tuple((size, ns * self.stream) for size, ns in plain.machine.stream))
        found = {name: _correction(plain, name, *rows) for name, rows in self.rows.items()}
        return replace(plain, machine=machine, corrections=MappingProxyType(found))


def refusal(base: str | Machine) -> Callable[[Kernel], str]:
    """Why a base cannot be corrected by a kernel: it has neither rows nor a peak at its precision; else ""."""
    plain = load(base) if isinstance(base, str) else from_sheet(base)
    return functools.cache(lambda kernel: no_rates(plain, kernel))


def _correction(plain: DeviceModel, name: str, shape: F64, ns: F64) -> Correction:
    family, precision = name.split("/")
    return corrected_by(*plain.residual(family, precision, shape, ns, alone=True))


def calibrated(base: str | Machine, timings: Sequence[Timing]) -> Calibration:
    """A calibration by timings."""
    plain = load(base) if isinstance(base, str) else from_sheet(base)
    groups: dict[str, list[tuple[F64, float]]] = defaultdict(list)
    streams = []
    for kernel, ns in timings:
        if kernel.kind in STREAMS:
            streams.append(ns / latency_ns(plain, [kernel])[0])
        else:
            asked, = normalised(tabled((kernel,)).parts)
            groups[f"{asked.family}/{asked.precision}"].append((asked.shape[:, 0], ns / asked.times[0]))
    rows = {name: (np.array([shape for shape, _ in found]).T, np.array([ns for _, ns in found]))
            for name, found in sorted(groups.items())}
    return Calibration(base, MappingProxyType(rows), float(np.median(streams)) if streams else 1.0)


def unseen_errors(given: Calibration) -> dict[str, tuple[tuple[float, float], tuple[float, float]]]:
    """"family/precision" -> ((median, p90) as the base has it, (median, p90) corrected), per cent; every row is
    predicted by a calibration without its fifth of the rows. Classes with fewer than five rows have no errors."""
    plain = replace(given, rows=MappingProxyType({})).model()
    out = {}
    for name, (shape, ns) in given.rows.items():
        if len(ns) < FOLDS:
            continue
        family, precision = name.split("/")
        before = np.abs(plain.latency_ns(family, precision, shape, alone=True) / ns - 1) * 100
        after, fold = np.empty(len(ns)), np.random.default_rng(0).permutation(len(ns)) % FOLDS
        for each in range(FOLDS):
            seen, rest = fold != each, fold == each
            fixed = {name: _correction(plain, name, shape[:, seen], ns[seen])}
            model = replace(plain, corrections=MappingProxyType(fixed))
            found = model.latency_ns(family, precision, shape[:, rest], alone=True)
            after[rest] = np.abs(found / ns[rest] - 1) * 100
        out[name] = (_two(before), _two(after))
    return out


def _two(errors: F64) -> tuple[float, float]:
    return round(float(np.median(errors)), 2), round(float(np.percentile(errors, 90)), 2)


def dumps(given: Calibration, note: str = "") -> str:
    """The calibration as TOML: the base, its errors as comments, and the rows themselves."""
    lines = ["# Kernel times of a device, by `astrarium calibrate`. In a design: {model: calibrated, file: this file}.",
             *(f"# {line}" for line in note.splitlines()), f"format = {FORMAT}", f"stream = {given.stream:.6g}"]
    if isinstance(given.base, str):
        lines.append(f'base = "{given.base}"')
    else:
        lines += ["", "[machine]", f"bandwidth = {given.base.bandwidth:.17g}", f"units = {given.base.units}",
                  f"peaks = {{{', '.join(f'{name} = {peak:.17g}' for name, peak in given.base.peaks.items())}}}"]
    for name, (shape, ns) in given.rows.items():
        rows = ",\n".join(f"  [{', '.join(f'{x:.17g}' for x in (*column, time))}]" for column, time in zip(shape.T, ns))
        lines += ["", f'[rows."{name}"]', "values = [      # shape columns, ns", rows, "]"]
    return "\n".join(lines) + "\n"


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
    if data.get("format") != FORMAT:
        raise InputError(path, "is no calibration of kernels", expected="a file that `astrarium calibrate` wrote")
    try:
        rows = {name: _columns(each["values"]) for name, each in data.get("rows", {}).items()}
        base: str | Machine = data["base"] if "base" in data else _machine(data["machine"])
        return Calibration(base, MappingProxyType(rows), float(data["stream"])).model()
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(path, f"is a damaged calibration: {error}") from None


def _columns(values: Any) -> tuple[F64, F64]:
    table = np.array(values, np.float64).T
    return table[:-1], table[-1]


def _machine(data: Mapping[str, Any]) -> Machine:
    return Machine("the data sheet", dict(data["peaks"]), float(data["bandwidth"]), int(data["units"]))
