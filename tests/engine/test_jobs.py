"""Several jobs on one machine: alone where they do not meet, and nobody's bytes get lost where they do."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws
from tests.oracle.test_same_integers import assert_same
from tests.plans.draw import random_case
from tests.plans.hand import collective, delay, native_collective, plan_of, recv, send

from astrarium import engine
from astrarium.engine import Outcome, Plan, execute
from astrarium.engine.jobs import JobPlan, JoinedJobs, join_jobs
from astrarium.engine.plan import Backend, Dim, NetworkPlan, Policy, Remote, RemoteKind, Shape
from astrarium.engine.program_order import in_program_order
from astrarium.errors import InputError, StallError, TraceError, UnsupportedError
from astrarium.lower import lower
from astrarium.vocab import CommOp

I32 = npt.NDArray[np.int32]
SEEDS = st.integers(0, 2**32 - 1)
BACKENDS = ("closed_form", "closed_form", "contention", "fluid")
LATER = 1_234_567       # ps
core = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")


def drawn(rng: random.Random, places: int, count: int = 1) -> list[Plan]:
    """`count` workloads of one design, each on the first of as many equal parts of a machine as there are `places`."""
    first = random_case(rng, BACKENDS)
    cases = [first]
    while len(cases) < count:
        other = random_case(rng, BACKENDS)
        cases += [other] if other.traces.ranks == first.traces.ranks else []
    try:
        return [wider(lower(first.design, case.traces), places) for case in cases]
    except InputError:      # the draw named an algorithm that has no such operation
        assume(False)
        raise


def wider(plan: Plan, places: int) -> Plan:
    """The plan on a machine with one more dim. Its parts share no remote memory."""
    dims = (*plan.network.dims, Dim(Shape.SWITCH, places, 10.0, 100.0))
    kind = RemoteKind.PER_NPU if plan.remote.kind == RemoteKind.POOL else plan.remote.kind
    return replace(plan, npus=plan.npus * places, network=replace(plan.network, dims=dims),
                   remote=replace(plan.remote, kind=kind), reduce_bandwidth=np.tile(plan.reduce_bandwidth, places))


def part(plan: Plan, place: int) -> I32:
    """Where the ranks are in another part of the machine."""
    return plan.npu_of + np.int32(place * (plan.npus // plan.network.dims[-1].npus))


def moved(rng: random.Random, plan: Plan, shift: bool) -> I32:
    """The placement with the coordinates of each dim shifted, or renamed."""
    place, stride, rest = np.zeros_like(plan.npu_of), 1, plan.npu_of
    for dim in plan.network.dims:
        rest, coordinate = np.divmod(rest, np.int32(dim.npus))
        names = [*range(dim.npus)]
        by = rng.randrange(dim.npus)
        names = names[by:] + names[:by] if shift else rng.sample(names, dim.npus)
        place += np.array(names, np.int32)[coordinate] * np.int32(stride)
        stride *= dim.npus
    return place


def ends(plan: Plan, fold: bool = False) -> Outcome:
    """The outcome of a plan that ends."""
    try:
        return execute(plan, fold=fold)
    except (StallError, TraceError):
        assume(False)
        raise


def by_rank(jobs: JoinedJobs, outcome: Outcome, job: int) -> tuple[list[int], list[int]]:
    """Finish and busy of the ranks of a job."""
    rows = outcome.row[jobs.first[job]:jobs.first[job + 1]]
    return outcome.finish[rows].tolist(), outcome.busy[rows].tolist()


@given(SEEDS)
@draws(30)
def test_jobs_that_do_not_meet_end_as_alone(seed: int) -> None:
    rng = random.Random(seed)
    plans = drawn(rng, 3, 2)
    alone = [ends(plan) for plan in plans]
    starts = [rng.choice([0, LATER]), rng.choice([0, 0, 2 * LATER])]
    jobs = join_jobs([JobPlan(plan, part(plan, place), start)
                      for plan, place, start in zip(plans, rng.sample(range(3), 2), starts, strict=True)])
    for fold in (True, False):
        outcome = execute(jobs.plan, fold=fold)
        for job, (single, start) in enumerate(zip(alone, starts, strict=True)):
            assert by_rank(jobs, outcome, job) == ((single.finish + start).tolist(), single.busy.tolist())


@core
@given(SEEDS)
@draws(20)
def test_both_engines(seed: int) -> None:
    """Also where jobs meet: the second one is in between."""
    rng = random.Random(seed)
    plans = drawn(rng, 2, 2)
    taken = moved(rng, plans[0], shift=False)
    free = [place for _ in range(8) if not np.isin(place := moved(rng, plans[1], shift=False), taken).any()]
    assume(free)
    assert_same(join_jobs([JobPlan(plans[0], taken), JobPlan(plans[1], free[0], LATER)]).plan)


@given(SEEDS)
@draws(25)
def test_a_job_moves_along_dims(seed: int) -> None:
    rng = random.Random(seed)
    plan = drawn(rng, 2)[0]
    assume(not plan.reduce_bandwidth.size and plan.remote.kind != RemoteKind.PER_NODE)      # all NPUs are equal
    assume(not {dim.shape for dim in plan.network.dims} & {Shape.MESH, Shape.HYPERCUBE})
    there = join_jobs([JobPlan(plan, moved(rng, plan, shift=True))]).plan
    assert ends(plan).finish.tolist() == execute(there, fold=False).finish.tolist()


@core
@given(SEEDS)
@draws(40)
def test_folding_with_renamed_coordinates(seed: int) -> None:
    rng = random.Random(seed)
    plan = drawn(rng, 2)[0]
    there = join_jobs([JobPlan(plan, moved(rng, plan, shift=False))]).plan
    every, folded = ends(there), execute(there)
    assert folded.finish[folded.row].tolist() == every.finish.tolist()


@core
@given(SEEDS)
@draws(20)
def test_equal_jobs_fold_to_the_classes_of_one(seed: int) -> None:
    plan = drawn(random.Random(seed), 16)[0]
    alone = join_jobs([JobPlan(plan, plan.npu_of)]).plan
    one = ends(alone, fold=True)
    assume(one.folded and plan.network.backend == Backend.PORTS)
    jobs = join_jobs([JobPlan(plan, part(plan, place)) for place in range(16)])
    assert jobs.plan.programs == alone.programs
    assert len(jobs.plan.collectives) == len(plan.collectives)
    outcome = execute(jobs.plan)
    assert outcome.finish.tolist() == one.finish.tolist()
    ranks = [each for row in range(len(one.finish)) for each in jobs.of_row(outcome, row)]
    assert sorted(ranks) == [(job, rank) for job in range(16) for rank in range(plan.npu_of.size)]


@core
@pytest.mark.parametrize("start", [0, LATER])
def test_periods_of_jobs_are_counted(start: int) -> None:
    network = NetworkPlan(Backend.PORTS, (Dim(Shape.SWITCH, 2, 10.0, 5.0), Dim(Shape.SWITCH, 2, 1.0, 0.0)))
    nodes = [delay(1000), *(delay(1000 + 7 * (place % 2), place) for place in range(400))]
    plan = plan_of([nodes] * 2, network)
    jobs = join_jobs([JobPlan(plan, plan.npu_of, start), JobPlan(plan, part(plan, 1), start)])
    assert execute(jobs.plan).counted > 0
    assert in_program_order(jobs.plan) is not None


def ring_jobs(backend: str, op: CommOp, size: int) -> list[JobPlan]:
    """Two jobs of four ranks, at the even and at the odd places of a ring."""
    network = NetworkPlan(backend, (Dim(Shape.RING, 8, 10.0, 5.0),))
    made = native_collective("ring", op, 4, size, chunks=4, active=0)
    plan = plan_of([[collective(0)]] * 4, network, collectives=[made])
    return [JobPlan(replace(plan, npu_of=places), places) for places in
            (np.arange(0, 8, 2, dtype=np.int32), np.arange(1, 8, 2, dtype=np.int32))]


@pytest.mark.parametrize("pure", [True, pytest.param(False, marks=core)])
@pytest.mark.parametrize("op", [CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER])
def test_jobs_on_the_same_links_are_slower(op: CommOp, pure: bool) -> None:
    """On links each carries half the time; in closed form only ports count, and those are each NPU's own."""
    jobs = ring_jobs("contention", op, 80_000)
    alone = execute(join_jobs(jobs[:1]).plan, pure=pure)
    together = join_jobs(jobs)
    outcome = execute(together.plan, pure=pure)
    assert (outcome.finish[outcome.row] > alone.makespan).all()
    assert max(together.makespan(outcome, job) for job in range(2)) <= 2 * alone.makespan
    ports = ring_jobs("closed_form", op, 80_000)
    both, one = (execute(join_jobs(some).plan, pure=pure).makespan for some in (ports, ports[:1]))
    assert both == one


