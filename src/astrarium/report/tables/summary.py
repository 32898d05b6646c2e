"""A Result as the tables that `astrarium run` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from astrarium.report.tables.collectives import collective_table
from astrarium.report.tables.packets import packet_tables
from astrarium.report.tables.table import Table
from astrarium.result import Result
from astrarium.result.jobs import JobResult
from astrarium.result.memory import TierUse
from astrarium.result.phases import PhaseTime
from astrarium.trace.linked import headline
from astrarium.trace.read import spans
from astrarium.units import format_bytes, format_time

__all__ = ["PARTS", "job_table", "makespan_words", "network_table", "path_table", "rank_name",
           "summary_tables", "time_table"]

PS_PER_NS = 1000
WIDE = 32           # letters of a list of NPUs
CLOSE = 0.9         # share of the memory beyond which head room is looked at
PARTS = (("compute", "compute"), ("exposed_comm", "exposed communication"), ("exposed_memory", "exposed remote memory"),
         ("exposed_host", "exposed host work"), ("ports", "collectives that share ports"), ("bubble", "idle"))
MOVED = {"compute": "compute", "collective": "collectives", "message": "messages", "memory": "remote memory",
         "host": "host work", "wait": "waiting"}


def summary_tables(result: Result, title: str, *more: Table | None) -> Iterator[Table]:
    """Everything that the run says, most wanted first (`more` after the times); a table that would be empty is left
    out. A run of linked traces leads with how much of it nothing in them explains."""
    if result.recorded and result.unexplained is not None:
        yield Table(headline(result.unexplained), "", ())
    yield time_table(result, title)
    if result.jobs:
        yield job_table(result)
    yield from (each for each in more if each is not None)
    if len(result.collectives.op):
        yield collective_table(result)
    if len(result.links.busy):
        yield network_table(result)
    yield from packet_tables(result)
    if len(result.path.work):
        yield path_table(result)


def _time(ps: float) -> str:
    return format_time(ps / PS_PER_NS)


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def time_table(result: Result, title: str) -> Table:
    """Makespan, what the last rank's time went into, memory and the busiest link."""
    whole, parts = result.at_least_ps, result.spent
    last = rank_name(result, result.last_rank)
    rows = [("makespan", makespan_words(result), "", f"{last} finishes last; of its time:")]
    within = sum(parts.values()) > whole      # ASTRA-sim's exposed communication is all that is not compute
    for name, text in PARTS:
        if parts[name] or name in ("compute", "exposed_comm", "bubble"):
            label = f"    of it {text}" if within and name not in ("compute", "exposed_comm") else f"  {text}"
            rows.append((label, _time(parts[name]), _share(parts[name], whole),
                         f"{_port_rank(result)} needs its port of dim {result.ports.where[1]} for the whole makespan"
                         if name == "ports" else ""))
    rows += [_phase(phase) for phase in result.phases]
    rows.append(_memory(result))
    rows += [_tier(tier) for tier in result.memory.tiers if tier.used]
    link, port = result.busiest_link(), result.ports.most / max(result.at_least_ps, 1)
    if port > (0 if link is None else link[1]):
        rows.append(("busiest port", "", _share(port, 1.0),
                     f"needed: dim {result.ports.where[1]}, of {_port_rank(result)}"))
    elif link is not None:
        rows.append(("busiest link", "", _share(link[1], 1.0), f"busy: {link[0]}"))
    return Table(title, "<>><", rows)


def makespan_words(result: Result) -> str:
    """The makespan; where a port is needed for longer (`Result.at_least`), that time as a bound."""
    return ">= " * (result.at_least_ps > result.makespan_ps) + _time(result.at_least_ps)


def _port_rank(result: Result) -> str:
    """The rank whose port is needed for longest."""
    return rank_name(result, int(result.first_ranks[result.ports.where[0]]))


def rank_name(result: Result, rank: int) -> str:
    """A rank by its number; of jobs, with the name of its job."""
    return f"rank {result.first_rank + rank}" if result.job_ranks is None else result.job_ranks.label(rank)


def _phase(phase: PhaseTime) -> tuple[str, str, str, str]:
    """Time to first token, or per further token."""
    if phase.name == "prefill":
        return "TTFT", _time(phase.end - phase.begin), "", "prefill: to the first token"
    return "TPOT", _time(phase.per_token), "", f"decode: each of {phase.tokens:,.10g} tokens of a sequence"


def _memory(result: Result) -> tuple[str, str, str, str]:
    peak, capacity = result.peak_memory, result.memory.capacity
    if peak is None:
        return "peak memory", "unknown", "", "the traces name no tensors"
    known = capacity[~np.isnan(capacity)]
    if not known.size:
        return "peak memory", format_bytes(float(peak)), "", "no capacity given"
    share = _share(float(peak), float(known.min()))
    verdict = "does NOT fit" if bool((result.memory.peak > capacity).any()) else "fits"
    if verdict == "fits" and float(peak) > CLOSE * float(known.min()):
        from astrarium.planner.reserve import reserve_of

        reserve = reserve_of(None, None)
        if float(peak) > reserve.room(float(known.min())):
            verdict = f"fits, but leaves less than an allocator needs in addition to tensors ({reserve.words})"
    return "peak memory", format_bytes(float(peak)), share, f"of {format_bytes(float(known.min()))}: {verdict}"


