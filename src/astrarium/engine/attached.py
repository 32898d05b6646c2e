"""Memories at switches, as the engine takes them: NPUs without a rank, in places that their dims have for them.

Inside the engine a dim with k memories at its switches has k more places, the last ones (`Dim.ends`), so that routes,
ports and traffic need to know of nothing but the links' own bandwidths. Callers see the NPUs' numbers, and the
memories' ports as the numbers from `Plan.npus` on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Dim, Order, Plan, Shape
from astrarium.errors import InternalError, UnsupportedError

__all__ = ["run_attached", "widened"]

I32 = npt.NDArray[np.int32]


def run_attached(plan: Plan, run: Callable[[Plan], Outcome]) -> Outcome:
    """`run` of a plan with memories at switches; traffic with the caller's numbers."""
    outcome, number = run(widened(plan)), _numbers(plan)
    return replace(outcome, **{name: np.where(ends < 0, ends, number[ends]).astype(np.int32) for name, ends in
                               (("link_from", outcome.link_from), ("link_to", outcome.link_to))})


def widened(plan: Plan) -> Plan:
    """The plan with memories as the last places of their dims.

    Raises UnsupportedError where the network is a graph, links or NPUs change their speed, or the rule book is
    ASTRA-sim's; InternalError for memories that are not at a switch, or not in the order of their dims.
    """
    if plan.network.graph is not None or plan.changes is not None or plan.policy.order != Order.CANONICAL:
        raise UnsupportedError("memory", "memories at switches of a graph, or beside speeds that change",
                               expected="a network of dims whose speeds stay")
    at, count = [each.dim for each in plan.attached], len(plan.network.dims)
    if at != sorted(at) or not all(0 <= d < count and plan.network.dims[d].shape == Shape.SWITCH for d in at):
        raise InternalError("the engine refused its plan: memories that are at no switch")
    dims, places = _wide(plan), _places(plan)
    rates = plan.reduce_bandwidth
    if rates.size:
        rates = np.zeros(int(np.prod([dim.npus for dim in dims])))
        rates[places] = plan.reduce_bandwidth
    return replace(plan, npus=int(np.prod([dim.npus for dim in dims])), npu_of=places[plan.npu_of], attached=(),
                   network=replace(plan.network, dims=dims), reduce_bandwidth=rates)


def _wide(plan: Plan) -> tuple[Dim, ...]:
    ends = [tuple([each for each in plan.attached if each.dim == d]) for d in range(len(plan.network.dims))]
    return tuple([replace(dim, npus=dim.npus + len(own), ends=own)
                  for dim, own in zip(plan.network.dims, ends, strict=True)])


def _places(plan: Plan) -> I32:
    """[npus] number of each NPU where dims have further places."""
    left, place, stride = np.arange(plan.npus), np.zeros(plan.npus, np.int64), 1
    for dim, wide in zip(plan.network.dims, _wide(plan), strict=True):
        left, coordinate = np.divmod(left, dim.npus)
        place += coordinate * stride
        stride *= wide.npus
    return place.astype(np.int32)


def _numbers(plan: Plan) -> I32:
    """[places] NPU of each place; of other places the numbers after those of NPUs, in order."""
    places, total = _places(plan), int(np.prod([dim.npus for dim in _wide(plan)]))
    number = np.full(total, -1, np.int32)
    number[places] = np.arange(plan.npus)
    others = number < 0
    number[others] = np.arange(plan.npus, total)
    return number
