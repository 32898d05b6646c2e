"""How far measured serving rows of a stack lay from predictions, and what that means for a rate."""

from __future__ import annotations

from astrarium import catalog
from astrarium.compute import kernels
from astrarium.cost.interval import SHARE, Interval
from astrarium.planner.machine import Machine
from astrarium.planner.serving.ceiling import Ceiling
from astrarium.planner.serving.engine import Engine
from astrarium.planner.serving.pools import PoolsCeiling

__all__ = ["interval_of", "span_of"]

NOTHING = 1e-6      # requests/s


def interval_of(stack: str | None, machine: Machine, engine: Engine) -> Interval:
    """The interval of TPOT of an engine of a stack: that of the cells (model, system) of unseen measured rows; unknown
    where these have no row of the device, for pools, or where times are not measured."""
    device = kernels.named(machine.device) or machine.device
    row = catalog.load("serving_intervals").get(stack or "")
    if row is None:
        return Interval(stack, device, 0, why="the design names no software stack" if stack is None else
                        f"stack {stack} has no judged serving rows")
    rows = int(row["rows"])
    if machine.compute.tag != "measured" or machine.collective.model != "measured":
        return Interval(stack, device, rows, why=f"kernels are {machine.compute.tag}, collectives "
                                                 f"{machine.collective.model}: not both measured")
    if device not in row["devices"]:
        return Interval(stack, device, rows, why=f"no measured serving row of stack {stack} on {device}")
    if engine.prefill:
        return Interval(stack, device, rows, why="the rows are of engines that prefill and decode")
    return Interval(stack, ", ".join(row["devices"]), rows, float(row["low"]), float(row["high"]), SHARE,
                    of=f" (TPOT; {row['cells']} cells of model and system, of one weight" + (
                        ": too few, so the interval is that of all serving stacks)" if row["borrowed"] else ")"))


def span_of(rate: float, ceiling: Ceiling | PoolsCeiling, within: Interval) -> tuple[float, float] | None:
    """The rates at which the limits hold if steps are as much longer or shorter as the interval says, by the first
    guess of such steps; None without an interval."""
    guess = ceiling.guess()
    if within.low is None or within.high is None or guess < NOTHING:
        return None
    return rate * ceiling.guess(within.high) / guess, rate * ceiling.guess(within.low) / guess
