"""Random systems under our own rule book: two engines agree, folding changes nothing, physics holds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from tests.plans.draw import Case, random_case

import astrarium as ar
from astrarium import engine
from astrarium.engine import Outcome, Plan
from astrarium.engine.plan import Backend
from astrarium.errors import AstrariumError, UnsupportedError
from astrarium.lower import lower
from astrarium.result import Result
from astrarium.trace import TraceBuilder, traces_of_bytes

cases = st.randoms(use_true_random=False).map(random_case)
LINKS = ("link_dim", "link_from", "link_to", "link_bytes", "link_busy")
needs_core = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")


def lowered(case: Case) -> Plan:
    """The plan; a combination that is refused, such as a tree's reduce_scatter, is not an example."""
    try:
        return lower(case.design, case.traces)
    except UnsupportedError:
        reject()


def run(plan: Plan, *, fold: bool = False, pure: bool = False) -> Outcome | type[AstrariumError]:
    """The outcome, or the class of the refusal."""
    try:
        return engine.execute(plan, record=True, fold=fold, pure=pure)
    except AstrariumError as error:
        return type(error)


@needs_core
@given(cases)
def test_both_engines_give_the_same_integers(case: Case) -> None:
    plan = lowered(case)
    ours, theirs = run(plan, pure=True), run(plan)
    if not isinstance(ours, Outcome) or not isinstance(theirs, Outcome):
        assert ours == theirs
        return
    for name in ("finish", "busy", "start", "end"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    traffic = [sorted(zip(*(getattr(o, name).tolist() for name in LINKS), strict=True)) for o in (ours, theirs)]
    assert traffic[0] == traffic[1]
    assert ours.use_width == theirs.use_width
    np.testing.assert_array_equal(ours.use_busy, theirs.use_busy)


@needs_core
@given(cases)
def test_folding_gives_the_same_integers(case: Case) -> None:
    plan = lowered(case)
    every, folded = run(plan), run(plan, fold=True)
    if not isinstance(every, Outcome) or not isinstance(folded, Outcome):
        assert every == folded
        return
    for name in ("finish", "busy"):
        np.testing.assert_array_equal(getattr(folded, name)[folded.row], getattr(every, name), err_msg=name)
    assert folded.use_width == every.use_width
    np.testing.assert_array_equal(folded.use_busy, every.use_busy)
    one = Result(plan, folded)
    for row, rank in enumerate(one.first_ranks.tolist()):
        ours = slice(*folded.node_ptr[row:row + 2])
        theirs = slice(*every.node_ptr[rank:rank + 2])
        np.testing.assert_array_equal(folded.start[ours], every.start[theirs])
        np.testing.assert_array_equal(folded.end[ours], every.end[theirs])


@given(cases)
def test_no_link_or_port_exceeds_100_percent(case: Case) -> None:
    plan = lowered(case)
    outcome = run(plan)
    if isinstance(outcome, Outcome):
        assert (outcome.link_busy <= outcome.makespan).all()


@given(cases)
def test_use_over_time_adds_up_to_what_the_links_were_busy(case: Case) -> None:
    plan = lowered(case)
    outcome = run(plan)
    if not isinstance(outcome, Outcome):
        return
    use = outcome.use_busy.reshape(len(plan.network.dims), -1)
    leaves = outcome.link_from >= 0
    for number in range(len(plan.network.dims)):
        mine = leaves & (outcome.link_dim == number)
        assert use[number].sum() == outcome.link_busy[mine].sum()
        assert (use[number] <= outcome.use_width * np.count_nonzero(mine)).all()    # no link more than all the time


@given(st.randoms(use_true_random=False).map(lambda rng: random_case(rng, ("closed_form",))))
def test_every_byte_that_leaves_arrives(case: Case) -> None:
    plan = lowered(case)
    outcome = run(plan)
    if not isinstance(outcome, Outcome):
        return
    assert plan.network.backend == Backend.PORTS
    out, into = outcome.link_to < 0, outcome.link_from < 0
    for number, dim in enumerate(plan.network.dims):
        mine = outcome.link_dim == number
        sent, taken = (int(outcome.link_bytes[mine & side].sum()) for side in (out, into))
        assert sent >= taken                     # rings and meshes also load the links that they pass
        if dim.npus == 2 or dim.shape.name in ("SWITCH", "FULLY_CONNECTED", "HYPERCUBE"):
            assert sent == taken


@given(cases)
def test_the_parts_of_a_rank_s_time_add_up(case: Case) -> None:
    plan = lowered(case)
    outcome = run(plan)
    if not isinstance(outcome, Outcome):
        return
    result = Result(plan, outcome)
    ranks = result.ranks
    parts = (ranks.compute, ranks.exposed_comm, ranks.exposed_memory, ranks.exposed_host, ranks.bubble)
    assert all((part >= 0).all() for part in parts)
    np.testing.assert_array_equal(sum(parts), ranks.finish)
    np.testing.assert_array_equal(ranks.finish + ranks.idle, outcome.makespan)


@given(cases)
def test_the_critical_path_has_no_gaps(case: Case) -> None:
    plan = lowered(case)
    outcome = run(plan)
    if not isinstance(outcome, Outcome) or not outcome.makespan:
        return
    path = Result(plan, outcome).path
    assert path.start[0] == 0
    assert path.end[-1] == outcome.makespan
    np.testing.assert_array_equal(path.start[1:], path.end[:-1])
    assert sum(path.shares().values()) == pytest.approx(1.0)


def test_neighbours_links_carry_what_rides_through_them() -> None:
    # Ring of 4, everyone sends 1000 bytes two hops on: every link carries 2000 bytes, 2000 ns at 1 byte/ns.
    builders = [TraceBuilder() for _ in range(4)]
    for rank, builder in enumerate(builders):
        builder.send("send", (rank + 2) % 4, 1000)
        builder.recv("recv", (rank - 2) % 4, 1000)
    design = ar.Design(workload=ar.Trace("in memory"),
                       network=ar.Network([ar.Ring(4, bandwidth="1 GB/s", latency="0 ns")]))
    outcome = run(lower(design, traces_of_bytes([builder.encode() for builder in builders])))
    assert isinstance(outcome, Outcome)
    assert outcome.makespan >= 2_000_000
    assert (outcome.link_busy <= outcome.makespan).all()


@needs_core
@given(cases)
def test_folded_results_say_the_same(case: Case) -> None:
    plan = lowered(case)
    every, folded = run(plan), run(plan, fold=True)
    if not isinstance(every, Outcome) or not isinstance(folded, Outcome) or not folded.folded:
        return
    theirs, ours = Result(plan, every), Result(plan, folded)
    for name in ("compute", "exposed_comm", "exposed_memory", "exposed_host", "bubble", "idle"):
        np.testing.assert_array_equal(getattr(ours.ranks, name)[folded.row], getattr(theirs.ranks, name), err_msg=name)

    def table(result: Result) -> Counter[tuple[int, ...]]:
        c, found = result.collectives, Counter[tuple[int, ...]]()
        for *row, count in zip(*(getattr(c, name).tolist() for name in
                                 ("op", "ranks", "payload", "start", "ready", "end", "instances")), strict=True):
            found[tuple(row)] += count
        return found

    assert table(ours) == table(theirs)
    assert ours.path.end[-1:].tolist() == theirs.path.end[-1:].tolist()
