"""Fabrics on which collectives were measured: the rows of `catalog/collectives.toml` as values.

A fabric is either the links inside one host (`kind = "host"`: lines per operation and number of ranks) or the network
between hosts (`kind = "hosts"`: lines of an all_reduce of two hosts, and perhaps lines of operations of so many hosts
and ranks in each, "2x8"). A line is [latency in ns, share]: bus bandwidth is share x link, of lines of several hosts
share x link x ranks per host. A fabric without lines names the fabrics that replace it (`like`); its link rate is its
own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from astrarium import catalog
from astrarium.errors import InputError, nearest
from astrarium.units import Bandwidth
from astrarium.vocab import CommOp

__all__ = ["Fabric", "Line", "fabric", "names"]

Line = tuple[float, float]
Lines = tuple[Line, ...]

OF_TRAINING = (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL)


class Fabric(Struct, frozen=True):
    """`link`: bytes/ns out of one NPU as the data sheet has it. `ops`: op -> ranks -> lines (kind host); `lines`: of
    two hosts (kind hosts). `like`: fabrics whose lines are taken, with this link. `exchange`: kernel (DeepEP's and
    others that exchange tokens of experts) -> dispatch, combine -> (hosts, ranks per host) -> lines. `in_network`: the
    switch reduces (NVLink SHARP). `over`: op -> (hosts, ranks per host) -> lines (kind hosts), measured with `host`
    inside the hosts."""

    name: str
    kind: str
    link: float
    ops: Mapping[CommOp, Mapping[int, Lines]]
    lines: Lines
    like: tuple[Fabric, ...]
    exchange: Mapping[str, Mapping[str, Mapping[tuple[int, int], Lines]]]
    in_network: bool = False
    over: Mapping[CommOp, Mapping[tuple[int, int], Lines]] = field(default_factory=dict)
    host: str = ""

    @property
    def measured(self) -> tuple[Fabric, ...]:
        """The fabrics with lines: this one, or those that replace it."""
        return self.like or (self,)

    @property
    def complete(self) -> bool:
        """Whether each collective that a training step has was measured, for groups of two and more."""
        return all(each.lines or all(op in each.ops and min(each.ops[op]) <= 2 for op in OF_TRAINING)
                   for each in self.measured)


def names(kind: str = "") -> tuple[str, ...]:
    """Fabrics of a kind (none: all), in the order of the catalog."""
    return tuple(name for name, row in catalog.load("collectives").items() if not kind or row["kind"] == kind)


@cache
def fabric(name: str, path: str = "fabric") -> Fabric:
    """A fabric by name. Raises InputError with the nearest match."""
    rows = catalog.load("collectives")
    if name not in rows:
        raise InputError(path, f"{name[:60]!r} has no measured collectives", expected="one of " + ", ".join(rows),
                         did_you_mean=nearest(name, rows))
    return read(name, rows)


def read(name: str, rows: Mapping[str, Mapping[str, Any]]) -> Fabric:
    """The fabric `name` of `rows`, a catalog file as plain data."""
    row = rows[name]
    reduces = row.get("in_network", False)
    several = row["kind"] == "hosts"
    tables = {CommOp[op.upper()]: by_ranks for op, by_ranks in row.get("ops", {}).items()}
    ops = {} if several else {op: {int(n): _lines(lines) for n, lines in by_ranks.items()}
                              for op, by_ranks in tables.items()}
    over = {op: {_layout(text, f"collectives.{name}.ops.{op.name.lower()}"): _lines(lines)
                 for text, lines in by_ranks.items()} for op, by_ranks in tables.items()} if several else {}
    return Fabric(name, row["kind"], float(Bandwidth(row["link"])), ops, _lines(row.get("lines", ())),
                  tuple(_standing(read(other, rows), reduces) for other in row.get("like", ())),
                  {kernel: {phase: {_group(text, f"collectives.{name}.exchange.{kernel}"): _lines(lines)
                                    for text, lines in by_group.items()} for phase, by_group in phases.items()}
                   for kernel, phases in row.get("exchange", {}).items()},
                  reduces, over, row.get("host", ""))


def _group(text: str, where: str) -> tuple[int, int]:
    """Hosts and ranks per host of "8" or "2x8"."""
    return (1, int(text)) if text.isdecimal() else _layout(text, where)


def _layout(text: str, where: str) -> tuple[int, int]:
    """Hosts and ranks per host of a column such as "2x8"."""
    hosts, cross, ranks = text.partition("x")
    if not (cross and hosts.isdecimal() and ranks.isdecimal() and int(hosts) > 1 and int(ranks)):
        raise InputError(f"{where}.{text[:20]}", "is no group of several hosts",
                         expected='hosts x ranks in each, such as "2x8"')
    return int(hosts), int(ranks)


def _standing(other: Fabric, reduces: bool) -> Fabric:
    """`other` in place of a fabric that `reduces` in its switch or not. Where it does not, an all_reduce is a
    reduce_scatter and an all_gather, and has no more bus bandwidth than the first of these."""
    ops = other.ops
    if reduces or not other.in_network or not {CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER} <= set(ops):
        return other
    best = {ranks: max(share for _, share in lines) for ranks, lines in ops[CommOp.REDUCE_SCATTER].items()}
    ring = {ranks: tuple((latency, min(share, best.get(ranks, share))) for latency, share in lines)
            for ranks, lines in ops[CommOp.ALL_REDUCE].items()}
    return replace(other, ops={**ops, CommOp.ALL_REDUCE: ring}, in_network=False)


def _lines(rows: Any) -> Lines:
    return tuple((float(latency), float(share)) for latency, share in rows)
