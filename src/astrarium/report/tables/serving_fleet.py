"""What each part of a fleet did, as a table of `astrarium serve` and as plain values."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from astrarium.arrays import Bool
from astrarium.report.tables.table import Table
from astrarium.serving import Member, Served
from astrarium.serving.outcome import PS, InstanceRun, figures
from astrarium.units import format_time

__all__ = ["fleet_lines", "fleet_plain", "fleet_tables"]

SHOWN = ("ttft_mean_ns", "ttft_p99_ns", "tpot_mean_ns", "tpot_p99_ns")


def fleet_tables(served: Served, members: Sequence[Member]) -> Iterator[Table]:
    """A line for each entry, of a fleet with several instances: requests and latencies of the steady state, the rest of
    the whole run."""
    if len(served.parts) < 2 or served.instance is None:
        return
    rows, of = list[tuple[str, ...]](), np.array([part.member for part in served.parts])[served.instance]
    for number, member in enumerate(members):
        parts = [part for part in served.parts if part.member == number]
        found = _figures(served, of == number)
        times = [format_time(found[name]) if name in found else "" for name in SHOWN]
        busy = sum(part.busy for part in parts) / sum(part.servers for part in parts) / PS / served.span
        rows.append((f"{member.count:,} x {os.path.basename(member.design)}", f"{parts[0].npus:,}",
                     f"{found['requests']:,}", *times, f"{100 * busy:.1f} %", f"{100 * found['cached_share']:.1f} %"))
    yield Table("fleet", "<>>>>>>>>", rows, ("instances", "NPUs each", "requests", "TTFT mean", "p99", "TPOT mean",
                                             "p99", "busy", "cached"))


def fleet_lines(served: Served) -> Iterator[tuple[str, str, str]]:
    """Failures, and links that caches take, as lines of the table `served`."""
    failed, down = (sum(getattr(part, name) for part in served.parts) for name in ("failed", "down"))
    if failed:
        again = 0 if served.retried is None else int(np.count_nonzero(served.retried))
        yield ("failures", f"{failed:,}", f"of instances, down for {down / PS:,.4g} s in all; {again:,} requests were "
               f"sent again, {served.wasted:,} tokens were given in vain")
    linked = max((part.linked for part in served.parts), default=0)
    if linked:
        yield "links of caches", "", f"the busiest is busy {100 * linked / PS / served.span:.1f} % of the time"


def fleet_plain(served: Served, members: Sequence[Member]) -> list[dict[str, Any]]:
    """Every instance, units in the keys: requests and latencies of the steady state, the rest of the whole run."""
    return [{"instance": number, "design": members[part.member].design, "npus": part.npus, "servers": part.servers,
             **_figures(served, np.equal(served.instance, number)), **_run(part, served)}
            for number, part in enumerate(served.parts) if served.instance is not None]


def _run(part: InstanceRun, served: Served) -> dict[str, float | int]:
    return {"steps": part.steps, "busy_share": part.busy / PS / served.span / part.servers,
            "preemptions": part.preemptions, "failures": part.failed, "down_ns": part.down / 1000,
            "startup_ns": part.startup / 1000, "busiest_link_share": part.linked / PS / served.span}


def _figures(served: Served, mine: Bool) -> dict[str, Any]:
    """Latencies in ns, and the share of prompts that was cached, of some requests of the steady state."""
    mine = mine & served.within(served.window)
    found: dict[str, Any] = {"requests": int(np.count_nonzero(mine))}
    tpot = served.tpot[mine]
    for name, values in (("ttft", served.ttft[mine]), ("tpot", tpot[~np.isnan(tpot)])):
        if len(values):
            found |= figures(name, values)
    cached = 0 if served.cached is None else int(served.cached[mine].sum())
    return found | {"cached_share": cached / max(1, int(served.prompt[mine].sum()))}
