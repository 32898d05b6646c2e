"""How far measured serving rows of a stack lay from predicted TPOT."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from astrarium import catalog
from astrarium.compute import kernels
from astrarium.cost.interval import SHARE, Interval
from astrarium.design import Design
from astrarium.workload.inference.config import Inference

__all__ = ["tpot_interval", "widest_interval"]


def tpot_interval(design: Design) -> Interval:
    """The interval of TPOT of a serving design: that of the cells (model, system) of unseen measured rows of its stack.
    Unknown if these have no row of its device, if times are not measured, and for pools. A model without rows is said.
    """
    stack, given = design.stack, getattr(design.compute, "device", None)
    device = (kernels.named(given) or given) if given else design.compute.tag
    row = catalog.load("serving_intervals").get(stack or "")
    if row is None:
        return Interval(stack, device, 0, why="the design names no software stack" if stack is None else
                        f"stack {stack} has no judged serving rows")
    rows = int(row["rows"])
    if design.compute.tag != "measured" or design.collective.model != "measured":
        return Interval(stack, device, rows, why=f"kernels are {design.compute.tag}, collectives "
                                                 f"{design.collective.model}: not both measured")
    if device not in row["devices"]:
        return Interval(stack, device, rows, why=f"no measured serving row of stack {stack} on {device}")
    if not isinstance(design.workload, Inference):
        return Interval(stack, device, rows, why="the rows are of engines that prefill and decode")
    of = f" (TPOT; {row['cells']} cells of model and system, of one weight" + (
        ": too few, so the interval is that of all serving stacks)" if row["borrowed"] else ")")
    known = any(_model(name) == design.workload.model for name in row["models"])
    return Interval(stack, ", ".join(row["devices"]), rows, float(row["low"]), float(row["high"]), SHARE, of=of,
                    extrapolated=() if known else (f"no row is of this model, but of {', '.join(row['models'])}",))


def widest_interval(designs: Sequence[Design]) -> Interval:
    """The interval of TPOT of a fleet: the widest one of its designs, an unvalidated one if there is any."""
    return max(map(tpot_interval, designs), key=lambda each: (not each.known, not each.validated,
                                                           (each.high or 0.0) - (each.low or 0.0)))


@cache
def _model(name: str) -> Any:
    """A model of the catalog."""
    return Inference(name, phase="decode", context=1).model
