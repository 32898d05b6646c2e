"""Switches that compute, of a design: what those of each dim can do, and for how many groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from astrarium.arrays import I32
from astrarium.collective.groups import FLAT, SubDim
from astrarium.collective.settings import Able
from astrarium.design import Design
from astrarium.engine.media import find_medium
from astrarium.engine.plan import CollectivePlan, Dim, Phase, Plan
from astrarium.errors import InputError, UnsupportedError
from astrarium.lower.senders import switch_of, used_collectives
from astrarium.network.config import LinkDim, Network, Switch
from astrarium.network.planned import built_of, computing, on_graph, trees_of
from astrarium.registry import names

__all__ = ["abilities", "along_trees", "carried", "each_its_own", "within_groups"]

Kinds = tuple[npt.NDArray[np.int64], list[tuple[int, tuple[SubDim, ...]]]]


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


def each_its_own(kinds: Kinds) -> Kinds:
    """Kinds of groups where each group is one: its place in a graph matters."""
    of, shapes = kinds
    return np.arange(of.size), [shapes[kind] for kind in of.tolist()]


def along_trees(network: Network, flat: Sequence[Able | None], dims: Sequence[Dim], npus: I32,
                shape: Sequence[SubDim]) -> tuple[Able | None, ...]:
    """`flat`, with the tree of a group of `npus` in the dim in which it lies. Raises UnsupportedError where there is
    none."""
    able = computing(network)
    parts = [part for part in shape if part.n > 1]
    if not able or len(parts) != 1 or parts[0].dim == FLAT:
        return tuple(flat)
    assert network.fabric is not None
    trees = trees_of(network.fabric, built_of(network).graph, tuple(sorted(able)))
    tree = trees.of(npus.tolist(), "collective")
    said, dim = [able[node] for node in tree.nodes], dims[parts[0].dim]
    payloads = [int(each.payload) for each in said if each.payload]
    found = Able(min(float(each.rate) for each in said), max(round(float(each.latency) * 1000) for each in said),
                 min(payloads, default=0), "sharp", dim.bandwidth, dim.latency, tree.up, tree.nodes)
    return tuple([found if d == parts[0].dim else None for d in range(len(dims))])


def carried(network: Network, collectives: Iterable[CollectivePlan]) -> None:
    """Raise UnsupportedError where collectives need switches that the back end does not have, or that are in dims which
    the fabric beside them is not."""
    used = [phase.in_switch for each in collectives for chunk in each.chunks for phase in chunk.phases
            if phase.in_switch is not None]
    if not used:
        return
    able = [name for name in names("backend") if _ends_at_switches(name)]
    if network.backend not in able:
        raise UnsupportedError("network.backend", f"{network.backend} has no switches that compute, and a collective "
                               "needs some", expected=" or ".join(able))
    if on_graph(network) and not all(each.nodes for each in used):
        raise UnsupportedError("network.dims", "have switches that compute, but the fabric is not made of dims",
                               expected="network.fabric.in_switch, by the names of its switches")


def _ends_at_switches(backend: str) -> bool:
    kind = find_medium(backend)
    return kind is not None and kind.takes_switches


def within_groups(design: Design, plan: Plan) -> Plan:
    """`plan`. InputError where a switch would serve more groups than it can be set up for."""
    on_nodes = computing(design.network)
    limits = {d: (f"dims[{d}]", dim.in_switch.groups) for d, dim in enumerate(design.network.flat)
              if isinstance(dim, Switch) and dim.in_switch is not None and dim.in_switch.groups is not None}
    limits |= {-1 - node: (f"fabric.in_switch.{built_of(design.network).name(node)}", said.groups)
               for node, said in on_nodes.items() if said.groups is not None}
    if not limits:
        return plan
    served: dict[tuple[int, int], set[bytes]] = {}
    for phase, members in _used(plan):
        for where, circle in _served(plan, phase, members) if phase.in_switch is not None else ():
            served.setdefault(where, set()).add(circle.tobytes())
    for (d, _), groups in served.items():
        if d in limits and len(groups) > limits[d][1]:
            raise InputError(f"network.{limits[d][0]}.groups" if d < 0 else f"network.{limits[d][0]}.in_switch.groups",
                             f"{len(groups)} groups of NPUs reduce or multicast in one switch, which has room for "
                             f"{limits[d][1]}", expected="other algorithms for some collectives, or fewer groups")
    return plan


def _served(plan: Plan, phase: Phase, members: I32) -> Iterator[tuple[tuple[int, int], I32]]:
    """(dim and switch, or -1 - node of a graph and 0; NPUs that it serves) of a phase of a group."""
    starts = np.arange(members.size)
    starts = starts[starts // phase.stride % phase.n == 0]
    circles = np.sort(plan.npu_of[members[starts[:, None] + np.arange(phase.n) * phase.stride]], axis=1)
    if phase.in_switch is not None and phase.in_switch.nodes:
        for node in dict.fromkeys(phase.in_switch.nodes):
            yield (-1 - node, 0), circles[0]
        return
    switch = switch_of(plan.network.dims, phase.dim, plan.npus)
    for circle in circles:
        yield (phase.dim, int(switch[circle[0]])), circle


def _used(plan: Plan) -> Iterator[tuple[Phase, I32]]:
    """Phases of collectives, with the ranks of a group that has them, each once."""
    everyone = np.arange(plan.program_of.size, dtype=np.int32)
    for collective, group in used_collectives(plan):
        phases = {id(phase): phase for chunk in plan.collectives[collective].chunks for phase in chunk.phases}
        for phase in phases.values():
            yield phase, everyone if group < 0 else plan.groups[group]