def carried(outcome: Outcome) -> Counter[tuple[int, int, int]]:
    links = zip(outcome.link_dim.tolist(), outcome.link_from.tolist(), outcome.link_to.tolist(), strict=True)
    found: Counter[tuple[int, int, int]] = Counter()
    for link, size in zip(links, outcome.link_bytes.tolist(), strict=True):
        found[link] += size
    return found


@given(SEEDS)
@draws(15)
def test_links_carry_the_bytes_of_all_jobs(seed: int) -> None:
    rng = random.Random(seed)
    plans = drawn(rng, 2, 2)
    jobs = [JobPlan(plan, part(plan, place), LATER * place) for place, plan in enumerate(plans)]
    try:
        alone = [execute(join_jobs([job]).plan, record=True, fold=False) for job in jobs]
    except (StallError, TraceError):
        assume(False)
        raise
    assert carried(execute(join_jobs(jobs).plan, record=True, fold=False)) == carried(alone[0]) + carried(alone[1])


@pytest.mark.parametrize("backend", ["closed_form", "contention", "fluid"])
def test_shared_links_carry_the_bytes_of_all_jobs(backend: str) -> None:
    jobs = ring_jobs(backend, CommOp.ALL_REDUCE, 100_003)
    alone = [execute(join_jobs([job]).plan, record=True, fold=False) for job in jobs]
    assert carried(execute(join_jobs(jobs).plan, record=True, fold=False)) == carried(alone[0]) + carried(alone[1])


