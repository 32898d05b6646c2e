"""Changes of speed that can be honoured: the checks of the compiled core (check_changes.cpp)."""

from __future__ import annotations

import numpy as np

from astrarium.engine.plan import FULL_SPEED, Changes, Changing, Order, Plan
from astrarium.engine.reference.check_schedule import array, require
from astrarium.engine.reference.fabric import fabric_of
from astrarium.errors import UnsupportedError

__all__ = ["check_changes"]


def check_changes(plan: Plan, changes: Changes, takes_graph: bool) -> None:
    """Raise InternalError for arrays that do not fit each other, UnsupportedError for what cannot change so.
    `takes_graph`: the medium has links of its own."""
    columns = [array(getattr(changes, name), kind, name) for name, kind in
               (("time", np.int64), ("what", np.uint8), ("number", np.int32), ("factor", np.int64))]
    require(all(column.size == columns[0].size for column in columns), "changes differ in length")
    if plan.policy.order == Order.ASTRA_SIM and columns[0].size:
        raise UnsupportedError("workload", "changes while it runs, under ASTRA-sim's rule book")
    links = Changing.LINK in columns[1]
    count = {Changing.NPU: plan.npus,
             Changing.LINK: len(fabric_of(plan.network).ports()) if links and takes_graph else 0}
    for row, (time, what, number, factor) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        why = _wrong(time, what, number, factor, count)
        if what == Changing.LINK and not takes_graph:
            why = f"{plan.network.backend} has no links of its own"
        if why:
            raise UnsupportedError("workload", f"change {row}: {why}")


def _wrong(time: int, what: int, number: int, factor: int, count: dict[Changing, int]) -> str:
    """Why a change cannot be; empty where it can."""
    if time < 0:
        return "its time is below 0"
    if not 0 <= factor <= FULL_SPEED:
        return "its factor is not from 0 to 1,000,000 parts per million"
    if what not in tuple(Changing):
        return "of neither an NPU nor a link"
    if not 0 <= number < count[Changing(what)]:
        return f"there is no {'NPU' if what == Changing.NPU else 'link'} {number}"
    return ""
