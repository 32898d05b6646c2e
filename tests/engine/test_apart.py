"""Which jobs may meet, and which are equal."""

from __future__ import annotations

import numpy as np
import pytest

import astrarium as ar
from astrarium.engine import execute
from astrarium.engine.apart import run_apart, sets_of_jobs
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Plan
from astrarium.lower import Kept, first_ranks, lower, plugins_of, read_work

LINK = {"bandwidth": "10 GB/s", "latency": "1 us"}


def plan_of(design: ar.Design) -> tuple[Plan, tuple[int, ...]]:
    kept = Kept()
    plan = lower(design, read_work(design, {}, kept), plugins_of(design, None), kept=kept)
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


def test_equal_jobs_run_once() -> None:
    """Those moved along a ring, and those at other places of a switch; not those that stand otherwise."""
    places = [[0, 1, 2], [2 + 8, 3 + 8, 4 + 8], [16, 18, 20], [7 + 24, 0 + 24, 1 + 24]]
    plan, first = plan_of(design_of([ar.Ring(8, **LINK), ar.Switch(4, **LINK)], places, "closed_form"))
    ran: list[int] = []

    def run(part: Plan) -> Outcome:
        ran.append(int(part.npu_of[0]))
        return execute(part, record=True)
    outcome = run_apart(plan, first, run)
    assert ran == [0, 16]
    rows = outcome.row.reshape(4, 3)
    assert np.array_equal(rows[0], rows[1])
    assert np.array_equal(rows[0], rows[3])
    assert rows[2].min() > rows[0].max()


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

    def run(part: Plan) -> Outcome:
        ran.append(int(part.npu_of[0]))
        return execute(part, record=True)
    outcome, joined = run_apart(plan, first, run), execute(plan, record=True)
    assert ran == sorted(set(ran))
    assert len(ran) == len(sets_of_jobs(plan, first)) // 2
    assert links(outcome) == links(joined)
    assert outcome.finish[outcome.row].tolist() == joined.finish[joined.row].tolist()


def links(outcome: Outcome) -> list[tuple[int, ...]]:
    columns = (getattr(outcome, f"link_{name}").tolist() for name in ("dim", "from", "to", "bytes", "busy"))
    return sorted(zip(*columns, strict=True))
