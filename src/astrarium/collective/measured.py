"""The time of one collective from measurements: what `collective.model: measured` takes. Payloads are a number of
bytes, or an array of them.

One host. A protocol of the library (LL, LL128, Simple, NVLS) is a line: latency + bytes on the bus / bus bandwidth, and
the library takes the one that is fastest, so the time is the least of two or three lines (`collective.fabrics`). Bytes
on the bus are those of nccl-tests (`collective.bandwidth`: payload x factor).

Several hosts, n = hosts x ranks per host. Each byte passes the links inside a host and the NICs in a pipeline, so the
slower of the two counts, and a line of the network adds latency and a share of that rate:

    wire   = max(bytes on the bus of a host / best bus bandwidth of the host, bytes that leave a host / rate)
    time   = least over the lines of (latency inside a host + latency of the network + wire / share)
    leave  : all_reduce of two hosts payload (a tree: each host sends its sum once), of more 2 (n - 1) / n payload
             (ring); all_gather, reduce_scatter (n - 1) / n payload; all_to_all (n - ranks per host) / n payload of
             each rank
    rate   : ranks per host x rate of one NPU's NIC (a group with one rank in each host has one NIC)
    latency: a line's, measured on an all_reduce of two hosts, which crosses the network twice; all_gather and the
             others cross once. Hosts beyond two: all_reduce 2 log2(hosts) crossings (tree), all_gather and
             reduce_scatter hosts - 1 (ring), all_to_all 1; a crossing more takes half the latency of the first line.

Where an operation over several hosts was measured itself (`Fabric.over`), with as many ranks in each host and the same
fabric inside hosts, this rule's time is multiplied by measured / rule's time of that number of hosts, so that what was
measured comes back. Between two numbers of hosts the quotient goes from one to the other with the logarithm of the
number; beyond them the nearest one holds.

Sources: nccl-tests doc/PERFORMANCE.md (bus bandwidth); NCCL's tuning model (src/graph/tuning.cc: tree of two hosts,
ring steps, latency + size / bandwidth per algorithm and protocol); S. Jeaugey in nccl-tests issue 196 (two hosts use
the tree and pass the NICs' ring rate).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log2
from typing import TypeVar

from msgspec import Struct

from astrarium.arrays import F64
from astrarium.collective.bandwidth import bus_factor
from astrarium.collective.engines import FASTEST, NCCL, library_ns, rows_of
from astrarium.collective.fabrics import Fabric, Lines
from astrarium.collective.lines import between, fastest, mean, smallest
from astrarium.errors import UnsupportedError, nearest
from astrarium.vocab import CommOp

__all__ = ["Layout", "best_busbw", "measured_ns", "message_ns", "rule_ns", "wire_ns"]

T = TypeVar("T", float, F64)
LEAST = 1e-9        # ns: of nothing over links without latency the quotient is 1
_SAME = {CommOp.REDUCE_SCATTER_BLOCK: CommOp.REDUCE_SCATTER}
_OVER_HOSTS = (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL)


class Layout(Struct, frozen=True):
    """A group: ranks per host, and hosts."""

    per_host: int
    hosts: int = 1

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.per_host * self.hosts


def measured_ns(op: CommOp, payload: T, group: Layout, host: Fabric, nics: Fabric | None = None, *,
                host_link: float | None = None, nic_link: float | None = None, library: str = NCCL) -> T:
    """ns of `op` on `payload` bytes (nccl-tests' S: of an all_gather or reduce_scatter the whole, else one's buffer).

    `host_link`, `nic_link`: bytes/ns of one NPU where the design's differ from the fabrics' data sheets; the measured
    shares of the link are kept. `library`: whose all_reduces inside a host (`collective.engines`). Raises
    UnsupportedError for an operation without measurements.
    """
    op = _SAME.get(op, op)
    if group.ranks == 1:
        return 0.0 * payload
    link = host_link or host.link
    if group.hosts == 1:
        return mean([_in_host(op, payload, group.per_host, each, link, library) for each in host.measured])
    if nics is None:
        raise UnsupportedError("fabric", f"a group of {group.hosts} hosts needs the fabric between them")
    if op not in _OVER_HOSTS:
        raise _no_rows(op, nics, _OVER_HOSTS)
    rate = nic_link or nics.link
    return rule_ns(op, payload, group, host, nics, host_link=link, nic_link=rate) * mean(
        [_quotient(op, payload, group, host, each, link, rate) for each in nics.measured])


def _in_host(op: CommOp, payload: T, ranks: int, host: Fabric, link: float, library: str) -> T:
    """ns inside one host: of an engine's kernels where it has any for the operation and group, else of NCCL's."""
    rows = rows_of(host, library, ranks) if library != NCCL and op == CommOp.ALL_REDUCE else ()
    times = [library_ns(payload, ranks, rows, host, link)] if rows else []
    if not rows or library == FASTEST:
        times.append(_one_host(op, payload, ranks, host, link))
    return smallest(times)


def rule_ns(op: CommOp, payload: T, group: Layout, host: Fabric, nics: Fabric, *, host_link: float | None = None,
            nic_link: float | None = None) -> T:
    """ns of an operation of several hosts by the rule of this module, from lines of an all_reduce of two alone."""
    before, wire = wire_ns(op, payload, group, host, nics, host_link=host_link, nic_link=nic_link)
    return before + mean([_over_hosts(op, wire, group.hosts, each.lines) for each in nics.measured])


def _quotient(op: CommOp, payload: T, group: Layout, host: Fabric, nics: Fabric, link: float, rate: float) -> T:
    """Measured time / time by the rule, of the numbers of hosts that were measured around the group's."""
    rows = {hosts: lines for (hosts, ranks), lines in nics.over.get(op, {}).items() if ranks == group.per_host}
    if not rows or (group.per_host > 1 and nics.host != host.name):
        return 1.0 + 0.0 * payload
    below = max((hosts for hosts in rows if hosts <= group.hosts), default=min(rows))
    above = min((hosts for hosts in rows if hosts >= group.hosts), default=max(rows))

    def quotient(hosts: int) -> T:
        at = Layout(group.per_host, hosts)
        rule = rule_ns(op, payload, at, host, nics, host_link=link, nic_link=rate)
        measured = fastest(rows[hosts], payload * bus_factor(op, at.ranks), rate * group.per_host)
        return (measured + LEAST) / (rule + LEAST)

    if below == above:
        return quotient(below)
    return between(quotient(below), quotient(above), log2(group.hosts / below) / log2(above / below))


