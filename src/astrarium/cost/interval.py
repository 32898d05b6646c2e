"""The interval of a step time: how far measured steps of a software stack on a device lay from predictions."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from astrarium import catalog
from astrarium.cost.support import SETTINGS, Support, support_of
from astrarium.design import Design

if TYPE_CHECKING:       # other workloads start without them
    from astrarium.workload.transformer import Transformer

__all__ = ["ANYWHERE", "FEWEST", "SHARE", "Interval", "device_of", "further", "interval_of", "is_wide", "tied",
           "validated_stack"]

SHARE = 0.8
WIDE = 16           # hosts over which gradients are reduced, from which rows are scattered by the network
FEWEST = 10         # rows below which the ends of an interval would be the largest errors themselves
ANYWHERE = "anywhere"       # in catalog/intervals.toml: rows of a stack on all its devices


class Interval(Struct, frozen=True):
    """`share` of `rows` unseen rows of a stack on a device were measured between `low` and `high` times the predicted
    time. Both are None where nothing is known; `why` says what the design lacks. `of`: of which part of the rows it is.

    `extrapolated`: what the design has and the rows do not; then both ends are further out by a share of `beyond`.
    Where the device is one of these, `why` says so, and `homes` are the devices of the rows."""

    stack: str | None
    device: str
    rows: int
    low: float | None = None
    high: float | None = None
    share: float = SHARE
    why: str = ""
    of: str = ""
    extrapolated: tuple[str, ...] = ()
    beyond: float = 0.0
    homes: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return self.low is not None

    @property
    def validated(self) -> bool:
        """Whether there are rows enough of the design's own kind."""
        return self.known and not self.extrapolated

    def around(self, value: float, power: int = 1) -> tuple[float, float] | None:
        """(low, high) of a figure that goes with the time (`power` 1) or is a rate (-1); None without an interval."""
        if self.low is None or self.high is None:
            return None
        return (value * self.low, value * self.high) if power > 0 else (value / self.high, value / self.low)

    @property
    def words(self) -> str:
        """What the interval rests on, or why there is none."""
        return f"{self.widened} than that of {self.basis}" if self.widened else self.basis

    @property
    def basis(self) -> str:
        """The rows that the interval is of, or why there is none."""
        if not self.known:
            return f"unvalidated: {self.why}"
        on = ", ".join(self.homes) or self.device
        rows = f"{100 * self.share:.0f} % of {self.rows} unseen measured rows of stack {self.stack} on {on}{self.of}"
        if self.beyond or not self.extrapolated:
            return rows
        return f"unvalidated: {self._settings}; the interval is that of {rows}"

    @property
    def widened(self) -> str:
        """How much further out than the interval of the rows its ends are, and why; empty where they are not."""
        if not (self.known and self.extrapolated and self.beyond):
            return ""
        before = f"unvalidated: {self.why}; extrapolated" if self.why else "extrapolated"
        settings = f" ({self._settings})" if self._settings else ""
        return f"{before}{settings}: each end {100 * self.beyond:.0f} % further out"

    @property
    def _settings(self) -> str:
        return "; ".join(each for each in self.extrapolated if each != self.why)


def device_of(design: Design) -> str:
    """The name under which a design's device has intervals: that of its measured kernels; nothing for other models."""
    if design.compute.tag != "measured":
        return ""
    from astrarium.compute import kernels

    device = str(getattr(design.compute, "device", ""))
    return kernels.named(device) or device


def is_wide(design: Design) -> bool:
    """Whether a training design reduces gradients over enough hosts to have a separate interval:
    `WIDE` of the network's innermost dim, or more."""
    work, host = cast("Transformer", design.workload), design.network.flat[0].npus
    return work.tp * work.cp * work.dp >= WIDE * host


def interval_of(design: Design) -> Interval | None:
    """The interval of the step time of a training design; None for other workloads.

    It is that of the stack's rows on the design's device, or, where these are fewer than `FEWEST`, on all devices.
    Where the design lies outside the support of those rows (a device without rows counts as one axis), the ends go
    further out."""
    if design.workload.tag != "transformer":
        return None
    device, stack = device_of(design), design.stack
    devices = catalog.load("intervals").get(stack or "", {})
    wide = is_wide(design)
    own, of = _part(devices.get(device), wide)
    count = own.get("rows", 0)
    if why := _lacks(design, device):
        return Interval(stack, device, count, why=why)
    few = "" if count >= FEWEST else f"{count} unseen measured rows of stack {stack} on {device}"
    row, of = (own, of) if not few else _part(devices.get(ANYWHERE), wide)
    if row.get("rows", 0) < FEWEST:
        return Interval(stack, device, count, why=few)
    homes = tuple(row["devices"]) if few else ()
    outside = {**({"device": few} if few else {}), **support_of(design).outside(Support(**row["support"]))}
    beyond = further(outside)
    if beyond is None:
        return Interval(stack, device, count, why="further from the measured rows than intervals were judged for: "
                                                  + "; ".join(outside.values()))
    return Interval(stack, device, row["rows"], row["low"] / (1 + beyond), row["high"] * (1 + beyond), why=few, of=of,
                    extrapolated=tuple(outside.values()), beyond=beyond, homes=homes)


def further(outside: Collection[str]) -> float | None:
    """By which share both ends of an interval go further out for a design that is outside the rows' support on some
    axes: more where one of them is a setting. None for more axes than were judged. (tools/extrapolation.py: the least
    with which 80 % of the rows of a regime that neither the fit nor the interval had seen lay within, in 80 % of the
    regimes.)"""
    if not outside:
        return 0.0
    record = catalog.load("extrapolation")
    if len(outside) > max(kind["axes"] for kind in record.values()):
        return None
    return float(record["settings" if set(outside) & set(SETTINGS) else "ranges"]["further"])


def _part(row: Mapping[str, Any] | None, wide: bool) -> tuple[Mapping[str, Any], str]:
    """The part of a record that a design belongs to, and which part that is."""
    if row is None or "wide" not in row:
        return row or {}, ""
    of = f", gradients over {'' if wide else 'fewer than '}{WIDE} hosts{' or more' if wide else ''}"
    return (row["wide"] if wide else row), of


def _lacks(design: Design, device: str) -> str:
    """Why rows of a stack on a device say nothing about a design; empty where they do."""
    if design.stack is None:
        return "the design names no software stack"
    if not device:
        return f"compute.model is {design.compute.tag}, not measured"
    if design.collective.model != "measured":
        return f"collective.model is {design.collective.model}, not measured"
    return "the design has several types of NPUs" if design.npu_types else ""


def validated_stack(device: str, stacks: Container[str]) -> str | None:
    """The stack of `stacks` with the narrowest interval, among those with enough rows on a device of the catalog."""
    from astrarium.compute import kernels

    name = kernels.named(device) or device
    rows = {stack: devices[name] for stack, devices in catalog.load("intervals").items()
            if stack in stacks and name in devices}
    widths = {stack: row["high"] / row["low"] for stack, row in rows.items() if row["rows"] >= FEWEST}
    return min(widths, key=lambda stack: (widths[stack], stack), default=None)


def tied(one: tuple[float, Interval | None], other: tuple[float, Interval | None], power: int = 1) -> bool | None:
    """Whether one of two predicted figures lies within the interval of the other; None where either is unvalidated."""
    (mine, within), (theirs, beside) = one, other
    around = None if within is None else within.around(mine, power)
    across = None if beside is None else beside.around(theirs, power)
    if around is None or across is None:
        return None
    return mine == theirs or around[0] <= theirs <= around[1] or across[0] <= mine <= across[1]
