"""Technologies of links and of memory: rows that a dim (`network.dims[].link`) or a memory (`memory.technology`)
names, as numbers."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from astrarium.catalog import load, row_of
from astrarium.catalog.files import VARIABLE
from astrarium.units import Bandwidth, Bytes, EnergyPerByte, Length, Money, Power, Quantity, Time

__all__ = ["LinkTechnology", "MemoryTechnology", "Technologies", "link_technology", "memory_technology"]


class LinkTechnology(Struct, frozen=True):
    """One link, with what is at both of its ends; None where no source says it.

    `bandwidth` byte/ns, one direction. `energy` nJ of a byte that crosses it. `power` W, at most. `latency` ns of the
    electronics at both ends; `delay` ns of a metre. `reach` m. `price` US dollars.
    """

    name: str
    bandwidth: float
    energy: float | None
    power: float | None
    latency: float
    delay: float
    reach: float | None
    price: float | None


class MemoryTechnology(Struct, frozen=True):
    """One stack, chip or module: bytes, byte/ns. `energy`: nJ of a byte read or written, `price`: US dollars; both may
    be missing."""

    name: str
    capacity: float
    bandwidth: float
    energy: float | None
    price: float | None


class Technologies:
    """The names of a kind of rows, `links` or `memories`, with those of files of the user's own."""

    def __init__(self, kind: str):
        self.kind = kind

    def names(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(load(self.kind))

    def load(self, name: str) -> Any:
        """The row."""
        return load(self.kind)[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in load(self.kind)


def link_technology(name: str) -> LinkTechnology:
    """A link technology by name. Raises InputError with the nearest match."""
    return _link(name, os.environ.get(VARIABLE, ""))


@functools.cache
def _link(name: str, files: str) -> LinkTechnology:
    """A module that draws `power` sends and receives at its rate: a bit takes (power of both ends) / (2 x rate)."""
    del files       # which rows there are depends on them
    row = row_of("links", name)
    bandwidth = float(Bandwidth(row["bandwidth"]))
    power, energy = _of(row, "power", Power), _of(row, "energy", EnergyPerByte)
    if energy is None and power is not None:
        energy = power / (2 * bandwidth)
    if power is None and energy is not None:
        power = 2 * bandwidth * energy
    return LinkTechnology(name, bandwidth, energy, power,
                          _of(row, "latency", Time) or 0.0, _of(row, "delay", Time) or 0.0, _of(row, "reach", Length),
                          _of(row, "price", Money))


def memory_technology(name: str) -> MemoryTechnology:
    """A memory technology by name. Raises InputError with the nearest match."""
    return _memory(name, os.environ.get(VARIABLE, ""))


@functools.cache
def _memory(name: str, files: str) -> MemoryTechnology:
    del files
    row = row_of("memories", name)
    return MemoryTechnology(name, float(Bytes(row["capacity"])), float(Bandwidth(row["bandwidth"])),
                            _of(row, "energy", EnergyPerByte), _of(row, "price", Money))


def _of(row: Mapping[str, Any], key: str, kind: type[Quantity]) -> float | None:
    return float(kind(row[key])) if key in row else None