def wire_ns(op: CommOp, payload: T, group: Layout, host: Fabric, nics: Fabric, *, host_link: float | None = None,
            nic_link: float | None = None) -> tuple[float, T]:
    """(latency inside a host, ns of the bytes on links inside a host or on NICs, whichever takes longer) of several
    hosts, at the best rate inside a host and the whole rate of the NICs."""
    wire = _nic_bytes(op, group) / (group.per_host * (nic_link or nics.link))
    if group.per_host == 1:
        return 0.0, payload * wire
    before = mean([_lines(op, group.per_host, each)[0][0] for each in host.measured])
    return before, payload * max(wire, _host_bytes(op, group) / best_busbw(op, group.per_host, host, host_link))


def message_ns(size: float, fabric: Fabric, link: float | None = None) -> float:
    """ns of one message of `size` bytes to another NPU of the host, or of another host (by the fabric's kind).

    Inside a host it takes what an all_to_all of four does with as many bytes on the bus; between hosts one crossing of
    the network. Rows of sendrecv_perf (A100, 256 MiB to 1 GiB) are 4 to 6 % faster.
    """
    rate = link or fabric.link
    if fabric.kind == "host":
        return mean([fastest(_lines(CommOp.ALL_TO_ALL, 4, each), size, rate) for each in fabric.measured])
    return mean([_over_hosts(CommOp.ALL_GATHER, size / rate, 2, each.lines) for each in fabric.measured])


