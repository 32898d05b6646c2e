"""Times of collectives without messages (`collective.model`): a function of operation, payload and
where the group lies, in the registry as kind `timer`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import NamedTuple, TypeVar, cast

import numpy as np

from astrarium import registry
from astrarium.arrays import F64
from astrarium.collective.config import Collective
from astrarium.collective.engines import NCCL, rows_of
from astrarium.collective.exchange import ALL_TO_ALL, exchange_ns, exchange_rows
from astrarium.collective.fabrics import Fabric, fabric, names
from astrarium.collective.measured import Layout, measured_ns
from astrarium.errors import InputError, UnsupportedError
from astrarium.vocab import CommOp

__all__ = ["Timer", "Way", "measured", "named", "timer_of", "times"]

T = TypeVar("T", float, F64)


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


def timer_of(collective: Collective) -> Timer:
    """The timer that `collective.model`, `library` and `exchange` name."""
    exchange = collective.exchange or ALL_TO_ALL
    if collective.model == "measured" and (collective.library, exchange) != (NCCL, ALL_TO_ALL):
        return partial(measured, library=collective.library, exchange=exchange)
    return cast(Timer, registry.load("timer", collective.model))


def times(collective: Collective, op: CommOp, payloads: F64, ways: Sequence[Way]) -> F64:
    """ns [payloads] of collectives of the same group: what the timer says of each."""
    if collective.model == "measured":
        return measured(op, payloads, ways, collective.library, collective.exchange or ALL_TO_ALL)
    timer = timer_of(collective)
    return np.array([timer(op, float(size), ways) for size in payloads], np.float64)


def measured(op: CommOp, payload: T, ways: Sequence[Way], library: str = NCCL, exchange: str = ALL_TO_ALL) -> T:
    """ns of a collective from tables of measurements: inside one host, or over several."""
    (host, inside), (nics, outside) = _split(ways)
    layout = Layout(prod(way.ranks for way in inside), prod(way.ranks for way in outside))
    first = host or nics
    if first is None:
        return 0.0 * payload
    links = {"host_link": _slowest(inside), "nic_link": _slowest(outside)}
    if op == CommOp.ALL_TO_ALL and exchange != ALL_TO_ALL:
        return exchange_ns(exchange, payload, layout, first, nics, **links)
    return measured_ns(op, payload, layout, first, nics, library=library, **links)


def named(ways: Sequence[Way], op: CommOp | None = None, collective: Collective | None = None) -> str:
    """The fabrics of a group's dims in words; of one without rows also those whose rows it takes. Of an operation also
    the engine or the kernel whose it is, and a number of ranks beyond all rows."""
    known = [fabric(way.fabric, f"{way.path}.fabric") for way in ways if way.fabric is not None]
    rows = {each.name: ", ".join(other.name for other in each.like) for each in known}
    text = " + ".join(name + (f" (rows of {others})" if others else "") for name, others in rows.items())
    whose = "" if op is None or collective is None or len(known) < len(ways) else _whose(ways, op, collective)
    return f"{text}: {whose}" if whose else text


def _whose(ways: Sequence[Way], op: CommOp, collective: Collective) -> str:
    """Whose rows an operation takes, where it is not NCCL with rows of as many ranks."""
    (host, inside), (nics, outside) = _split(ways)
    layout = Layout(prod(way.ranks for way in inside), prod(way.ranks for way in outside))
    over = host if nics is None else nics
    exchange, library = collective.exchange or ALL_TO_ALL, collective.library
    if over is not None and op == CommOp.ALL_TO_ALL and exchange != ALL_TO_ALL:
        return exchange_rows(exchange, layout, over)
    if over is None:
        return ""
    if over.kind == "hosts":
        most = max([2, *(hosts for each in over.measured for hosts, _ in each.over.get(op, {}))])
        return f"nccl, {layout.hosts} hosts from rows of up to {most}" if layout.hosts > most else ""
    engines = [] if library == NCCL or op != CommOp.ALL_REDUCE else [
        rows.text for each in over.measured for rows in rows_of(each, library, layout.ranks)]
    beyond = [max(each.ops[op]) for each in over.measured if max(each.ops.get(op, {0: ()})) < layout.ranks]
    if engines:
        return ", ".join(dict.fromkeys(engines))
    return f"nccl, {layout.ranks} GPUs from rows of up to {max(beyond)}" if beyond else ""


def _split(ways: Sequence[Way]) -> tuple[tuple[Fabric | None, list[Way]], tuple[Fabric | None, list[Way]]]:
    """The fabric and the ways inside a host, and those between hosts."""
    parts = [(way, fabric(way.fabric, f"{way.path}.fabric") if way.fabric is not None else _missing(way))
             for way in ways]
    inside, outside = ([(way, found) for way, found in parts if found.kind == kind] for kind in ("host", "hosts"))
    return (_one(inside), [way for way, _ in inside]), (_one(outside), [way for way, _ in outside])


def _slowest(ways: Sequence[Way]) -> float | None:
    return min((way.bandwidth for way in ways), default=None)


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
