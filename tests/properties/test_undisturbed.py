"""Where every rank runs, collectives that nothing disturbs are timed, with a record and without: that changes no
integer."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws
from tests.plans.draw import random_case

import astrarium as ar
from astrarium import engine
from astrarium.engine import Outcome, Plan, execute
from astrarium.engine.program_order import run_in_order
from astrarium.errors import InputError, StallError, TraceError
from astrarium.lower import Kept, lower, lower_jobs, read_jobs, read_work
from astrarium.workload.model.decoder import Decoder

pytestmark = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")
COLUMNS = ("finish", "busy", "node_ptr", "start", "end", "link_dim", "link_from", "link_to", "link_bytes", "link_busy",
           "use_busy")


def assert_every_rank(found: Outcome, whole: Outcome) -> None:
    for name in COLUMNS:
        assert np.array_equal(getattr(found, name), getattr(whole, name)), name
    assert found.use_width == whole.use_width


def assert_ends(bare: Outcome, whole: Outcome) -> None:
    """Of a run without a record."""
    for name in ("finish", "busy"):
        assert np.array_equal(getattr(bare, name)[bare.row], getattr(whole, name)), name


def timed(plan: Plan, whole: Outcome) -> Outcome:
    """The recorded run, like `whole`; without a record it is the same run that keeps less."""
    found, bare = execute(plan, record=True), execute(plan)
    assert_every_rank(found, whole)
    assert_ends(bare, whole)
    assert (bare.events, bare.how[:-1]) == (found.events, found.how[:-1])
    return found


@given(st.integers(0, 2**32 - 1))
@draws(30)
def test_random_programs_over_links(seed: int) -> None:
    """Every node, link and bin of traffic: whether collectives meet others, come together or one after the other."""
    try:
        case = random_case(random.Random(seed), ("contention",))
        plan = lower(case.design, case.traces)
        whole = execute(plan, record=True, fold=False)
    except (StallError, TraceError, InputError):
        assume(False)
        raise
    found = execute(plan, record=True)
    if not found.folded:
        assert_every_rank(found, whole)
    assert_ends(execute(plan), whole)


@given(st.integers(0, 2**32 - 1))
@draws(6)
def test_random_places(seed: int) -> None:
    """Collectives of a job whose ranks are anywhere: on ports, along meshes, and over links."""
    rng = random.Random(seed)
    tp = rng.choice((1, 2, 4))
    work = ar.Transformer("gpt2-small", tp=tp, dp=48 // tp, global_batch=96 // tp, micro_batch=1, seq=512,
                          zero=rng.choice((0, 2, 3)))
    job = ar.Job(work, placement="random", seed=seed % 1000)
    assert_times(rng, [job], ("closed_form", "closed_form", "contention"))


@given(st.integers(0, 2**32 - 1))
@draws(6)
def test_jobs_whose_groups_share_links(seed: int) -> None:
    """Groups of a job that share links with each other start together; two jobs share links now and then."""
    rng = random.Random(seed)
    jobs = []
    for _ in range(rng.randint(1, 2)):
        tp, pp = rng.choice((1, 2, 4)), rng.choice((1, 1, 2))
        work = ar.Transformer("gpt2-small", tp=tp, pp=pp, dp=16 // tp // pp, global_batch=32 // tp // pp, micro_batch=1,
                              seq=512, zero=rng.choice((0, 3)) if pp == 1 else 0)
        placement = rng.choice(("spread", "rail_aligned", "random"))
        jobs.append(ar.Job(work, placement=placement, seed=rng.randrange(1000) if placement == "random" else None))
    assert_times(rng, jobs, ("contention",))


def assert_times(rng: random.Random, jobs: list[ar.Job], backends: tuple[str, ...]) -> None:
    shapes = [rng.choice((ar.Ring, ar.Mesh, ar.Mesh, ar.Switch, ar.FullyConnected)) for _ in range(3)]
    dims = [shape(4, bandwidth="40 GB/s", latency="1 us") for shape in shapes]
    design = ar.Design(workload=ar.Jobs(jobs), compute=ar.Roofline(peak="989 TFLOP/s"),
                       memory=ar.Memory(bandwidth="3.35 TB/s"), network=ar.Network(dims, rng.choice(backends)),
                       system=ar.System(comm_streams=rng.choice((1, 2))))
    plan = lower_jobs(design, read_jobs(design, {}, Kept()), None, Kept())
    _, whole = run_in_order(plan, lambda each, _: execute(each, record=True, fold=False))
    _, found = run_in_order(plan, lambda each, _: execute(each, record=True))
    if not found.folded:
        assert_every_rank(found, whole)
    assert_ends(run_in_order(plan, lambda each, _: execute(each))[1], whole)


def test_groups_at_random_places_send_few_messages() -> None:
    """On closed_form, where no group of another rank uses an NPU's ports; along a mesh messages pass others."""
    work = ar.Transformer("gpt2-small", tp=1, dp=48, global_batch=384, micro_batch=1, seq=512, zero=3)
    for outer in (ar.Mesh, ar.Ring):
        dims = [ar.Switch(4, bandwidth="40 GB/s", latency="1 us"), outer(16, bandwidth="40 GB/s", latency="1 us")]
        design = ar.Design(workload=ar.Jobs([ar.Job(work, placement="random", seed=1)]),
                           compute=ar.Roofline(peak="989 TFLOP/s"), memory=ar.Memory(bandwidth="3.35 TB/s"),
                           network=ar.Network(dims, "closed_form"))
        plan = lower_jobs(design, read_jobs(design, {}, Kept()), None, Kept())
        whole, found = execute(plan, record=True, fold=False), execute(plan, record=True)
        assert_every_rank(found, whole)
        assert_ends(execute(plan), whole)
        assert 3 * found.events < 2 * whole.events, outer


