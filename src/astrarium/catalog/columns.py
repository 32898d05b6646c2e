"""Columns of the catalog's rows: what each takes, and which a row must have."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from astrarium.errors import InputError, nearest
from astrarium.units import (
    Bandwidth,
    Bytes,
    CarbonIntensity,
    CarbonMass,
    EnergyPerByte,
    EnergyPrice,
    FlopRate,
    Frequency,
    HourlyPrice,
    Length,
    Money,
    Power,
    Quantity,
    Time,
)

__all__ = ["COLUMNS", "PARTS", "PRECISIONS", "Column", "check_row"]

PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8")
PARTS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "device": ("price",), "host": ("price", "share"), "nic": ("price",), "switch": ("price",), "link": ("price",),
    "rental": ("rent",)})
"""Kinds of parts, and the columns of which a row of the kind has exactly one."""
NEEDS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "device": ("device",), "switch": ("ports", "port"), "link": ("rate",), "nic": ("rate",)})
INCLUDED = ("device", "nic")


class Column(Struct, frozen=True):
    """`takes` raises InputError (without a path) for what the column cannot hold; `needed`: a row must have it."""

    takes: Callable[[Any], object]
    needed: bool = False


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError("", f"{value!r:.60} is not text", expected="text")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError("", f"{value!r:.60} is not a count", expected="a whole number above 0")
    return value


def _names(value: Any) -> Sequence[str]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, Sequence) or not found or not all(isinstance(each, str) for each in found):
        raise InputError("", f"{value!r:.60} is not a list of names", expected="a list of names, at least one")
    return found


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError("", f"{value!r:.60} is not a table", expected="a table of settings")
    return value


def _peaks(value: Any) -> Mapping[str, Any]:
    found = _table(value)
    for name, rate in found.items():
        if name not in PRECISIONS:
            raise InputError(name, "is no number format", expected="one of " + ", ".join(PRECISIONS),
                             did_you_mean=nearest(name, PRECISIONS))
        _at(name, FlopRate, rate)
    return found


def _date(value: Any) -> str:
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        raise InputError("", f"{value!r:.60} is not a date", expected="a year, month or day, such as 2024-08")
    return value


def _some_of(names: Sequence[str]) -> Callable[[Any], object]:
    """One of the names, or a list of them."""
    def take(value: Any) -> object:
        each, several = _one_of(*names), isinstance(value, Sequence) and not isinstance(value, str)
        return [each(name) for name in value] if several else each(value)
    return take


def _number(least: float) -> Callable[[Any], float]:
    def take(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < math.inf:
            raise InputError("", f"{value!r:.60} is impossible", expected=f"a number, {least:g} or more")
        return value
    return take


def _positive(kind: type[Quantity]) -> Callable[[Any], Quantity]:
    def take(value: Any) -> Quantity:
        found = kind(value)
        if not found > 0:
            raise InputError("", f"{value!r:.60} is nothing", expected=f"more than 0: {kind.expected()}")
        return found
    return take


def _systolic(value: Any) -> Mapping[str, Any]:
    found = _table(value)
    for name in found:
        if name not in SYSTOLIC:
            raise InputError(name, "is no part of `systolic`", expected="one of " + ", ".join(SYSTOLIC),
                             did_you_mean=nearest(name, SYSTOLIC))
        _at(name, SYSTOLIC[name].takes, found[name])
    for name, column in SYSTOLIC.items():
        if column.needed and name not in found:
            raise InputError(name, "is missing", expected="rows, columns and arrays of a device that has arrays")
    return found


def _one_of(*names: str) -> Callable[[Any], str]:
    def take(value: Any) -> str:
        if value not in names:
            raise InputError("", f"{value!r:.60} is not known", expected="one of " + ", ".join(names),
                             did_you_mean=nearest(str(value), names))
        return str(value)
    return take


TEXT, NEEDED = Column(_text), Column(_text, needed=True)
_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
_ROW = {"title": NEEDED, "source": NEEDED, "checked": TEXT}
_DATED = {**_ROW, "date": Column(_date, needed=True)}
SYSTOLIC: Mapping[str, Column] = MappingProxyType({
    **dict.fromkeys(("rows", "columns", "arrays"), Column(_count, needed=True)), "buffer": Column(_positive(Bytes)),
    "dataflow": Column(_one_of("output_stationary", "weight_stationary", "input_stationary")),
    "tiles": Column(_one_of("apart", "overlapped"))})
"""What the column `systolic` of a device holds: arrays of one NPU, the on-chip memory that feeds them, how they run."""
COLUMNS: Mapping[str, Mapping[str, Column]] = MappingProxyType({
    "devices": {
        **_ROW, "aliases": Column(_names), "peak": Column(_positive(FlopRate), needed=True), "peaks": Column(_peaks),
        "capacity": Column(_positive(Bytes), needed=True), "bandwidth": Column(_positive(Bandwidth), needed=True),
        "memory": TEXT, "units": Column(_count), "clock": Column(_positive(Frequency)), "l2": Column(_positive(Bytes)),
        "power": Column(_positive(Power)), "idle_power": Column(_positive(Power)),
        "scale_up": Column(_positive(Bandwidth)), "systolic": Column(_systolic), "kernels": Column(_table)},
    "networks": {
        **_ROW, "shape": NEEDED, "npus": Column(_count), "bandwidth": Column(_positive(Bandwidth)),
        "bandwidth_per_npu": Column(_positive(Bandwidth)), "latency": Column(Time), "switch_ports": Column(_count)},
    "hosts": {**_ROW, "device": NEEDED, "npus": Column(_count, needed=True), "inner": Column(_names, needed=True),
              "outer": TEXT,
              "power": Column(_positive(Power))},
    "links": {
        **_ROW, "kind": Column(_one_of("package", "electrical", "optical"), needed=True), "one": NEEDED,
        "bandwidth": Column(_positive(Bandwidth), needed=True), "energy": Column(EnergyPerByte), "power": Column(Power),
        "latency": Column(Time), "delay": Column(Time), "reach": Column(_positive(Length)), "price": Column(Money),
        "date": Column(_date)},
    "memories": {
        **_ROW, "one": NEEDED, "capacity": Column(_positive(Bytes), needed=True),
        "bandwidth": Column(_positive(Bandwidth), needed=True), "energy": Column(EnergyPerByte),
        "price": Column(Money), "date": Column(_date)},
    "collectives": {
        **_ROW, "kind": NEEDED, "link": Column(_positive(Bandwidth), needed=True), "technology": TEXT, "error": TEXT,
        "host": TEXT, "ops": Column(_table), "exchange": Column(_table), "borrows": TEXT, "like": Column(_names),
        "latency": Column(Time), **dict.fromkeys(("in_network", "efficiency", "lines"), Column(lambda value: value))},
    "parts": {
        **_DATED, "kind": Column(_one_of(*PARTS), needed=True), "device": TEXT, "npus": Column(_count),
        "price": Column(Money), "share": Column(_number(0)), "rent": Column(HourlyPrice),
        "includes": Column(_some_of(INCLUDED)), "nic": Column(_positive(Bandwidth)), "ports": Column(_count),
        "port": Column(_positive(Bandwidth)), "rate": Column(_positive(Bandwidth)), "power": Column(Power),
        "power_share": Column(_number(0)), "embodied": Column(CarbonMass)},
    "gpus": {
        **_ROW, "device": NEEDED, "gpu": Column(_table, needed=True), "calibrated": Column(_names, needed=True),
        "fitted": NEEDED, "assumed": Column(_names), "libraries": Column(_table),
        "micro": Column(_table)},
    "facilities": {**_DATED, "pue": Column(_number(1), needed=True)},
    "tariffs": {**_DATED, "price": Column(EnergyPrice, needed=True)},
    "regions": {**_DATED, "carbon": Column(CarbonIntensity, needed=True)},
    "costs": {**_DATED, "cost": Column(_table, needed=True)},
    "models": {**_ROW, "aliases": Column(_names), "model": Column(_table, needed=True)},
    "stacks": {**_ROW, **dict.fromkeys(("based_on", "version", "memory", "not_default", "reserve", "reserve_source"),
                                       TEXT),
               "measured": Column(lambda value: value), "runs": Column(_table), "layout": Column(_table),
               "devices": Column(lambda value: value),
               "models": Column(lambda value: value),
               **dict.fromkeys(("workload", "compute", "collective", "system", "policy", "several_hosts"),
                               Column(_table))},
})
"""Kind -> column -> what it takes. Kinds that are not here come with the package alone."""


def check_row(kind: str, path: str, row: Any) -> None:
    """Raises InputError, which names `path`, for a row that its kind cannot have."""
    columns = COLUMNS[kind]
    if not isinstance(row, Mapping):
        raise InputError(path, f"{row!r:.60} is not a row", expected="a table of " + ", ".join(columns))
    for name, value in row.items():
        if name not in columns:
            raise InputError(f"{path}.{name}", f"is no column of {kind}", expected="one of " + ", ".join(columns),
                             did_you_mean=nearest(name, columns))
        _at(f"{path}.{name}", columns[name].takes, value)
    for name, column in columns.items():
        if column.needed and name not in row:
            raise InputError(f"{path}.{name}", "is missing", expected=f"a row of {kind} has it")
    if kind == "parts":
        _check_part(path, row)
    if kind in ("links", "memories") and ("price" in row) != ("date" in row):
        raise InputError(f"{path}.price", "and date go together", expected="a price and the date of the offer, or none")
    if kind == "links" and "energy" in row and "power" in row:
        raise InputError(f"{path}.power", "cannot be combined with energy, which follows from it",
                         expected="one of the two")
    if kind == "networks" and ("bandwidth" in row) == ("bandwidth_per_npu" in row):
        raise InputError(f"{path}.bandwidth", "is needed, or bandwidth_per_npu", expected="one of the two")


def _check_part(path: str, row: Mapping[str, Any]) -> None:
    """What a part of its kind has: one price, and the sizes by which it is counted."""
    prices = PARTS[row["kind"]]
    if sum(name in row for name in ("price", "share", "rent")) != 1 or not any(name in row for name in prices):
        raise InputError(f"{path}.{prices[0]}", f"a {row['kind']} has " + " or ".join(prices) + ", and no other price",
                         expected="one of the two" if len(prices) > 1 else f"{prices[0]} alone")
    for name in NEEDS.get(row["kind"], ()):
        if name not in row:
            raise InputError(f"{path}.{name}", "is missing", expected=f"a {row['kind']} has it")


def _at(path: str, takes: Callable[[Any], object], value: Any) -> None:
    """Raises what `takes` raises, under `path`."""
    try:
        takes(value)
    except InputError as error:
        where = f"{path}.{error.path}" if error.path else path
        raise InputError(where, error.message, expected=error.expected, did_you_mean=error.did_you_mean) from None
