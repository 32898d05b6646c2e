"""Where a collective's time comes from beside its messages (`collective.model`): a function of operation, payload and
where the group lies, in the registry as kind `timer`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from astrarium.collective.fabrics import Fabric, fabric, names
from astrarium.collective.measured import Layout, measured_ns
from astrarium.errors import InputError, UnsupportedError
from astrarium.vocab import CommOp

__all__ = ["Timer", "Way", "measured", "named"]


class Way(NamedTuple):
    """A group's part of one dim of the network: `ranks` members along it, `bandwidth` byte/ns of one NPU there, the
    `fabric` that the dim names, and the dim's `path` in the design."""

    ranks: int
    bandwidth: float
    fabric: str | None
    path: str


Timer = Callable[[CommOp, float, Sequence[Way]], float]
"""(operation, payload in bytes as nccl-tests counts it, the group's ways, innermost first) -> ns from the coming of the
last member to the end of all. A timer raises InputError for what it does not know."""


def measured(op: CommOp, payload: float, ways: Sequence[Way]) -> float:
    """ns of a collective from tables of measurements: inside one host, or over several."""
    parts = [(way, fabric(way.fabric, f"{way.path}.fabric") if way.fabric is not None else _missing(way))
             for way in ways]
    inside, outside = ([(way, found) for way, found in parts if found.kind == kind] for kind in ("host", "hosts"))
    host, nics = _one(inside), _one(outside)
    layout = Layout(prod(way.ranks for way, _ in inside), prod(way.ranks for way, _ in outside))
    first = host or nics
    if first is None:
        return 0.0
    return measured_ns(op, payload, layout, first, nics, host_link=_slowest(inside), nic_link=_slowest(outside))


def named(ways: Sequence[Way]) -> str:
    """The fabrics of a group's dims in words; of one without rows also those whose rows it takes."""
    known = [fabric(way.fabric, f"{way.path}.fabric") for way in ways if way.fabric is not None]
    rows = {each.name: ", ".join(other.name for other in each.like) for each in known}
    return " + ".join(name + (f" (rows of {others})" if others else "") for name, others in rows.items())


def _slowest(parts: Sequence[tuple[Way, Fabric]]) -> float | None:
    return min((way.bandwidth for way, _ in parts), default=None)


def _one(parts: Sequence[tuple[Way, Fabric]]) -> Fabric | None:
    """The fabric of several dims of one kind, which must be one."""
    for way, found in parts[1:]:
        if found.name != parts[0][1].name:
            raise UnsupportedError(f"{way.path}.fabric", f"a collective over {parts[0][1].name} and {found.name}",
                                   expected="one fabric inside hosts, one between them, or collective.model: "
                                            "simulated")
    return parts[0][1] if parts else None


def _missing(way: Way) -> Fabric:
    raise InputError(f"{way.path}.fabric", "is missing", expected="whose measured collectives the dim has (one of "
                     f"{', '.join(names())}), or collective.model: simulated")