def training(tp: int, dp: int, host: ar.Dim) -> Plan:
    work = ar.Transformer("gpt2-small", tp=tp, dp=dp, global_batch=2 * dp, micro_batch=1, seq=512)
    design = ar.Design(workload=work, compute=ar.Roofline(peak="989 TFLOP/s"), memory=ar.Memory(bandwidth="3.35 TB/s"),
                       network=ar.Network([host, ar.Ring(4, bandwidth="50 GB/s", latency="1 us")], "contention"))
    return lower(design, read_work(design, {}, Kept()))


def test_groups_with_links_of_their_own_send_no_messages() -> None:
    """tp has the host, dp the ring: a seventh of the events."""
    plan = training(4, 4, ar.Switch(4, bandwidth="450 GB/s", latency="500 ns"))
    whole = execute(plan, record=True, fold=False)
    found = timed(plan, whole)
    assert found.events * 7 < whole.events


def test_a_group_that_meets_others_sends_messages() -> None:
    """One rank comes late, so that its group's collectives meet those of another group on the host's ring."""
    plan = training(2, 8, ar.Ring(4, bandwidth="5 GB/s", latency="500 ns"))
    slow = plan.programs[0]
    late = replace(slow, duration=np.where(slow.duration > 0, slow.duration * 3, 0))
    kinds = plan.program_of.copy()
    kinds[plan.npu_of == 5] = len(plan.programs)
    plan = replace(plan, programs=(*plan.programs, late), program_of=kinds)
    found = timed(plan, execute(plan, record=True, fold=False))
    assert found.how[1].startswith("collectives timed alone, run 1: ")


def test_messages_of_switches_that_compute_meet_timed_collectives() -> None:
    """What is reduced in a switch leaves and comes by the ports that other collectives use."""
    model = Decoder(layers=4, d_model=512, heads=16, ffn=1024, vocab=1024, seq=256)
    dims = [ar.Switch(8, bandwidth="100 GB/s", latency="500 ns", in_switch=ar.InSwitch(rate="1 TB/s", groups=8)),
            ar.Switch(4, bandwidth="50 GB/s", latency="2 us")]
    design = ar.Design(
        workload=ar.Transformer(model, tp=2, dp=8, cp=2, global_batch=8, micro_batch=1, zero=1, bucket="1 MB"),
        compute=ar.Roofline(peak="100 TFLOP/s"), memory=ar.Memory(bandwidth="1 TB/s"), network=ar.Network(dims),
        collective=ar.Collective(choice="none", all_reduce=["nvls", "ring"], all_gather=["direct", "ring"],
                                 reduce_scatter=["direct", "ring"]), system=ar.System(comm_streams=3))
    assert_ends(ar.simulate(design, record=False).outcome, ar.simulate(design, fold="off", record=False).outcome)
