"""Quantities with units: text at the border, one base unit inside.

Base units: byte, ns, byte/ns, flop/ns, W, nJ/byte, nJ/flop, m, $, $/h, $/kWh, gCO2/kWh, kgCO2, h. 1 GB/s = 1 byte/ns,
1 Gb/s = 0.125 byte/ns, 1 TFLOP/s = 1000 flop/ns, 1 W = 1 nJ/ns, 1 pJ/bit = 0.008 nJ/byte, 1 year = 8,760 h.
Decimal prefixes are decimal; KiB..TiB only when typed. A quantity is a float that knows its dimension, so it prints
with a unit and a bare number cannot pass for one.
"""

from __future__ import annotations

import math
import re
import reprlib
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from astrarium.errors import InputError, nearest

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Bandwidth", "Bytes", "CarbonIntensity", "CarbonMass", "EnergyPerByte", "EnergyPerFlop", "EnergyPrice",
           "FlopRate", "Frequency", "HourlyPrice", "Length", "Lifetime", "Money", "OptionalBandwidth", "OptionalBytes",
           "OptionalCarbonIntensity", "OptionalCarbonMass", "OptionalEnergyPerByte", "OptionalEnergyPerFlop",
           "OptionalEnergyPrice", "OptionalFlopRate", "OptionalFrequency", "OptionalHourlyPrice", "OptionalLength",
           "OptionalLifetime", "OptionalMoney", "OptionalPower", "OptionalTime", "Power", "Quantity", "Rounded", "Time",
           "format_bytes", "format_flop_rate", "format_flops", "format_money", "format_rate", "format_time",
           "number_in"]

_NUMBER = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*", re.DOTALL)
_DECIMAL = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15), ("E", 1e18))
_BINARY = (("Ki", 2.0**10), ("Mi", 2.0**20), ("Gi", 2.0**30), ("Ti", 2.0**40))

MICRO = str.maketrans("\u00b5\u03bc", "uu")      # the micro sign and the Greek letter

Units = dict[str, tuple[float, float]]


def _ratio(scale: float, base: float) -> tuple[float, float]:
    """(multiply, divide): a typed number times the first over the second is the value; one is 1 where it can be."""
    if scale >= base and (scale / base).is_integer():
        return scale / base, 1.0
    return (1.0, base / scale) if (base / scale).is_integer() else (scale, base)


def _prefixed(suffix: str, base: float, binary: bool, unit: float = 1.0) -> Units:
    prefixes = _DECIMAL + (_BINARY if binary else ())
    return {prefix + suffix: _ratio(scale * unit, base) for prefix, scale in prefixes}