def _tier(tier: TierUse) -> tuple[str, str, str, str]:
    """A tier behind the local memory, per NPU."""
    peak, verdict = float(np.nanmax(tier.peak)), "does NOT fit" if tier.overflows else "fits"
    return (f"  in {tier.name}", format_bytes(peak), _share(peak, tier.capacity),
            f"of {format_bytes(tier.capacity)} per NPU: {verdict}")


def job_table(result: Result) -> Table:
    """Every job: where it ran, how long it took from its start, and how long it takes alone. A job that others run
    beside for a part of its time only has its slowdown there, too: what it lost, it lost in that part."""
    together = [_overlap(job, result.jobs) for job in result.jobs]
    parts = any(beside < 0.99 * job.makespan_ps for beside, job in zip(together, result.jobs))
    rows = [(job.name, f"{len(job.ranks):,}", _cut(spans(job.npus.tolist())), _time(job.start_ps),
             _time(job.makespan_ps), "" if job.exposed_comm_ps is None else _time(job.exposed_comm_ps),
             _time(job.alone_ps), f"{job.slowdown:.3f}x", *((_share(beside, job.makespan_ps), _slowdown_in(job, beside))
                                                           if parts else ()))
            for job, beside in zip(result.jobs, together)]
    return Table("jobs (alone: on the same NPUs, without the others)", "<><>>>>>" + (">>" if parts else ""), rows,
                 ("job", "ranks", "NPUs", "start", "makespan", "exposed comm", "alone", "slowdown",
                  *(("beside others", "slowdown there") if parts else ())))


def _overlap(job: JobResult, jobs: Sequence[JobResult]) -> int:
    """ps of a job in which another one runs."""
    found, last, end = 0, job.start_ps, job.start_ps + job.makespan_ps
    for other in sorted((each for each in jobs if each is not job), key=lambda each: each.start_ps):
        begin, stop = max(last, other.start_ps), min(end, other.start_ps + other.makespan_ps)
        found, last = found + max(0, stop - begin), max(last, stop)
    return found


def _slowdown_in(job: JobResult, beside: int) -> str:
    """The slowdown of a job in `beside` ps, outside of which it is as fast as alone."""
    alone = beside - (job.makespan_ps - job.alone_ps)
    return f"{beside / alone:.3f}x" if alone > 0 else "-"


def _cut(text: str) -> str:
    return text if len(text) <= WIDE else text[:text.rindex(",", 0, WIDE)] + ", …"


def network_table(result: Result) -> Table:
    """Traffic per dim, of a fabric's graph per tier."""
    if result.plan.network.graph is not None:
        return _tier_table(result)
    dims, ports = result.dims, result.ports.needed
    rows = [(str(number), dim.shape.name.lower(), f"{dim.npus:,}", format_bytes(int(dims.size[number])),
             _share(float(dims.mean_utilisation[number]), 1.0), _share(float(dims.max_utilisation[number]), 1.0))
            for number, dim in enumerate(result.plan.network.dims)]
    heads = ("dim", "shape", "NPUs", "sent", "mean busy", "most busy")
    if not len(ports):
        return Table("network (busy: share of the makespan)", "><>>>>", rows, heads)
    needed = ports.max(axis=0) / max(result.at_least_ps, 1)
    return Table("network (shares of the makespan; collectives of given time count in 'port needed' alone)",
                 "><>>>>>", [(*row, _share(float(share), 1.0)) for row, share in zip(rows, needed)],
                 (*heads, "port needed"))


def _tier_table(result: Result) -> Table:
    """Traffic over the links of a graph, by tier."""
    links = result.links
    tiers = np.array(links.tiers() or [""] * links.busy.size)
    rows = []
    for tier in sorted(set(tiers.tolist())):
        of = tiers == tier
        busy = links.utilisation[of]
        rows.append((tier.replace("_", "-") or "no tier", f"{int(of.sum()):,}", format_bytes(int(links.size[of].sum())),
                     _share(float(busy.mean()), 1.0), _share(float(busy.max()), 1.0)))
    return Table("links of the fabric (busy: share of the makespan)", "<>>>>", rows,
                 ("tier", "links used", "carried", "mean busy", "most busy"))


def path_table(result: Result) -> Table:
    """What the critical path consists of."""
    rows = [(MOVED.get(name, name), _time(share * result.makespan_ps), _share(share, 1.0))
            for name, share in result.path.shares().items()]
    return Table("critical path", "<>>", rows)
