"""What linking did not find: lines of the report."""

from __future__ import annotations

from astrarium.profile.link.emit import Source
from astrarium.profile.link.host import HostTrace
from astrarium.profile.link.join import Join
from astrarium.profile.link.nodes import Order
from astrarium.profile.link.records import DeviceTrace

__all__ = ["missing_of", "warnings_of"]

CATEGORIES = 8       # that are named


def warnings_of(join: Join, host: HostTrace | None, trace: DeviceTrace) -> tuple[str, ...]:
    """What makes the whole trace doubtful: host and device traces of different runs."""
    if host is None or not trace.where or not join.doubtful:
        return ()
    return (f"only {join.count:,} of {join.most:,} host nodes join: {host.where} and {trace.where} look like "
            "recordings of different runs. Where they do not join, tensors, call structure and communication are "
            "missing or wrong.",)


def missing_of(source: Source, clipped: int, order: Order, loose: int) -> list[str]:
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
