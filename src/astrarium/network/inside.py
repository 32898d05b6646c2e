"""Links inside hosts: NVLink, PCIe. Transports of the network between hosts have no hop there (design/0017)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from astrarium.arrays import Bool
from astrarium.engine.plan import NetworkPlan
from astrarium.errors import InputError, nearest
from astrarium.fabric.built import Built
from astrarium.fabric.expand import XPU
from astrarium.fabric.graph import graph_of, links_of
from astrarium.fabric.recognise import matching_links
from astrarium.network.planned import built_of
from astrarium.network.section import Section
from astrarium.network.shapes import LinkDim

__all__ = ["inside_links", "inside_names"]

PATH = "network.packets.transport.inside"
HOST_TIERS = ("scale_in", "scale_up")


def inside_links(network: Section, plan: NetworkPlan, given: Sequence[str | int] | None) -> bytes:
    """1 per link of the plan's graph, or per dim, that is inside a host. `given` names them; None: by tiers, devices
    and dims. Raises InputError for a name that no link has."""
    if network.fabric is None:
        per_dim = _of_dims(network.flat, given)
        if plan.graph is None or not any(per_dim):
            return bytes(per_dim) if any(per_dim) else b""
        return _spread(per_dim, plan)
    built = built_of(network)
    found = _of_fabric(built, given)
    if not found.any():
        return b""
    if plan.graph is built.graph:
        return found.astype(np.uint8).tobytes()
    assert built.dims is not None
    numbered = np.zeros(found.size, np.bool_)
    numbered[matching_links(built.graph, graph_of(built.dims), built.npus)] = found
    if plan.graph is not None:
        return numbered.astype(np.uint8).tobytes()
    return bytes(_per_dim(numbered, plan))


def inside_names(network: Section, given: Sequence[str | int] | None) -> tuple[str, ...]:
    """Names of the links of a fabric, or of the dims (`dims[0]`), that are inside hosts. Raises InputError as
    `inside_links`."""
    if network.fabric is None:
        return tuple([f"dims[{place}]" for place, is_in in enumerate(_of_dims(network.flat, given)) if is_in])
    built = built_of(network)
    links = np.unique(built.wired.link_of[_of_fabric(built, given)])
    return tuple(sorted({built.laid.expanded.links[int(link)].name for link in links}))


def _of_dims(dims: Sequence[LinkDim], given: Sequence[str | int] | None) -> list[bool]:
    """[dims] whether each is inside hosts."""
    if given is None:
        wide = [place for place, dim in enumerate(dims) if dim.npus > 1]
        first = wide[0] if len(wide) > 1 and dims[wide[0]].npu_bandwidth > dims[wide[1]].npu_bandwidth else -1
        return [place == first for place in range(len(dims))]
    for place, name in enumerate(given):
        if not isinstance(name, int) or not 0 <= name < len(dims):
            raise InputError(f"{PATH}[{place}]", f"there is no dim {name}", expected=f"0 to {len(dims) - 1}")
    return [place in given for place in range(len(dims))]


def _of_fabric(built: Built, given: Sequence[str | int] | None) -> Bool:
    """[links of the graph] whether each is inside a host."""
    names = [link.name for link in built.laid.expanded.links]
    if given is not None:
        for place, name in enumerate(given):
            if name not in names:
                raise InputError(f"{PATH}[{place}]", f"the fabric has no link {name}",
                                 expected="one of " + ", ".join(sorted(set(names))),
                                 did_you_mean=nearest(str(name), names))
        found: Bool = np.isin(built.wired.link_of, [number for number, name in enumerate(names) if name in given])
        return found
    tier = built.wires.tier
    within = np.array([each in HOST_TIERS for each in tier], np.bool_)[built.wired.link_of]
    unknown = np.array([not each for each in tier], np.bool_)[built.wired.link_of]
    host = _hosts(built)
    source, target = host[built.graph.source], host[built.graph.target]
    one: Bool = within | (unknown & (source >= 0) & (source == target))
    return one


def _hosts(built: Built) -> npt.NDArray[np.int64]:
    """[nodes of the graph] a number of the device with XPUs that each is part of; -1: of none."""
    placed, first = built.laid.expanded.placed, built.wired.first
    group = np.searchsorted([each.first for each in placed], first, side="right") - 1
    begin = np.array([each.first for each in placed])[group]
    size = np.array([each.template.size for each in placed])[group]
    with_xpus = np.array([bool((each.template.kinds == XPU).any()) for each in placed])[group]
    found: npt.NDArray[np.int64] = np.where(with_xpus, begin + (first - begin) // size, -1)
    return found


def _spread(per_dim: Sequence[bool], plan: NetworkPlan) -> bytes:
    """Per link of the graph of dims."""
    counts = _counts(plan)
    switches = [count if dim.shape.name == "SWITCH" else 0 for count, dim in zip(counts, plan.dims, strict=True)]
    return bytes(np.repeat([*per_dim, *per_dim], [*counts, *switches]).astype(np.uint8))


def _per_dim(links: Bool, plan: NetworkPlan) -> list[bool]:
    """Of flags of the links of a graph of dims."""
    ends = np.cumsum(_counts(plan))
    return [bool(links[end - count:end].all()) and count > 0 for end, count in zip(ends, _counts(plan), strict=True)]


def _counts(plan: NetworkPlan) -> list[int]:
    """[dims] links that leave NPUs."""
    npus, stride, found = int(np.prod([dim.npus for dim in plan.dims])), 1, []
    for dim in plan.dims:
        found.append(int(links_of(dim, stride, npus, npus)[0].size))
        stride *= dim.npus
    return found
