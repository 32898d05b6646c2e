"""Times of kernels that exchange tokens of experts (`collective.exchange`), from lines of measurements.

    deepep              DeepEP's normal kernels: a token goes once to each rank that has one of its experts
    deepep_low_latency  a token goes once to each of its experts
    nvlink_one_sided, nvlink_two_sided
                        TensorRT-LLM's in a rack: once to each rank; the second with what it prepares

Each phase takes the least of up to two lines, latency + bytes that a rank sends to others / (share x link), for each
measured number of ranks, or of hosts with as many ranks in each (there the link is the NIC). Between two of these
numbers the logarithm of the time goes linearly with that of the number; beyond them the nearest holds.

A trace says all_to_all and not which phase, so that one takes half of a dispatch and a combine of its bytes: the two of
a layer together are as far off the rows as phases by themselves (dispatch in fp8, combine in bf16).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import TypeVar

from astrarium.arrays import F64
from astrarium.collective.fabrics import Fabric, Lines
from astrarium.collective.lines import between, fastest, mean
from astrarium.collective.measured import Layout
from astrarium.errors import UnsupportedError, nearest

__all__ = ["ALL_TO_ALL", "exchange_ns", "exchange_rows", "phase_ns"]

T = TypeVar("T", float, F64)
Group = tuple[int, int]
ALL_TO_ALL = "all_to_all"
PHASES = ("dispatch", "combine")


def exchange_ns(kernel: str, payload: T, group: Layout, host: Fabric, nics: Fabric | None = None, *,
                host_link: float | None = None, nic_link: float | None = None) -> T:
    """ns of half of a dispatch and a combine, in which each rank has `payload` bytes (its own part among them).

    Raises UnsupportedError where the kernel was not measured.
    """
    if group.ranks == 1:
        return 0.0 * payload
    sent = payload * ((group.ranks - 1) / group.ranks)
    first, second = (phase_ns(kernel, phase, sent, group, host, nics, host_link=host_link, nic_link=nic_link)
                     for phase in PHASES)
    return (first + second) / 2.0


def phase_ns(kernel: str, phase: str, sent: T, group: Layout, host: Fabric, nics: Fabric | None = None, *,
             host_link: float | None = None, nic_link: float | None = None) -> T:
    """ns of one phase, in which each rank sends `sent` bytes to others."""
    over, given = (host, host_link) if group.hosts == 1 or nics is None else (nics, nic_link)
    times = []
    for each in over.measured:
        table = _tables(kernel, each)[phase]
        rows = [fastest(table[at], sent, given or over.link) for at in _around(kernel, table, group, each)]
        times.append(rows[0] if len(rows) == 1 else between(rows[0], rows[1], _weight(table, group)))
    return mean(times)


def exchange_rows(kernel: str, group: Layout, over: Fabric) -> str:
    """The kernel in words, with the ranks or hosts of its rows where these are others than the group's."""
    found = dict.fromkeys(at for each in over.measured
                          for at in _around(kernel, _tables(kernel, each)[PHASES[0]], group, each))
    if list(found) == [(group.hosts, group.per_host)]:
        return kernel
    rows = " and ".join(str(ranks) if hosts == 1 else f"{hosts}x{ranks}" for hosts, ranks in found)
    return f"{kernel} (rows of {rows} GPUs)"


def _tables(kernel: str, fabric: Fabric) -> Mapping[str, Mapping[Group, Lines]]:
    if kernel not in fabric.exchange:
        known = (ALL_TO_ALL, *fabric.exchange)
        raise UnsupportedError("collective.exchange", f"{kernel[:60]} was not measured on {fabric.name}",
                               expected="one of " + ", ".join(known), did_you_mean=nearest(kernel, known))
    return fabric.exchange[kernel]


def _around(kernel: str, rows: Mapping[Group, Lines], group: Layout, fabric: Fabric) -> tuple[Group, ...]:
    """The rows of the group, else those below and above it, else the nearest."""
    known = _alike(rows, group)
    if not known:
        raise UnsupportedError("collective.exchange", f"{kernel} on {fabric.name} among {group.hosts} hosts with "
                               f"{group.per_host} ranks in each", expected=f"{next(iter(rows))[1]} ranks in each")
    here = (group.hosts, group.per_host)
    below, above = [at for at in known if at <= here], [at for at in known if at >= here]
    if not below or not above:
        return (known[0],) if not below else (known[-1],)
    return (below[-1],) if below[-1] == above[0] else (below[-1], above[0])


def _alike(rows: Mapping[Group, Lines], group: Layout) -> list[Group]:
    """Rows inside a host, or over several hosts with as many ranks in each, ascending."""
    return sorted(at for at in rows if (at[0] == 1 if group.hosts == 1 else at[0] > 1 and at[1] == group.per_host))


def _weight(rows: Mapping[Group, Lines], group: Layout) -> float:
    """How far the group lies from the rows below to those above, on a logarithmic scale."""
    counts = [hosts * ranks for hosts, ranks in _alike(rows, group)]
    below, above = max(n for n in counts if n < group.ranks), min(n for n in counts if n > group.ranks)
    return log(group.ranks / below) / log(above / below)
