"""Memories at switches, as the engine takes them: NPUs without a rank, in places that their dims have for them.

Inside the engine a dim whose switches have k links to memories has k more places, the last ones (`Dim.ends`), so that
routes, ports and traffic need to know of nothing but the links' own bandwidths; ranks that differ in the link that
they use have their own programs. Callers see the NPUs' numbers, and the memories' ports as the numbers from
`Plan.npus` on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from astrarium.arrays import I32
from astrarium.engine.media import medium_kind
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Dim, Kind, Order, Plan, Program, Shape
from astrarium.errors import InternalError, UnsupportedError

__all__ = ["run_attached", "widened"]


def run_attached(plan: Plan, run: Callable[[Plan], Outcome]) -> Outcome:
    """`run` of a plan with memories at switches; traffic with the caller's numbers."""
    outcome, number = run(widened(plan)), _numbers(plan)
    return replace(outcome, link_from=_renumbered(outcome.link_from, number),
                   link_to=_renumbered(outcome.link_to, number))


def _renumbered(ends: I32, number: I32) -> I32:
    found: I32 = ends.copy()
    found[ends >= 0] = number[ends[ends >= 0]]
    return found


def widened(plan: Plan) -> Plan:
    """The plan with memories as the last places of their dims.

    Raises UnsupportedError where the network is a graph, links or NPUs change their speed, the rule book is
    ASTRA-sim's, or the medium takes no memories; InternalError for memories that are not at a switch, or not in the
    order of their dims.
    """
    if plan.network.graph is not None or plan.changes is not None or plan.policy.order != Order.CANONICAL:
        raise UnsupportedError("memory", "memories at switches of a graph, or together with speeds that change",
                               expected="a network of dims whose speeds stay")
    if not medium_kind(plan.network.backend).takes_memories:
        raise UnsupportedError("network.backend", f"{plan.network.backend} has no memories at switches",
                               expected="closed_form, contention or fluid")
    at, count = [each.dim for each in plan.attached], len(plan.network.dims)
    if at != sorted(at) or not all(0 <= d < count and plan.network.dims[d].shape == Shape.SWITCH for d in at):
        raise InternalError("the engine refused its plan: memories that are at no switch")
    dims, places = _wide(plan), _places(plan)
    rates = plan.reduce_bandwidth
    if rates.size:
        rates = np.zeros(int(np.prod([dim.npus for dim in dims])))
        rates[places] = plan.reduce_bandwidth
    programs, program_of = _programs(plan)
    return replace(plan, npus=int(np.prod([dim.npus for dim in dims])), npu_of=places[plan.npu_of], attached=(),
                   programs=programs, program_of=program_of, reduce_bandwidth=rates,
                   network=replace(plan.network, dims=dims))


def _wide(plan: Plan) -> tuple[Dim, ...]:
    ends = [tuple([each for each in plan.attached if each.dim == d for _ in range(each.links)])
            for d in range(len(plan.network.dims))]
    return tuple([replace(dim, npus=dim.npus + len(own), ends=own)
                  for dim, own in zip(plan.network.dims, ends, strict=True)])


def _programs(plan: Plan) -> tuple[tuple[Program, ...], I32]:
    """The programs with numbers of links in place of memories, and which of them each rank runs."""
    first = np.cumsum([0, *[each.links for each in plan.attached]])[:-1]
    links = np.zeros((plan.npu_of.size, len(plan.attached)), np.int64)     # that each rank uses
    for memory, each in enumerate(plan.attached):
        stride = int(np.prod([dim.npus for dim in plan.network.dims[:each.dim]]))
        links[:, memory] = first[memory] + plan.npu_of // stride % plan.network.dims[each.dim].npus % each.links
    keys, variant = np.unique(np.column_stack([plan.program_of, links]), axis=0, return_inverse=True)
    return tuple([_with_links(plan.programs[key[0]], key[1:]) for key in keys]), variant.reshape(-1).astype(np.int32)


def _with_links(program: Program, links: npt.NDArray[np.int64]) -> Program:
    """The program whose accesses of memory m take link links[m]."""
    far = np.flatnonzero((program.kind == Kind.REMOTE) & (program.slot < -1))
    memory, store = np.divmod(-2 - program.slot[far], 2)
    if memory.size and int(memory.max()) >= links.size:
        raise InternalError("the engine refused its plan: memory out of range")
    slot = program.slot.copy()
    slot[far] = -2 - 2 * links[memory] - store
    return replace(program, slot=slot)


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