class Quantity(float):
    """A finite number, 0 or more, in base units: `Time("2 us")` parses text, `Time.of(2000)` takes base units.

    Type checkers see a field of this type as: written as text (or a quantity), read as a float.
    """

    __slots__ = ()
    dimension: ClassVar[str] = ""
    example: ClassVar[str] = ""
    units: ClassVar[Units] = {}
    most: ClassVar[tuple[float, str, str]] = (math.inf, "", "")     # a field's value is below it; what to say else

    if TYPE_CHECKING:
        def __get__(self, obj: object, owner: object = None) -> float: ...
        def __set__(self, obj: object, value: str | float) -> None: ...

    def __new__(cls, value: object) -> Self:
        """Parse `value`. Raises InputError for text without a known unit, and for a bare number other than 0."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            base = cls.parsed(value)
            return float.__new__(cls, base) if _legal(base) else _refuse(value, cls)
        if isinstance(value, (int, float)) and not isinstance(value, (bool, Quantity)) and value == 0:
            return cls.of(0.0)
        number = isinstance(value, (int, float)) and not isinstance(value, (bool, Quantity))
        what = "a number without a unit" if number else f"not a {cls.dimension}"
        raise InputError("", f"{reprlib.repr(value)} is {what}", expected=cls.expected())

    @classmethod
    def of(cls, base: float) -> Self:
        """The quantity of `base` base units. Raises InputError where it is negative or not finite."""
        return float.__new__(cls, base) if _legal(base) else _refuse(base, cls)

    @classmethod
    def parsed(cls, text: str) -> float:
        """Base units in text. Raises InputError."""
        return _parse(text, cls)

    @classmethod
    def expected(cls) -> str:
        """What a message asks for."""
        return f'a {cls.dimension} with its unit, such as "{cls.example}"'

    def __str__(self) -> str:
        return _exact(self)

    def __repr__(self) -> str:
        return f"'{_exact(self)}'"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).of, (float(self),)


def _legal(base: float) -> bool:
    return math.isfinite(base) and base >= 0


def _refuse(value: object, kind: type[Quantity]) -> NoReturn:
    """Say that `value`, as it was written, is below 0 or not finite."""
    raise InputError("", f"{value!r} is not a {kind.dimension}", expected="a finite number, 0 or more")


class Time(Quantity):
    """Base unit ns."""

    __slots__ = ()
    dimension, example = "time", "500 ns"
    most = (2.0**63 / 1e3, "is more than 2^63 ps", "at most 106 days")      # the clock counts ps
    units: ClassVar[Units] = {"ns": (1.0, 1.0), "ps": (1.0, 1e3), "us": (1e3, 1.0), "ms": (1e6, 1.0), "s": (1e9, 1.0)}


class Bytes(Quantity):
    """Base unit byte."""

    __slots__ = ()
    dimension, example = "size", "80 GiB"
    most = (2.0**63, "is more than 2^63 bytes", "at most 9.22 EB")
    units: ClassVar[Units] = _prefixed("B", 1.0, binary=True)


class Bandwidth(Quantity):
    """Base unit byte/ns, one direction."""

    __slots__ = ()
    dimension, example = "bandwidth", "450 GB/s"
    units: ClassVar[Units] = {**_prefixed("B/s", 1e9, binary=True), **_prefixed("b/s", 8e9, binary=False)}


class FlopRate(Quantity):
    """Base unit flop/ns."""

    __slots__ = ()
    dimension, example = "compute rate", "989 TFLOP/s"
    units: ClassVar[Units] = _prefixed("FLOP/s", 1e9, binary=False)


class Power(Quantity):
    """Base unit W, which is nJ/ns."""

    __slots__ = ()
    dimension, example = "power", "700 W"
    units: ClassVar[Units] = {"W": (1.0, 1.0), "mW": (1.0, 1e3), "kW": (1e3, 1.0), "MW": (1e6, 1.0)}


class Frequency(Quantity):
    """Base unit cycle/ns."""

    __slots__ = ()
    dimension, example = "frequency", "1830 MHz"
    units: ClassVar[Units] = {"GHz": (1.0, 1.0), "MHz": (1.0, 1e3), "kHz": (1.0, 1e6), "Hz": (1.0, 1e9)}


class EnergyPerByte(Quantity):
    """Base unit nJ/byte."""

    __slots__ = ()
    dimension, example = "transfer energy", "2 pJ/bit"
    units: ClassVar[Units] = {"pJ/bit": (1.0, 125.0), "nJ/B": (1.0, 1.0)}


class EnergyPerFlop(Quantity):
    """Base unit nJ/flop."""

    __slots__ = ()
    dimension, example = "energy of an operation", "0.5 pJ/FLOP"
    units: ClassVar[Units] = {"pJ/FLOP": (1.0, 1e3), "nJ/FLOP": (1.0, 1.0), "fJ/FLOP": (1.0, 1e6)}


class Length(Quantity):
    """Base unit m."""

    __slots__ = ()
    dimension, example = "length", "2 m"
    units: ClassVar[Units] = {"m": (1.0, 1.0), "um": (1.0, 1e6), "mm": (1.0, 1e3), "cm": (1.0, 1e2), "km": (1e3, 1.0)}


class Money(Quantity):
    """Base unit US dollar. The sign may come first: `$6M` is `6 M$`."""

    __slots__ = ()
    dimension, example = "sum of money", "36000 $"
    units: ClassVar[Units] = {"$": (1.0, 1.0), "k$": (1e3, 1.0), "M$": (1e6, 1.0), "B$": (1e9, 1.0)}

    @classmethod
    def parsed(cls, text: str) -> float:
        """Base units in text, with the sign in front or behind."""
        number, prefix = text.strip(), ""
        if number.startswith("$"):
            number = number[1:].strip()
            if number[-1:] in ("k", "M", "B"):
                number, prefix = number[:-1], number[-1]
            number = f"{number} {prefix}$"
        return _parse(number, cls, text)


class HourlyPrice(Quantity):
    """Base unit US dollar per hour."""

    __slots__ = ()
    dimension, example = "price of an hour", "2.5 $/h"
    units: ClassVar[Units] = {"$/h": (1.0, 1.0)}


class EnergyPrice(Quantity):
    """Base unit US dollar per kWh."""

    __slots__ = ()
    dimension, example = "price of energy", "0.08 $/kWh"
    units: ClassVar[Units] = {"$/kWh": (1.0, 1.0), "$/MWh": (1.0, 1e3)}


class CarbonIntensity(Quantity):
    """Base unit gCO2/kWh."""

    __slots__ = ()
    dimension, example = "carbon intensity", "429 gCO2/kWh"
    units: ClassVar[Units] = {"gCO2/kWh": (1.0, 1.0), "kgCO2/kWh": (1e3, 1.0), "kgCO2/MWh": (1.0, 1.0)}


class CarbonMass(Quantity):
    """Base unit kgCO2."""

    __slots__ = ()
    dimension, example = "mass of CO2", "1312 kgCO2"
    units: ClassVar[Units] = {"kgCO2": (1.0, 1.0), "gCO2": (1.0, 1e3), "tCO2": (1e3, 1.0)}


class Lifetime(Quantity):
    """Base unit hour; a year has 8,760."""

    __slots__ = ()
    dimension, example = "lifetime", "4 years"
    units: ClassVar[Units] = {"h": (1.0, 1.0), "days": (24.0, 1.0), "years": (8760.0, 1.0)}


def _parse(text: str, cls: type[Quantity], typed: str = "") -> float:
    """Base units in `text`; `typed`: what the person wrote, where `text` is that in another order."""
    match = _NUMBER.fullmatch(text) if len(text) <= 100 else None
    shown = (typed or text)[:60]
    if match is None:
        raise InputError("", f"{shown!r} is not a {cls.dimension}", expected=cls.expected())
    number, unit = float(match[1]), match[2].translate(MICRO)
    if not unit and number == 0:
        return 0.0
    if unit not in cls.units:
        what = f"has the unit {unit!r}, which is not one of a {cls.dimension}" if unit else "is a number without a unit"
        raise InputError("", f"{shown!r} {what}", expected=cls.expected(), did_you_mean=_unit_like(unit, cls.units))
    multiply, divide = cls.units[unit]
    return number * multiply / divide


def _unit_like(unit: str, units: Units) -> str | None:
    """The unit that was probably meant: the same letters (`gb/s`, `gbps`), bytes before bits; else the nearest one."""
    for text in (unit, f"{unit.removesuffix('ps')}/s"):
        same = [name for name in units if name.lower() == text.lower()]
        if same:
            bits = "b" in text and "B" not in text and text.endswith("/s") and text != unit
            return min(same, key=lambda name: ("b" in name) != bits)
    return nearest(unit, units)


def number_in(value: float, cls: type[Quantity], unit: str) -> float | None:
    """The number that, typed with `unit`, gives exactly `value` base units (the shortest); None where there is none."""
    multiply, divide = cls.units[unit]
    rough = value * divide / multiply
    tries = [float(f"{rough:.{digits}g}") for digits in (15, 16, 17)]
    tries += [math.nextafter(rough, math.inf), math.nextafter(rough, 0.0)]
    return next((number for number in tries if math.isfinite(number) and number * multiply / divide == value), None)


def _exact(quantity: Quantity) -> str:
    """The shortest text that parses back to the same value; bytes before bits, then the larger unit."""
    if float(quantity) == 0.0:
        return f"0 {quantity.example.split()[1]}"
    texts = []
    for unit, (multiply, divide) in quantity.units.items():
        number = number_in(float(quantity), type(quantity), unit)
        if number is not None:
            digits = repr(number).removesuffix(".0")
            text = f"{digits} {unit}"
            clumsy = (len(digits) > 15, not 1 <= number < 1e6, unit.endswith("b/s"))
            texts.append((*clumsy, len(text), -multiply / divide, text))
    return min(texts)[-1]


class Rounded(str):
    """A number for a person, such as `1.235 ms`, that knows its `value` in base units, and what `unit` these are."""

    __slots__ = ("unit", "value")
    value: float
    unit: str

    def __new__(cls, text: str, value: float, unit: str) -> Self:
        """`text` for `value`."""
        found = str.__new__(cls, text)
        found.value, found.unit = float(value), unit
        return found

    @property
    def exact(self) -> str:
        """All digits of the value, with its unit."""
        digits = f"{self.value:,.0f}" if self.value.is_integer() else f"{self.value:,.12g}"
        return f"${digits}" if self.unit == "$" else f"{digits} {self.unit}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.value, self.unit)


def _rounded(value: float, units: Units, names: tuple[str, ...], digits: int, base: str) -> Rounded:
    """`value` base units in the largest of `names` (ascending) in which it is 1 or more, to `digits` digits."""
    if value == 0 or not math.isfinite(value):
        return Rounded(f"{value if value else 0} {names[0]}", value, base)
    for number, name in reversed([(value * units[name][1] / units[name][0], name) for name in names]):
        if float(f"{abs(number):.{digits}g}") >= 1 or name == names[0]:
            break
    decimals = max(0, digits - 1 - math.floor(math.log10(max(abs(number), 1e-9))))
    text = f"{number:.{decimals}f}"
    return Rounded(f"{text.rstrip('0').rstrip('.') if '.' in text else text} {name}", value, base)


def format_time(ns: float, digits: int = 4) -> str:
    """`ns` for a person: 1234567 -> '1.235 ms'."""
    return _rounded(ns, Time.units, ("ps", "ns", "us", "ms", "s"), digits, "ns")


def format_bytes(size: float, digits: int = 4) -> str:
    """`size` bytes for a person, decimal: 1234567 -> '1.235 MB'."""
    return _rounded(size, Bytes.units, ("B", "kB", "MB", "GB", "TB", "PB"), digits, "B")


def format_rate(bytes_per_ns: float, digits: int = 4) -> str:
    """A bandwidth for a person: 450 -> '450 GB/s'."""
    return _rounded(bytes_per_ns, Bandwidth.units, ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"), digits, "GB/s")


_FLOPS = _prefixed("FLOP", 1.0, binary=False)


def format_flops(flops: float, digits: int = 4) -> str:
    """Floating-point operations for a person: 1.2e15 -> '1.2 PFLOP'."""
    return _rounded(flops, _FLOPS, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"), digits, "FLOP")


def format_flop_rate(flop_per_ns: float, digits: int = 4) -> str:
    """A compute rate for a person: 989000 -> '989 TFLOP/s'."""
    return _rounded(flop_per_ns, FlopRate.units, ("GFLOP/s", "TFLOP/s", "PFLOP/s", "EFLOP/s"), digits, "GFLOP/s")


def format_money(dollars: float, digits: int = 4) -> str:
    """US dollars for a person: 55000000 -> '$55M', 36018 -> '$36,018', 2.5 -> '$2.50'."""
    if abs(dollars) < 1e6:
        return Rounded(f"${dollars:,.0f}" if abs(dollars) >= 1e3 or dollars == 0 else f"${dollars:,.2f}" if
                       abs(dollars) >= 0.1 else f"${dollars:.3g}", dollars, "$")
    number, prefix = _rounded(dollars, Money.units, ("$", "k$", "M$", "B$"), digits, "$").split()
    return Rounded(f"${number}{prefix[:-1]}", dollars, "$")


if TYPE_CHECKING:
    class _Optional:
        """A quantity field that may be left out: written as text or None, read as a float or None."""

        def __get__(self, obj: object, owner: object = None) -> float | None: ...
        def __set__(self, obj: object, value: str | float | None) -> None: ...

    OptionalBandwidth = _Optional
    OptionalBytes = _Optional
    OptionalCarbonIntensity = _Optional
    OptionalCarbonMass = _Optional
    OptionalEnergyPerByte = _Optional
    OptionalEnergyPerFlop = _Optional
    OptionalEnergyPrice = _Optional
    OptionalFlopRate = _Optional
    OptionalFrequency = _Optional
    OptionalHourlyPrice = _Optional
    OptionalLength = _Optional
    OptionalLifetime = _Optional
    OptionalMoney = _Optional
    OptionalPower = _Optional
    OptionalTime = _Optional
else:
    OptionalBandwidth = Bandwidth | None
    OptionalBytes = Bytes | None
    OptionalCarbonIntensity = CarbonIntensity | None
    OptionalCarbonMass = CarbonMass | None
    OptionalEnergyPerByte = EnergyPerByte | None
    OptionalEnergyPerFlop = EnergyPerFlop | None
    OptionalEnergyPrice = EnergyPrice | None
    OptionalFlopRate = FlopRate | None
    OptionalFrequency = Frequency | None
    OptionalHourlyPrice = HourlyPrice | None
    OptionalLength = Length | None
    OptionalLifetime = Lifetime | None
    OptionalMoney = Money | None
    OptionalPower = Power | None
    OptionalTime = Time | None
