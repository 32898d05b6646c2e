"""Numbers for people: per quantity its units in ascending order, the text of a tick, and the hover text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

__all__ = ["LADDERS", "axis_unit", "exact", "one_unit", "quantity_of", "rounded", "tick_text", "ticks", "unit_of"]

Ladder = tuple[tuple[float, str], ...]
LADDERS: dict[str, Ladder] = {
    "count": ((1.0, ""),),
    "number": ((1.0, ""), (1e6, "million"), (1e9, "billion"), (1e12, "trillion")),
    "share": ((0.01, "%"),),
    "time": ((1e-3, "ps"), (1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")),
    "bytes": ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"), (1e15, "PB")),
    "rate": ((1e-9, "B/s"), (1e-6, "kB/s"), (1e-3, "MB/s"), (1.0, "GB/s"), (1e3, "TB/s"), (1e6, "PB/s")),
    "flop": ((1.0, "FLOP"), (1e9, "GFLOP"), (1e12, "TFLOP"), (1e15, "PFLOP"), (1e18, "EFLOP"), (1e21, "ZFLOP")),
    "flop_rate": ((1e-3, "MFLOP/s"), (1.0, "GFLOP/s"), (1e3, "TFLOP/s"), (1e6, "PFLOP/s"), (1e9, "EFLOP/s")),
    "intensity": ((1.0, "FLOP/B"),),
    "money": ((1.0, "$"), (1e3, "k$"), (1e6, "M$"), (1e9, "B$")),
    "power": ((1.0, "W"), (1e3, "kW"), (1e6, "MW"), (1e9, "GW")),
    "energy": ((1.0, "J"), (1e3, "kJ"), (1e6, "MJ"), (1e9, "GJ"), (1e12, "TJ")),
    "mass": ((1.0, "kg"), (1e3, "t"), (1e6, "kt")),
    "per_second": ((1.0, "/s"),),
}
"""Quantity -> (base units, name of the unit), ascending. Base units: as in `units`; a share is 0 to 1."""

FEW = 3     # ticks of a logarithmic axis, fewer of which say too little

OF_NAMES = (
    ("time", re.compile(r"makespan|exposed_comm|compute_time|(ttft|tpot|itl|latency)(_.*)?|[\w.\[\]]+\.latency")),
    ("bytes", re.compile(r"peak_memory|[\w.\[\]]+\.capacity")), ("flop_rate", re.compile(r"compute\.peak")),
    ("share", re.compile("mfu|hfu|tier_use")),
    ("rate", re.compile(r"network_bandwidth|[\w.\[\]]+\.bandwidth(_per_npu)?")), ("power", re.compile("power_.*")),
    ("energy", re.compile("energy|operation_energy|site_energy")), ("mass", re.compile("carbon.*|embodied_carbon")),
    ("money", re.compile("(?!.*_x_)(.*_)?cost(_.*)?")), ("per_second", re.compile(".*_per_second(_per_npu)?|goodput")))
"""Quantity -> names of objectives that have it (figures, and paths of a design); all others are numbers."""


def quantity_of(objective: str) -> str:
    """The quantity of an objective or figure of this name."""
    return next((quantity for quantity, names in OF_NAMES if names.fullmatch(objective)), "number")


def unit_of(value: float, quantity: str) -> tuple[float, str]:
    """(base units, name) of the largest unit in which `value` is 1 or more, to four digits; the smallest of 0."""
    ladder = LADDERS[quantity]
    fitting = [step for step in ladder if float(f"{abs(value) / step[0]:.4g}") >= 1]
    return fitting[-1] if fitting else ladder[0]


def one_unit(quantity: str) -> str:
    """The unit of a quantity that has only one, which an axis then names instead of every tick; else empty."""
    return LADDERS[quantity][0][1] if len(LADDERS[quantity]) == 1 else ""


def axis_unit(values: Sequence[float], quantity: str) -> tuple[float, str]:
    """The unit of a linear axis: that of its largest value."""
    return unit_of(max((abs(each) for each in values if math.isfinite(each)), default=0.0), quantity)


def tick_text(value: float, unit: tuple[float, str], named: bool = False) -> str:
    """A tick in a unit; `named`: with the unit."""
    number = value / unit[0]
    text = f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"
    return f"{text} {unit[1]}".rstrip() if named else text


def rounded(value: float, quantity: str) -> str:
    """A value for a person, to four digits."""
    return tick_text(value, unit_of(value, quantity), named=True)


def exact(value: float | str, quantity: str) -> str:
    """Hover text: rounded to four digits in the fitting unit, then all digits in the base unit where that differs."""
    if isinstance(value, str) or not quantity:
        return str(value)
    if not math.isfinite(value):
        return "none"
    unit = unit_of(value, quantity)
    if len(LADDERS[quantity]) == 1:
        return f"{_digits(value / unit[0], 6)} {unit[1]}".rstrip()
    said = tick_text(value, unit, named=True)
    base = next(name for factor, name in LADDERS[quantity] if factor == 1.0)
    whole = f"{_digits(value, 12)} {base}".rstrip()
    return said if said == whole else f"{said} ({whole})"


def _digits(value: float, most: int) -> str:
    """A number without an exponent, to at least `most` significant digits."""
    if not value:
        return "0"
    decimals = max(0, most - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def ticks(low: float, high: float, log: bool, base: float = 1.0, most: int = 6) -> list[float]:
    """Round values from `low` to `high`, at most about `most` of them; round in units of `base`."""
    if log:
        return _decades(low, high, most)
    low, high = low / base, high / base
    span = high - low or 1.0
    step = 10.0 ** math.floor(math.log10(span / most))
    step *= next(factor for factor in (1, 2, 5, 10, 20) if span / (step * factor) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step * base for index in range(first, last + 1)]


def _decades(low: float, high: float, most: int) -> list[float]:
    """1, 2 and 5 of every decade where they are few, else every n-th decade; of less than a decade evenly spread."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    found = [factor * 10.0**power for power in range(first, last + 1) for factor in (1, 2, 5)]
    found = [value for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
    if len(found) < FEW:
        return [value for value in ticks(low, high, log=False, most=most) if value > 0]
    if len(found) <= most:
        return found
    decades = [value for value in found if f"{value:e}"[0] == "1"]
    every = -(-len(decades) // most)
    return decades[::every]
