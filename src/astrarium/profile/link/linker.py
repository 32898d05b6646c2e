"""The link: a host trace and a device trace to one Chakra trace."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from astrarium.config.whole import write_whole
from astrarium.errors import InputError
from astrarium.profile.link.between import HostNodes, host_nodes, issue_edges
from astrarium.profile.link.calls import Calls, classified
from astrarium.profile.link.emit import Source, messages
from astrarium.profile.link.gaps import fill_gaps
from astrarium.profile.link.gather import Communications, communications, host_only
from astrarium.profile.link.groups import all_groups
from astrarium.profile.link.host import HostTrace, read_host
from astrarium.profile.link.join import Join, joined
from astrarium.profile.link.kineto import read_device
from astrarium.profile.link.nodes import GPU, LABEL, MESSAGE, Draft, ordered
from astrarium.profile.link.records import DeviceTrace
from astrarium.profile.link.replay import microseconds, replayed, unexplained
from astrarium.profile.link.report import LinkReport, report_of
from astrarium.profile.link.spins import find_spins
from astrarium.profile.link.streams import GpuEdges, gpu_edges
from astrarium.profile.link.text import file_bytes
from astrarium.profile.link.threads import host_threads
from astrarium.profile.link.unrecorded import Clock, Unrecorded, unrecorded
from astrarium.profile.link.upstream import is_linked, parted
from astrarium.trace._wire import delimited
from astrarium.trace.linked import QUIET, RECORDED, STEPS, TOTAL, UNEXPLAINED, UNRECORDED
from astrarium.trace.node import Metadata, attribute, encode_metadata
from astrarium.trace.write import clear_leftovers

__all__ = ["Linked", "link", "link_content", "write_linked"]

PIECE = 1 << 20     # bytes
PathLike = str | os.PathLike[str]
Content = tuple[bytes | bytearray, str]


class Linked(Struct, frozen=True):
    """A Chakra file in pieces, and what was joined to make it."""

    pieces: tuple[bytes, ...]
    report: LinkReport

    def __repr__(self) -> str:
        return f"Linked({self.report!r})"

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return b"".join(self.pieces)


def link(host: PathLike | None, device: PathLike | None, *, rank: int | None = None, quiet: bool = False,
         clock: Clock | None = None) -> Linked:
    """Joins the traces of one rank, each plain or gzip; either may be None.

    `rank` is the rank that they are of; left out: the one that the device trace names, else 0. A host trace that
    Chakra's own linker joined holds both, and needs no device trace. With `quiet` the trace is of the run without its
    profilers: host nodes without their cost. `clock` says how much longer kernels take in it. Raises InputError naming
    the file and the place in it.
    """
    if host is None and device is None:
        raise InputError("link", "neither a host nor a device trace", expected="at least one of them")
    content = [None if path is None else (file_bytes(path), os.fspath(path)) for path in (host, device)]
    return link_content(*content, rank=rank, quiet=quiet, clock=clock)


def link_content(host: Content | None, device: Content | None, *, rank: int | None = None, quiet: bool = False,
                 clock: Clock | None = None) -> Linked:
    """`link` of files that are read, each (content, name)."""
    data, where = (b"", "") if host is None else host
    both = parted(data, where) if device is None and is_linked(data) else None
    if both is not None:
        trace, data = read_device(both.device, where), both.host
    else:
        trace = DeviceTrace("") if device is None else read_device(*device)
    nodes = None if host is None else read_host(data, where)
    if nodes is not None and not nodes.nodes and device is None:
        raise InputError(where, "has no nodes")
    if trace.where and trace.nameless and not (trace.operators.name or trace.calls.name or trace.gpu.name):
        raise InputError(trace.where, f"{trace.nameless:,} events, none with a category", expected="Kineto's file, "
                         "whose events have categories (cpu_op, kernel, …); JAX's profiler writes none: read the "
                         "program itself, as StableHLO (astrarium.trace.graphs)")
    if rank is None:
        rank = trace.rank if trace.rank is not None else 0
    if not 0 <= rank < 1 << 31:
        raise InputError("rank", f"{rank}", expected="0 to 2^31 - 1")
    linked = _linked(nodes, trace, rank, quiet, clock)
    if not linked.report.nodes:
        raise InputError(where or trace.where, "has no operator, no call of a runtime, no GPU operation",
                         expected="what profilers record while a step runs")
    if quiet and linked.report.unrecorded_us is None:
        raise InputError(where or trace.where, "does not say what the profilers took of the host", expected="a host "
                         "trace and a device trace of one run, with timed operators")
    if both is None:
        return linked
    return replace(linked, report=replace(linked.report, missing=(*both.missing, *linked.report.missing)))


def write_linked(prefix: PathLike, linked: Linked) -> str:
    """Writes `<prefix>.<rank>.et`, whole or not at all, and returns the path."""
    path = f"{os.fspath(prefix)}.{linked.report.rank}.et"
    with write_whole(path) as file:
        file.writelines(linked.pieces)
    clear_leftovers([path])
    return path


def _linked(host: HostTrace | None, trace: DeviceTrace, rank: int, quiet: bool,
            clock: Clock | None) -> Linked:
    calls = classified(trace)
    threads, parent = host_threads(trace, calls)
    spins = find_spins(trace, calls, threads)
    edges = gpu_edges(trace, calls)
    groups, join = all_groups(host, trace), joined(host, trace)
    draft = Draft()
    _gpu_nodes(trace, edges, draft)
    found = host_nodes(trace, calls, threads, draft)
    issue_edges(trace, host, join, found, draft)
    loose = _launch_edges(trace, calls, found, draft)
    gaps = fill_gaps(trace, calls, draft)
    comms = communications(trace, host, join, calls, parent, groups, rank)
    if host is not None and not trace.operators.name:
        comms = _with(comms, host_only(host, groups, rank))
    _further_messages(comms, found, _labels(host, join, found, draft), draft)
    order = ordered(draft)
    result = replayed(draft, order)
    without = unrecorded(trace, host, join, calls, parent, draft, clock)
    source = Source(trace, host, join, calls, parent, found, comms, groups, rank)
    nodes, places, written, start = draft, order, result, np.frombuffer(draft.start, np.int64)[order.node]
    if quiet and without is not None:
        nodes, places, written, start = without.draft, without.order, without.result, without.start
    gap = unexplained(trace.operators, nodes, places, written)
    share, parts = round(written.share(gap), 6), np.round(gap / np.maximum(written.duration, 1), 3)
    report = report_of(source, edges, gaps, spins, draft, order, result, share, loose, len(threads), without)
    micros = microseconds(nodes, places, written.duration)
    first = delimited(encode_metadata(_metadata(source, share, without, quiet, int(micros.sum()))))
    return Linked(tuple(_pieces(first, messages(source, nodes, places, start, micros, parts))), report)


def _pieces(first: bytes, messages: Iterable[bytes]) -> Iterator[bytes]:
    """Messages in pieces of about a megabyte: a large file is never there twice."""
    held, size = [first], len(first)
    for message in messages:
        held.append(message)
        size += len(message)
        if size > PIECE:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


def _gpu_nodes(trace: DeviceTrace, edges: GpuEdges, draft: Draft) -> None:
    """GPU operation g becomes node g."""
    gpu = trace.gpu
    for operation in range(len(gpu.name)):
        draft.node(gpu.start[operation], gpu.end[operation], GPU, operation, gpu.stream[operation])
    for before, after in zip(edges.before, edges.after, strict=True):
        draft.edge(before, after)


def _launch_edges(trace: DeviceTrace, calls: Calls, found: HostNodes, draft: Draft) -> int:
    """Launch -> operation. One without a launching call hangs on the operator with its external id, else on what the
    main thread did last; returns how many hang on nothing."""
    for operation, call in calls.launcher.items():
        draft.edge(found.launch[call], operation)
    if not calls.orphans:
        return 0
    owner = {external: number for number, external in enumerate(trace.operators.external) if external > 0}
    ends, loose = [draft.end[node] for node in found.main], 0
    for operation in range(len(trace.gpu.name)):
        if operation in calls.launcher:
            continue
        begin = trace.gpu.start[operation]
        node = found.operator.get(owner.get(trace.gpu.external[operation], -1), -1)
        if node < 0 or draft.end[node] > begin:
            place = bisect_right(ends, begin) - 1
            node = found.main[place] if place >= 0 else -1
        if node >= 0:
            draft.edge(node, operation)
        else:
            loose += 1
    return loose


def _with(first: Communications, second: Communications) -> Communications:
    return replace(first, host=second.host, host_more=second.host_more, unclear={**first.unclear, **second.unclear})


def _labels(host: HostTrace | None, join: Join, found: HostNodes, draft: Draft) -> dict[int, int]:
    """Nodes for host nodes without a time, by host node: a chain per thread where nothing has a time, else after their
    caller."""
    if host is None:
        return {}
    timed = {node: operator for operator, node in enumerate(join.host) if node >= 0}
    number = {identity: node for node, identity in enumerate(host.id)}
    labels: dict[int, int] = {}
    last: dict[int, int] = {}
    for node in range(host.nodes):
        if node in timed:
            continue
        above = number.get(host.parent[node], -1)
        caller = found.operator.get(timed[above], -1) if above in timed else labels.get(above, -1)
        at = draft.end[caller] if caller >= 0 else 0
        chained = last.get(host.tid[node], -1) if not timed else -1
        label = labels[node] = draft.node(at, at, LABEL, node, host.tid[node])
        if caller >= 0:
            draft.edge(caller, label)
            found.caller[node] = caller
        if chained >= 0 and chained != caller:
            draft.edge(chained, label)
        last[host.tid[node]] = label
    return labels


def _further_messages(comms: Communications, found: HostNodes, labels: Mapping[int, int], draft: Draft) -> None:
    """A kernel or operator of several messages becomes as many nodes, which wait for the same and are waited for
    alike."""
    comms.messages = dict(comms.more)      # GPU operations are the first nodes
    comms.messages |= {found.operator[number]: further for number, further in comms.operator_more.items()
                       if number in found.operator}
    comms.messages |= {labels[node]: further for node, further in comms.host_more.items() if node in labels}
    copies: dict[int, list[int]] = {}
    for node, further in comms.messages.items():
        for place in range(len(further)):
            copies.setdefault(node, []).append(draft.node(draft.start[node], draft.end[node], MESSAGE, node, place))
    if not copies:
        return
    for edge in range(len(draft.before)):
        before, after, waits = draft.before[edge], draft.after[edge], draft.waits[edge]
        firsts, seconds = [before, *copies.get(before, ())], [after, *copies.get(after, ())]
        for first in firsts:
            for second in seconds:
                if (first, second) != (before, after):
                    draft.edge(first, second, waits)


def _metadata(source: Source, share: float, without: Unrecorded | None, quiet: bool, total: int) -> Metadata:
    host, trace = source.host, source.trace
    attrs = [attribute("kind", "profiled"), attribute("schema", host.schema if host else ""),
             attribute("rank", source.rank), attribute("host_threads", len(set(trace.operators.thread))),
             attribute("start_ns", trace.origin), attribute(UNEXPLAINED, share)]
    if without is not None:
        attrs += [attribute(UNRECORDED, without.finish), attribute(RECORDED, without.recorded),
                  attribute(STEPS, without.steps), attribute(QUIET, quiet),
                  attribute(TOTAL, total)]
    if trace.world is not None:
        attrs.append(attribute("world_size", max(min(trace.world, 1 << 31), -1)))
    for name, value in (host.times if host else {}).items():
        if isinstance(value, str) or (isinstance(value, int) and 0 <= value < 1 << 63):
            attrs.append(attribute(name, value))
    return Metadata("", tuple(attrs))
