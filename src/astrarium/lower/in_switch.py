"""Switches that compute, of a design: what those of each dim can do, and for how many groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from astrarium.collective.settings import Able
from astrarium.design import Design
from astrarium.engine.plan import Dim, Kind, Phase, Plan
from astrarium.errors import InputError
from astrarium.network.config import LinkDim, Switch
from astrarium.network.graph import links_of

__all__ = ["abilities", "within_groups"]

I32 = npt.NDArray[np.int32]


def abilities(flat: Sequence[LinkDim], dims: Sequence[Dim]) -> tuple[Able | None, ...]:
    """Per dim, what its switches can do; empty where none can do anything."""
    found = tuple([_able(dim, plan) for dim, plan in zip(flat, dims, strict=True)])
    return found if any(found) else ()


def _able(dim: LinkDim, plan: Dim) -> Able | None:
    said = dim.in_switch if isinstance(dim, Switch) else None
    if said is None:
        return None
    return Able(float(said.rate), round(float(said.latency) * 1000), int(said.payload or 0), said.algorithm,
                plan.bandwidth, plan.latency)


def within_groups(design: Design, plan: Plan) -> Plan:
    """`plan`. InputError where a switch would serve more groups than it can be set up for."""
    limits = {d: dim.in_switch.groups for d, dim in enumerate(design.network.flat)
              if isinstance(dim, Switch) and dim.in_switch is not None and dim.in_switch.groups is not None}
    if not limits:
        return plan
    served: dict[tuple[int, int], set[bytes]] = {}
    for phase, members in _used(plan):
        if phase.in_switch is None or phase.dim not in limits:
            continue
        starts = np.arange(members.size)
        starts = starts[starts // phase.stride % phase.n == 0]
        circles = np.sort(plan.npu_of[members[starts[:, None] + np.arange(phase.n) * phase.stride]], axis=1)
        switch = _switch_of(plan.network.dims, phase.dim, plan.npus)
        for circle in circles:
            served.setdefault((phase.dim, int(switch[circle[0]])), set()).add(circle.tobytes())
    for (d, _), groups in served.items():
        if len(groups) > limits[d]:
            raise InputError(f"network.dims[{d}].in_switch.groups",
                             f"{len(groups)} groups of NPUs reduce or multicast in one switch, which has room for "
                             f"{limits[d]}", expected="other algorithms for some collectives, or fewer groups in the "
                                                      "dim")
    return plan


def _used(plan: Plan) -> Iterator[tuple[Phase, I32]]:
    """Phases of collectives, with the ranks of a group that has them, each once."""
    everyone = np.arange(plan.program_of.size, dtype=np.int32)
    pairs: set[tuple[int, int]] = set()
    for number, program in enumerate(plan.programs):
        slots = np.unique(program.slot[program.kind == Kind.COLLECTIVE])
        places = (plan.slot_ptr[:-1][plan.program_of == number][:, None] + slots).ravel()
        found = np.unique(np.stack([plan.slot_a[places], plan.slot_b[places]], axis=1), axis=0)
        pairs.update([(int(a), int(b)) for a, b in found])
    for collective, group in sorted(pairs):
        phases = {id(phase): phase for chunk in plan.collectives[collective].chunks for phase in chunk.phases}
        for phase in phases.values():
            yield phase, everyone if group < 0 else plan.groups[group]


def _switch_of(dims: Sequence[Dim], d: int, npus: int) -> npt.NDArray[np.int64]:
    """Per NPU, the number of its switch among those of the dim."""
    stride = int(np.prod([dim.npus for dim in dims[:d]]))
    return links_of(dims[d], stride, npus, 0)[1]