def best_busbw(op: CommOp, ranks: int, host: Fabric, link: float | None = None) -> float:
    """Bus bandwidth (bytes/ns) of the largest payloads of `op` among `ranks` of one host."""
    rate = link or host.link
    return rate * mean([max(share for _, share in _lines(op, ranks, each)) for each in host.measured])


def _one_host(op: CommOp, payload: T, ranks: int, host: Fabric, link: float) -> T:
    bus = payload * bus_factor(op, ranks)
    below, above = _around(op, ranks, host)
    if below == above:
        return fastest(_lines(op, ranks, host), bus, link)
    first, second = (fastest(_lines(op, count, host), bus, link) for count in (below, above))
    return between(first, second, log2(ranks / below) / log2(above / below))


def _around(op: CommOp, ranks: int, host: Fabric) -> tuple[int, int]:
    """The numbers of ranks that were measured below and above; the same twice where there is no need for both."""
    counts = sorted(_of(op, ranks, host))
    if ranks in counts or ranks > counts[-1]:
        return ranks, ranks
    return max(count for count in counts if count < ranks), next(count for count in counts if count > ranks)


def _lines(op: CommOp, ranks: int, host: Fabric) -> Lines:
    """Lines for `ranks`. Beyond the most that were measured latencies grow as between the last two and shares stay,
    but of an all_reduce in the switch, where each NPU sends its payload once however many they are: there payload /
    time stays. Between two numbers that were measured these are the lines of the larger."""
    measured = _of(op, ranks, host)
    counts = sorted(measured)
    if ranks in measured:
        return measured[ranks]
    if ranks < counts[-1]:
        return measured[next(count for count in counts if count > ranks)]
    last = measured[counts[-1]]
    if len(counts) == 1:
        return last
    step = (last[0][0] - measured[counts[-2]][0][0]) / (counts[-1] - counts[-2]) * (ranks - counts[-1])
    more = bus_factor(op, ranks) / bus_factor(op, counts[-1]) if op == CommOp.ALL_REDUCE and host.in_network else 1.0
    return tuple((latency + step, share * more) for latency, share in last)


def _of(op: CommOp, ranks: int, host: Fabric) -> Mapping[int, Lines]:
    if op not in host.ops:
        raise _no_rows(op, host, host.ops)
    found = host.ops[op]
    if ranks < min(found):
        raise UnsupportedError("collective.model", f"{op.name.lower()} of {ranks} was not measured on {host.name}, "
                               f"whose least group has {min(found)}")
    return found


def _no_rows(op: CommOp, fabric: Fabric, known: Iterable[CommOp]) -> UnsupportedError:
    names = [each.name.lower() for each in known]
    near = nearest(op.name.lower(), names)
    hint = f"; nearest: {near}" if near else ""
    return UnsupportedError("collective.model", f"{op.name.lower()} was not measured on {fabric.name}: "
                            f"it has {', '.join(names) or 'no operation'}{hint}")


def _host_bytes(op: CommOp, group: Layout) -> float:
    """Bytes on the bus of one host for a byte of payload: of an all_reduce those of its own ranks, of a ring all."""
    if op == CommOp.ALL_REDUCE:
        return bus_factor(op, group.per_host)
    if op == CommOp.ALL_TO_ALL:
        return (group.per_host - 1) / group.ranks
    return bus_factor(op, group.ranks)


def _nic_bytes(op: CommOp, group: Layout) -> float:
    """Bytes that leave one host for a byte of payload."""
    if op == CommOp.ALL_TO_ALL:
        return group.per_host * (group.ranks - group.per_host) / group.ranks
    if op == CommOp.ALL_REDUCE and group.hosts == 2:
        return 1.0
    return bus_factor(op, group.ranks)


def _over_hosts(op: CommOp, wire: T, hosts: int, lines: Lines) -> T:
    crossings = {CommOp.ALL_REDUCE: 2 * log2(hosts), CommOp.ALL_TO_ALL: 1.0}.get(op, hosts - 1.0)
    own, crossing = (2.0 if op == CommOp.ALL_REDUCE else 1.0), lines[0][0] / 2
    return smallest([latency * own / 2 + (crossings - own) * crossing + wire / share for latency, share in lines])
