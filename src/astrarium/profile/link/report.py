"""What linking found and did not find."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from astrarium.profile.link.emit import Source
from astrarium.profile.link.gaps import Gaps
from astrarium.profile.link.host import HostTrace
from astrarium.profile.link.join import Join
from astrarium.profile.link.nodes import Draft, Order
from astrarium.profile.link.records import MEMSET, DeviceTrace
from astrarium.profile.link.replay import Replayed
from astrarium.profile.link.spins import Spins
from astrarium.profile.link.streams import GpuEdges
from astrarium.profile.link.unrecorded import Unrecorded
from astrarium.trace.linked import headline, labelled
from astrarium.trace.micros import in_ns

__all__ = ["LinkReport", "report_of"]

CATEGORIES = 8       # that are named in the report


class LinkReport(Struct, frozen=True):
    """Counts of one linked rank. Times in microseconds."""

    rank: int
    gap_share: float                     # of the replay's critical path: time that nothing recorded accounts for
    schema: str | None                   # of the host trace
    nodes: int
    host_nodes: int                      # of the host trace
    operators: int                       # of the device trace, annotations among them
    joined: int                          # host nodes with a time
    joined_by: str                       # "rf_id", "name and order" or "nothing"
    host_threads: int
    gpu_operations: int                  # kernels and copies
    gpu_memsets: int
    streams: int
    launched: int                        # GPU operations whose launching call was found
    stream_waits: int                    # waits of one stream for another
    stream_waits_inferred: int           # of these, those that follow from times only
    host_waits: int                      # calls that waited for GPU work
    host_spins: int                      # of these, those that were spent polling, which follow from times only
    spins_us: float                      # their time
    thread_waits: int                    # stretches in which the main thread waited for another
    communications: Mapping[str, int]    # by operation; `all_reduce (reduce_scatter)`: run for that
    groups: int
    measured_us: float                   # first begin to last end
    replayed_us: float                   # what replay will give
    unexplained_us: float                # host time after waits that no dependency explains
    gaps_us: float                       # idle time of streams that no dependency explains, in separate nodes
    idle_us: float                       # host time of the main thread outside operators
    unrecorded_us: float | None = None   # what the run takes without its profilers; None without timed operators
    observers_us: float = 0.0            # what the profilers took of a host operator, the mean
    steps: int = 1                       # in the recording
    missing: tuple[str, ...] = field(default=())
    warnings: tuple[str, ...] = field(default=())      # what makes the whole trace doubtful
    without: tuple[str, ...] = field(default=())       # `unrecorded_us` for people

    def plain(self) -> dict[str, Any]:
        """The report as JSON values."""
        found: dict[str, Any] = in_ns({name: value for name, value in asdict(self).items() if name != "without"})
        return found

    def _spins(self) -> str:
        """The waits that were inferred from times, if there are any."""
        if not self.host_spins:
            return ""
        return f" ({self.host_spins} by polling, inferred from times, {self.spins_us / 1000:.3f} ms)"

    def line(self) -> str:
        """The report in a line, for one of several ranks; what makes it doubtful is not in it."""
        parts = [f"rank {self.rank}: {self.nodes:,} nodes"]
        if self.measured_us:
            parts.append(f"measured {self.measured_us / 1000:.1f} ms")
        if self.unrecorded_us is not None:
            parts.append(f"without profilers {self.unrecorded_us / self.steps / 1000:.1f} ms"
                         + (" a step" if self.steps > 1 else ""))
        if self.measured_us:
            parts.append(f"{self.gap_share:.1%} unexplained gap")
        return ", ".join(parts) + (f"; {len(self.missing)} things missing" if self.missing else "")

    def lines(self) -> list[str]:
        """The report for people."""
        comms = ", ".join(f"{count} {name}" for name, count in self.communications.items()) or "none"
        parts = [f"WARNING: {what}" for what in self.warnings]
        parts += [headline(self.gap_share)] if self.measured_us else []
        parts += [f"rank {self.rank}: {self.nodes:,} nodes from {self.host_nodes:,} host nodes, {self.operators:,} "
                 f"timed operators and {self.gpu_operations + self.gpu_memsets:,} GPU operations"]
        if self.operators:
            parts += [f"joined: {self.joined:,} host nodes by {self.joined_by}; {self.launched:,} GPU operations to "
                      "their launching calls",
                      f"{self.host_threads} host threads, {self.streams} streams; waits: {self.stream_waits} between "
                      f"streams ({self.stream_waits_inferred} inferred from times), {self.host_waits} of the host for "
                      f"the GPU{self._spins()}, {self.thread_waits} between threads"]
        parts.append(f"communications: {comms}; {self.groups} groups")
        if self.measured_us:
            parts.append(f"measured {self.measured_us / 1000:.3f} ms, replay {self.replayed_us / 1000:.3f} ms (by "
                         f"construction); unexplained host time {self.unexplained_us / 1000:.3f} ms, idle time of "
                         f"streams {self.gaps_us / 1000:.3f} ms")
        return parts + list(self.without) + [f"missing: {what}" for what in self.missing]


def report_of(source: Source, edges: GpuEdges, gaps: Gaps, spins: Spins, draft: Draft, order: Order, result: Replayed,
            gap_share: float, loose: int, threads: int, without: Unrecorded | None) -> LinkReport:
    host, trace, calls = source.host, source.trace, source.calls
    counts: dict[str, int] = {}
    tables = [table.values() for table in (source.comms.gpu, source.comms.operator, source.comms.host)]
    for comm in chain(*tables, *source.comms.messages.values()):
        name = labelled(comm.op, comm.logical)
        counts[name] = counts.get(name, 0) + 1
    fills = sum(kind == MEMSET for kind in trace.gpu.kind)
    return LinkReport(
        rank=source.rank, gap_share=gap_share, schema=host.schema if host else None,
        nodes=len(draft) + bool(source.groups), host_nodes=host.nodes if host else 0,
        operators=len(trace.operators.name), joined=source.join.count, joined_by=source.join.by, host_threads=threads,
        gpu_operations=len(trace.gpu.name) - fills, gpu_memsets=fills, streams=len(set(trace.gpu.stream)),
        launched=len(calls.launcher), stream_waits=edges.waits + gaps.waits,
        stream_waits_inferred=edges.inferred + gaps.waits,
        host_waits=calls.blocked, host_spins=spins.count, spins_us=spins.time / 1000,
        thread_waits=source.found.awaited,
        communications=dict(sorted(counts.items())), groups=len(source.groups),
        measured_us=(max(draft.end, default=0) - min(draft.start, default=0)) / 1000, replayed_us=result.finish / 1000,
        unexplained_us=result.unexplained / 1000, gaps_us=gaps.time / 1000, idle_us=source.found.idle / 1000,
        unrecorded_us=None if without is None else without.finish / 1000,
        observers_us=0.0 if without is None else round(without.observers.cost / 1000, 3),
        steps=1 if without is None else without.steps, without=() if without is None else (without.line,),
        missing=tuple(_missing(source, edges.clipped + gaps.clipped + spins.clipped, order, loose)),
        warnings=_warnings(source.join, host, trace))


def _warnings(join: Join, host: HostTrace | None, trace: DeviceTrace) -> tuple[str, ...]:
    """What makes the whole trace doubtful: host and device traces of different runs."""
    if host is None or not trace.where or not join.doubtful:
        return ()
    return (f"only {join.count:,} of {join.most:,} host nodes join: {host.where} and {trace.where} look like "
            "recordings of different runs. Where they do not join, tensors, call structure and communication are "
            "missing or wrong.",)


def _missing(source: Source, clipped: int, order: Order, loose: int) -> list[str]:
    """A line for everything that was not there. `clipped`: operations that were cut; `loose`: those that hang on
    nothing."""
    host, trace, calls, join = source.host, source.trace, source.calls, source.join
    out = []
    if host is None:
        out.append("no host trace: no tensors, no call structure beyond times")
    elif not trace.where:
        out.append("no device trace: no durations, no GPU operations; nodes take no time")
    else:
        for number, what in ((host.nodes - join.count, "host nodes without a time (written with duration 0)"),
                             (sum(node < 0 for node in join.host), "timed operators without a host node"),
                             (join.misnamed, "of these whose id a host node of another name has")):
            if number:
                out.append(f"{number:,} {what}")
    for number, what in ((calls.orphans, "GPU operations whose launching call is not in the trace"),
                         (len(calls.adopted), "communication kernels without a correlation id, matched to "
                          "record_param_comms in order"),
                         (calls.corrupt, "GPU operations that outlast the next one of their stream (cut where that "
                          "begins: a duration is corrupt)"),
                         (loose, "of these that wait for no host time"),
                         (calls.twins, "calls with the correlation id of another (the first counts)"),
                         (trace.skipped, "events without a usable time"),
                         (order.dropped, "dependencies that would have closed a cycle (dropped)"),
                         (clipped, "GPU operations cut where the next began, or the host that polled them went on")):
        if number:
            out.append(f"{number:,} {what}")
    if calls.skew:
        out.append(f"the GPU's clock: its times were moved by {calls.skew / 1000:.3f} us")
    out += [f"{number:,} {what}" for what, number in sorted(source.comms.unclear.items())]
    return out + _unread(trace)


def _unread(trace: DeviceTrace) -> list[str]:
    """Categories of events that are not known here, most frequent first."""
    found = sorted(trace.unread.items(), key=lambda pair: (-pair[1], pair[0]))
    out = [f"{number:,} events of category {name[:40]!r}, which is not read" for name, number in found[:CATEGORIES]]
    rest = found[CATEGORIES:]
    return out + ([f"{sum(n for _, n in rest):,} events of {len(rest)} further categories"] if rest else [])
