"""The interval of a step time: how far measured steps of a software stack on a device lay from predictions."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from astrarium import catalog
from astrarium.design import Design

if TYPE_CHECKING:       # other workloads start without them
    from astrarium.workload.transformer import Transformer

__all__ = ["FEWEST", "SHARE", "Interval", "device_of", "interval_of", "is_wide", "tied", "validated_stack"]

SHARE = 0.8
WIDE = 16           # hosts over which gradients are reduced, from which rows are scattered by the network
FEWEST = 10         # rows below which the ends of an interval would be the largest errors themselves


class Interval(Struct, frozen=True):
    """`share` of `rows` unseen rows of a stack on a device were measured between `low` and `high` times the predicted
    time. Both are None for an unvalidated design; `why` says what it lacks. `of`: of which part of the
    rows it is."""

    stack: str | None
    device: str
    rows: int
    low: float | None = None
    high: float | None = None
    share: float = SHARE
    why: str = ""
    of: str = ""

    @property
    def validated(self) -> bool:
        """Whether there are rows enough."""
        return self.low is not None

    def around(self, value: float, power: int = 1) -> tuple[float, float] | None:
        """(low, high) of a figure that goes with the time (`power` 1) or is a rate (-1); None without an interval."""
        if self.low is None or self.high is None:
            return None
        return (value * self.low, value * self.high) if power > 0 else (value / self.high, value / self.low)

    @property
    def words(self) -> str:
        """What the interval rests on, or why there is none."""
        if not self.validated:
            return f"unvalidated: {self.why}"
        rows = f"{self.rows} unseen measured rows of stack {self.stack} on {self.device}{self.of}"
        return f"{100 * self.share:.0f} % of {rows}"


def device_of(design: Design) -> str:
    """The name under which a design's device has intervals: that of its measured kernels; nothing for other models."""
    if design.compute.tag != "measured":
        return ""
    from astrarium.compute import kernels

    device = str(getattr(design.compute, "device", ""))
    return kernels.named(device) or device


def is_wide(design: Design) -> bool:
    """Whether a training design reduces gradients over so many hosts that its rows may have an interval of their own:
    `WIDE` of the network's innermost dim, or more."""
    work, host = cast("Transformer", design.workload), design.network.flat[0].npus
    return work.tp * work.cp * work.dp >= WIDE * host


def interval_of(design: Design) -> Interval | None:
    """The interval of the step time of a training design; None for other workloads."""
    if design.workload.tag != "transformer":
        return None
    device, stack = device_of(design), design.stack
    row, of = catalog.load("intervals").get(stack or "", {}).get(device), ""
    if row is not None and "wide" in row:
        wide = is_wide(design)
        row, of = (row["wide"] if wide else row), f", gradients over {'' if wide else 'fewer than '}{WIDE} hosts"
        of += " or more" if wide else ""
    rows = 0 if row is None else row["rows"]
    why = _lacks(design, device) or (f"{rows} unseen measured rows of stack {stack} on {device}" if rows < FEWEST
                                     else "")
    if why or row is None:
        return Interval(stack, device, rows, why=why)
    return Interval(stack, device, rows, row["low"], row["high"], of=of)


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
    """Of `stacks` with rows enough on a device of the catalog, the one with the narrowest interval."""
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
