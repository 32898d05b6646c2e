"""Which jobs may meet, and which are equal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import astrarium as ar
from astrarium.engine import execute
from astrarium.engine.apart import execute_apart, run_apart, sets_of_jobs
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Plan
from astrarium.errors import StallError, StoppedError
from astrarium.lower import Kept, first_ranks, lower_jobs, plugins_of, read_jobs
from astrarium.trace import TraceBuilder, Traces, traces_of_bytes
from astrarium.vocab import CommOp

LINK = {"bandwidth": "10 GB/s", "latency": "1 us"}


def plan_of(design: ar.Design, known: dict[tuple[str, int], Traces] | None = None) -> tuple[Plan, tuple[int, ...]]:
    kept = Kept()
    plan = lower_jobs(design, read_jobs(design, known or {}, kept), plugins_of(design, None), kept)
    return plan, first_ranks(design)


def design_of(dims: list[ar.Dim], places: list[list[int]], backend: str) -> ar.Design:
    work = ar.SingleCollective("all_reduce", "1 MB")
    return ar.Design(workload=ar.Jobs([ar.Job(work, npus) for npus in places]), network=ar.Network(dims, backend))


ROW = [[0, 1, 2], [4, 5, 6]]                # both halves of a line of 8
MIXED = [[0, 2, 4], [1, 3, 5]]


@pytest.mark.parametrize(("shape", "backend", "places", "sets"), [
    (ar.Ring, "contention", ROW, [[0], [1]]),
    (ar.Ring, "contention", MIXED, [[0, 1]]),
    (ar.Ring, "closed_form", MIXED, [[0], [1]]),
    (ar.Mesh, "contention", ROW, [[0], [1]]),
    (ar.Mesh, "closed_form", MIXED, [[0, 1]]),      # messages pass the NPUs between
    (ar.Mesh, "closed_form", ROW, [[0], [1]]),
    (ar.Switch, "contention", MIXED, [[0], [1]]),
    (ar.FullyConnected, "contention", MIXED, [[0], [1]]),
    (ar.Ring, "fluid", ROW, [[0, 1]]),              # nothing is known of its links here
])
def test_jobs_that_share_no_link_are_apart(shape: type, backend: str, places: list[list[int]],
                                           sets: list[list[int]]) -> None:
    assert sets_of_jobs(*plan_of(design_of([shape(8, **LINK)], places, backend))) == sets


@pytest.mark.parametrize("backend", ["closed_form", "contention"])
@pytest.mark.parametrize(("dim", "total", "places", "sets"), [
    (0, 10, [[0, 1], [2, 3]], [[0, 1]]),
    (0, 10, [[0, 1, 2, 3], [4, 5, 6, 7]], [[0], [1]]),      # another switch, with a link of its own
    (1, 40, [[0, 1], [4, 5]], [[0, 1]]),
    (1, 40, [[0, 4], [1, 5]], [[0], [1]]),
    (0, 20, [[0, 2], [1, 3]], [[0], [1]]),                  # two links to each switch, which NPUs take in turn
    (0, 20, [[0, 1], [2, 3]], [[0, 1]]),
])
def test_jobs_that_share_a_link_to_a_memory_at_switches_are_together(
        dim: int, total: int, places: list[list[int]], sets: list[list[int]], backend: str) -> None:
    trace = TraceBuilder()
    trace.memory("load", 1_000_000, tier="pool")
    known = {(str(at), len(npus)): traces_of_bytes([trace.encode()] * len(npus)) for at, npus in enumerate(places)}
    tier = ar.Tier("pool", capacity="1 TB", bandwidth="10 GB/s", npus=(4, 8)[dim], total=f"{total} GB/s",
                   over="network", dim=dim)
    design = ar.Design(workload=ar.Jobs([ar.Job(ar.Trace(str(at)), npus) for at, npus in enumerate(places)]),
                       network=ar.Network([ar.Switch(4, **LINK), ar.Switch(2, **LINK)], backend),
                       memory=ar.Memory(tiers=[tier]))
    assert sets_of_jobs(*plan_of(design, known)) == sets
    apart, joined = (ar.simulate(design, cache=known, fold=fold) for fold in ("auto", "off"))
    assert [job.makespan_ps for job in apart.jobs] == [job.makespan_ps for job in joined.jobs]
    assert [job.slowdown > 1 for job in apart.jobs] == [False, len(sets) == 1]


def test_a_set_that_stalls_says_so_as_a_run_of_all_jobs() -> None:
    """Its sentences count ranks as the plan does."""
    plan, first = plan_of(design_of([ar.Ring(8, **LINK)], ROW, "contention"))
    ran: list[int] = []

    def stalls(part: Plan, hurried: bool) -> Outcome:
        ran.append(part.npu_of.size)
        raise StallError([f"{'' if hurried else 'one'} of {part.npu_of.size} ranks waits"])
    with pytest.raises(StallError, match="one of 6 ranks"):
        execute_apart(plan, first, stalls)
    assert ran[-1] == 6

    def stops(part: Plan, hurried: bool) -> Outcome:
        ran.append(part.npu_of.size)
        raise StoppedError("out of time")
    ran.clear()
    with pytest.raises(StoppedError):
        execute_apart(plan, first, stops)
    assert 6 not in ran


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("backend", ["closed_form", "contention", "fluid", "packets", "graph"])
def test_a_job_in_program_order_changes_no_other(backend: str, fold: bool) -> None:
    """Two jobs that share nothing. Ranks of one would issue two collectives in different orders; those of the other
    issue the second of their program first, which takes less time than program order."""
    def traces(crossed: bool) -> Traces:
        made = []
        for rank in range(2):
            trace = TraceBuilder()
            short, long = (trace.comp(name, lasts) for name, lasts in (("short", 1), ("long", 500)))
            if crossed and rank == 1:
                long, short = short, long
            trace.coll("first", CommOp.ALL_GATHER, 1_000_000, after=[long])
            trace.coll("second", CommOp.ALL_GATHER, 2_000_000, after=[short])
            made.append(trace.encode())
        return traces_of_bytes(made)
    known = {(name, 2): traces(name == "crossed") for name in ("same", "crossed")}
    jobs = [ar.Job(ar.Trace(name), npus) for name, npus in (("same", [0, 1]), ("crossed", [2, 3]))]
    fabric = ar.blueprint("clos", hosts=4, ports=4, links={"access": LINK, "spine": LINK})
    networks = {"graph": {"fabric": fabric, "backend": "contention"}, "packets": {"fabric": fabric, "backend": backend}}
    network = ar.Network(**networks.get(backend, {"dims": [ar.Ring(4, **LINK)], "backend": backend}))
    both, one = (ar.simulate(ar.Design(workload=ar.Jobs(each), network=network), cache=known,
                             fold="auto" if fold else "off") for each in (jobs, jobs[:1]))
    assert both.outcome.in_program_order
    assert not one.outcome.in_program_order
    assert both.jobs[0].makespan_ps < both.jobs[1].makespan_ps
    assert both.jobs[0].makespan_ps == both.jobs[0].alone_ps == one.jobs[0].makespan_ps


def ranks_of_sets(plan: Plan, first: Sequence[int]) -> list[np.ndarray]:
    return [np.concatenate([np.arange(first[job], first[job + 1]) for job in jobs])
            for jobs in sets_of_jobs(plan, first)]


def test_equal_jobs_run_once() -> None:
    """Those moved along a ring, and those at other places of a switch; not those that stand otherwise."""
    places = [[0, 1, 2], [2 + 8, 3 + 8, 4 + 8], [16, 18, 20], [7 + 24, 0 + 24, 1 + 24]]
    plan, first = plan_of(design_of([ar.Ring(8, **LINK), ar.Switch(4, **LINK)], places, "closed_form"))
    ran: list[int] = []

    def run(part: Plan) -> tuple[np.ndarray, Outcome]:
        ran.append(int(part.npu_of[0]))
        return np.zeros(0, np.int64), execute(part, record=True)
    _, outcome = run_apart(plan, ranks_of_sets(plan, first), run)
    assert ran == [0, 16]
    rows = outcome.row.reshape(4, 3)
    assert np.array_equal(rows[0], rows[1])
    assert np.array_equal(rows[0], rows[3])
    assert rows[2].min() > rows[0].max()


def test_traffic_of_folded_jobs_beside_others() -> None:
    """Messages of one job pass the NPUs of another, whose ranks are equal and run once: each port counts once."""
    line, switch = ar.Mesh(4, **LINK), ar.Switch(4, **LINK)
    work = ar.SingleCollective("all_reduce", "1 MB")
    jobs = [ar.Job(work, npus) for npus in ([0, 3], [1, 1 + 4, 1 + 8, 1 + 12])]     # along the line; along the switch
    folded, every = (ar.simulate(ar.Design(workload=ar.Jobs(jobs), network=ar.Network([line, switch])), fold=fold)
                     for fold in ("auto", "off"))
    assert folded.outcome.folded
    assert folded.dims.size.tolist() == every.dims.size.tolist()
    assert folded.dims.mean_utilisation.tolist() == pytest.approx(every.dims.mean_utilisation.tolist(), rel=1e-12)
    assert folded.links.count.sum() == every.links.count.sum() == len(every.links.size)


@pytest.mark.parametrize("shape", [ar.Ring, ar.Mesh, ar.Switch, ar.FullyConnected, ar.Hypercube])
def test_equal_sets_run_once_on_contention(shape: type) -> None:
    """Two jobs that share links, and the same at another place: rows and links are those of a run of all."""
    places = [[0, 1, 2], [1 + 8, 2 + 8, 3 + 8]]
    copies = [[npu + 4 for npu in each] for each in places]
    dims = [shape(8, **LINK), ar.Switch(2, **LINK)]
    work = [ar.SingleCollective("all_reduce", size) for size in ("1 MB", "3 MB")]
    jobs = [ar.Job(each, npus) for npus, each in zip([*places, *copies], work * 2, strict=True)]
    plan, first = plan_of(ar.Design(workload=ar.Jobs(jobs), network=ar.Network(dims, "contention")))
    ran: list[int] = []

    def run(part: Plan) -> tuple[np.ndarray, Outcome]:
        ran.append(int(part.npu_of[0]))
        return np.zeros(0, np.int64), execute(part, record=True)
    (_, outcome), joined = run_apart(plan, ranks_of_sets(plan, first), run), execute(plan, record=True)
    assert ran == sorted(set(ran))
    assert len(ran) == len(sets_of_jobs(plan, first)) // 2
    assert links(outcome) == links(joined)
    assert outcome.finish[outcome.row].tolist() == joined.finish[joined.row].tolist()


def links(outcome: Outcome) -> list[tuple[int, ...]]:
    columns = (getattr(outcome, f"link_{name}").tolist() for name in ("dim", "from", "to", "bytes", "busy"))
    return sorted(zip(*columns, strict=True))