def messages() -> Plan:
    network = NetworkPlan(Backend.PORTS, (Dim(Shape.SWITCH, 4, 10.0, 5.0), Dim(Shape.RING, 4, 10.0, 5.0)))
    ranks = [[send(1, 1000, tag=3), collective(1, group=-1)], [recv(0, 1000, tag=3), collective(1, group=-1)]]
    made = [native_collective("ring", CommOp.ALL_REDUCE, 2, size) for size in (500, 1000)]
    return plan_of(ranks, network, collectives=made, groups=[[1, 0]])


def test_numbers_of_ranks_groups_and_collectives() -> None:
    first, second = messages(), messages()
    second = replace(second, collectives=second.collectives[::-1], slot_a=np.array([1, 0, 0, 0], np.int32))
    jobs = join_jobs([JobPlan(first, first.npu_of), JobPlan(second, np.array([9, 8], np.int32))])
    plan = jobs.plan
    assert plan.npu_of.tolist() == [0, 1, 9, 8]
    assert [group.tolist() for group in plan.groups] == [[1, 0], [0, 1], [3, 2], [2, 3]]
    assert [made.size for made in plan.collectives] == [500, 1000, 500]     # in the order of each job
    assert plan.slot_a.tolist() == [1, 1, 0, 1, 3, 1, 2, 1]
    assert plan.slot_b.tolist() == [3, 1, 3, 1, 3, 3, 3, 3]
    assert len(plan.programs) == 2
    assert len({id(chunk.phases[0].schedule) for made in plan.collectives for chunk in made.chunks}) == 1
    assert [jobs.job_of(rank) for rank in range(4)] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert (jobs.npu(1, 0), list(jobs.ranks(1))) == (9, [2, 3])
    assert jobs.makespan(execute(plan), 1) == jobs.makespan(execute(plan), 0) > 0


def test_what_is_refused() -> None:
    plan = messages()
    job = JobPlan(plan, plan.npu_of)

    def refused(what: str, *others: JobPlan) -> None:
        with pytest.raises(InputError, match=what):
            join_jobs([job, *others])

    def at(*npus: int) -> JobPlan:
        return JobPlan(plan, np.array(npus, np.int32))

    refused(r"jobs\[1\]\.npus: NPU 1 is also in jobs\[0\]", at(2, 1))
    refused(r"jobs\[2\]\.npus: NPU 3 is also in jobs\[1\]", at(2, 3), at(3, 2))
    refused(r"jobs\[1\]\.npus: NPU 2 is twice in it", at(2, 2))
    refused(r"jobs\[1\]\.npus: NPU 16; expected one of 0 to 15", at(2, 16))
    refused(r"jobs\[1\]\.npus: NPU -1", at(2, -1))
    refused(r"jobs\[1\]\.npus: shape \(3,\) of int32; expected .* shape \(2,\)", at(2, 3, 4))
    refused(r"jobs\[1\]\.npus: ranks at one coordinate of dims\[0\]", at(4, 8))
    refused(r"jobs\[1\]\.npus: ranks at one coordinate of dims\[1\]", at(4, 9))
    refused(r"jobs\[1\]\.start: -1 ps", JobPlan(plan, at(2, 3).npus, -1))
    slower = replace(plan.network, dims=(plan.network.dims[0], Dim(Shape.RING, 4, 9.0, 5.0)))
    for name, change in {"network.dims[1]": {"network": slower}, "policy.lifo": {"policy": Policy(lifo=0)},
                         "network.backend": {"network": replace(plan.network, backend="fluid")},
                         "remote.kind": {"remote": Remote(RemoteKind.POOL)}, "lanes": {"lanes": (1, 1, 1, 2, 1)},
                         "reduce_bandwidth": {"reduce_bandwidth": np.ones(16)}}.items():
        refused(rf"jobs\[1\]\.plan: {name} is .*, and in jobs\[0\]".replace("[1] is", r"\[1\] is"),
                JobPlan(replace(plan, **change), at(2, 3).npus))
    far = replace(plan, slot_a=np.array([2, 1, 0, 1], np.int32))
    refused(r"jobs\[1\]\.plan: a message's peer is rank 2; expected one of its 2 ranks", JobPlan(far, at(2, 3).npus))
    with pytest.raises(InputError, match="jobs: none"):
        join_jobs([])
    with pytest.raises(UnsupportedError, match=r"jobs\[0\]\.plan: lowered under ASTRA-sim's rule book"):
        join_jobs([JobPlan(replace(plan, policy=Policy(order=1)), plan.npu_of)])
