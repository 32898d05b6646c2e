"""Random jobs in one design: alone where they share nothing, and what their merged traces are where they do."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from hypothesis import assume, example, given, reject
from hypothesis import strategies as st
from tests.draws import draws
from tests.plans.draw import Case, random_case

import astrarium as ar
from astrarium.errors import InputError, StallError, TraceError
from astrarium.result import Result
from astrarium.simulate import simulate
from astrarium.trace import TraceBuilder, Traces, traces_of_bytes
from astrarium.trace.transform.files import Job as Files
from astrarium.trace.transform.files import write_job
from astrarium.trace.transform.merge import merge
from astrarium.vocab import CommOp

SEEDS = st.integers(0, 2**32 - 1)
BACKENDS = ("closed_form", "closed_form", "contention", "fluid")
STARTS = (0, 0, 1_234_567, 2_000)       # ns
PARTS = 3


def drawn(rng: random.Random, count: int) -> list[Case]:
    """`count` programs of as many ranks each; the design of the first is that of all."""
    cases = [random_case(rng, BACKENDS)]
    while len(cases) < count:
        other = random_case(rng, BACKENDS)
        cases += [other] if other.traces.ranks == cases[0].traces.ranks else []
    return cases


def machine(design: ar.Design) -> ar.Design:
    """The design with PARTS of its network behind a switch; no memory that they share."""
    lists = {}
    for op in CommOp:
        entries = getattr(design.collective, op.name.lower(), ())
        if len(entries) > 1:
            lists[op.name.lower()] = (*entries, entries[-1])
    remote = design.memory.remote
    memory = design.memory if remote.kind != "pool" else msgspec.structs.replace(
        design.memory, remote=msgspec.structs.replace(remote, kind="per_npu"))
    outer = ar.Switch(PARTS, bandwidth="7 GB/s", latency="30 ns")
    types = [msgspec.structs.replace(kind, memory=memory) for kind in design.npu_types]
    network = ar.Network([*design.network.dims, outer], design.network.backend)
    return ar.Design(workload=design.workload, network=network,
                     collective=msgspec.structs.replace(design.collective, **lists), compute=design.compute,
                     memory=memory, system=design.system, npu_types=types)


def with_jobs(design: ar.Design, jobs: list[ar.Job]) -> ar.Design:
    system = msgspec.structs.replace(design.system, placement="identity")
    return msgspec.structs.replace(design, workload=ar.Jobs(jobs), system=system)


def run(design: ar.Design, **more: Any) -> Result:
    """The result of a design that can be lowered and ends."""
    try:
        return simulate(design, **more)
    except (StallError, TraceError):
        assume(False)
        raise
    except InputError as error:     # the draw named an algorithm that has no such operation
        assume("has no" not in str(error))
        raise


def finish(result: Result) -> list[int]:
    """[ranks] ps."""
    ends: list[int] = result.outcome.finish[result.outcome.row].tolist()
    return ends


def machine_of(cases: Sequence[Case]) -> ar.Design:
    """The machine of the first case, where it can have several jobs."""
    try:
        return machine(cases[0].design)
    except InputError:
        reject()


@given(SEEDS)
@draws(30)
def test_jobs_that_share_nothing_equal_themselves_alone(seed: int) -> None:
    """To the ps, folded or not, in program order or not, whenever they begin; so the slowdown of each is 1."""
    rng = random.Random(seed)
    cases = drawn(rng, 2)
    design = machine_of(cases)
    inner = design.network.npus // PARTS
    placement = design.system.placement
    base = range(cases[0].traces.ranks) if isinstance(placement, str) else placement
    places = [[npu + part * inner for npu in base] for part in rng.sample(range(PARTS), 2)]
    starts = [rng.choice(STARTS), rng.choice(STARTS)]
    known = {(str(number), case.traces.ranks): case.traces for number, case in enumerate(cases)}
    jobs = [ar.Job(ar.Trace(str(number)), npus, start=f"{start} ns")
            for number, (npus, start) in enumerate(zip(places, starts, strict=True))]
    seen = []
    for fold in ("auto", "off"):
        alone = [run(msgspec.structs.replace(design, workload=ar.Trace("alone"), system=msgspec.structs.replace(
            design.system, placement=tuple(npus))), traces=case.traces, fold=fold, record=False)
            for case, npus in zip(cases, places, strict=True)]
        result = run(with_jobs(design, jobs), cache=known, fold=fold, record=rng.random() < 0.5)
        ends = finish(result)
        seen.append(ends)
        for number, (job, single, start) in enumerate(zip(result.jobs, alone, starts, strict=True)):
            assert [end - 1000 * start for end in ends[job.ranks.start:job.ranks.stop]] == finish(single), number
            assert job.makespan_ps == single.makespan_ps == job.alone_ps
            assert job.slowdown == 1
    assert seen[0] == seen[1]


def merged(cases: list[Case], folder: str) -> tuple[str, str | None, Traces]:
    """(path, groups, traces) of the jobs' traces as one set on consecutive ranks."""
    from astrarium.trace import read_traces

    files = [Files([case.traces.file_bytes(rank) for rank in range(case.traces.ranks)], {}) for case in cases]
    written = write_job(merge(files, "ranks"), Path(folder) / "m")
    path = str(Path(folder) / "m.*.et")
    return path, written.groups, read_traces(path)


@given(SEEDS)
@example(326897657)     # a timed collective of a folded run ends too early, and ranks would wait for each other
@draws(30)
def test_merged_traces_equal_jobs(seed: int) -> None:
    """Also where jobs meet at links and remote memory: NPUs of both are mixed."""
    rng = random.Random(seed)
    cases = drawn(rng, 2)
    design, ranks = cases[0].design, cases[0].traces.ranks
    if design.network.npus < 2 * ranks:
        try:
            design = machine(design)
        except InputError:
            assume(False)
            raise
    npus = rng.sample(range(design.network.npus), 2 * ranks)
    known = {(str(number), ranks): case.traces for number, case in enumerate(cases)}
    jobs = [ar.Job(ar.Trace(str(number)), npus[number * ranks:(number + 1) * ranks]) for number in range(2)]
    with tempfile.TemporaryDirectory() as folder:
        path, groups, traces = merged(cases, folder)
        whole = msgspec.structs.replace(design, workload=ar.Trace(path, groups), system=msgspec.structs.replace(
            design.system, placement=tuple(npus)))
        for fold in ("auto", "off"):
            one = run(whole, traces=traces, fold=fold, record=False)
            two = run(with_jobs(design, jobs), cache=known, fold=fold, record=False)
            assert finish(one) == finish(two)


@given(SEEDS)
@draws(12)
def test_both_engines(seed: int) -> None:
    rng = random.Random(seed)
    cases = drawn(rng, 2)
    design = machine_of(cases)
    ranks = cases[0].traces.ranks
    known = {(str(number), ranks): case.traces for number, case in enumerate(cases)}
    jobs = []
    for number in range(2):
        rule = rng.choice(["packed", "spread", "random"])
        jobs.append(ar.Job(ar.Trace(str(number)), ranks, rule, seed if rule == "random" else None,
                           start=f"{rng.choice(STARTS)} ns"))
    fast, slow = (run(with_jobs(design, jobs), cache=known, pure=pure) for pure in (False, True))
    assert finish(fast) == finish(slow)
    assert [(job.makespan_ps, job.alone_ps, job.exposed_comm_ps) for job in fast.jobs] == [
        (job.makespan_ps, job.alone_ps, job.exposed_comm_ps) for job in slow.jobs]
    assert all(np.array_equal(a.npus, b.npus) for a, b in zip(fast.jobs, slow.jobs, strict=True))


@given(SEEDS)
@draws(20)
def test_jobs_that_run_apart_equal_the_joined_run(seed: int) -> None:
    """Wherever they are: every node, link and bin of traffic is that of one run of all; and they run apart where no
    link has messages of two."""
    rng = random.Random(seed)
    backend = rng.choice(("closed_form", "contention", "contention"))
    cases = [random_case(rng, (backend,)) for _ in range(3)]
    shapes = [rng.choice((ar.Ring, ar.Switch, ar.FullyConnected, ar.Mesh))(4, bandwidth="7 GB/s", latency="30 ns")
              for _ in range(3)]
    free = list(range(64))
    if rng.random() < 0.5:
        rng.shuffle(free)
    known, jobs = {}, []
    for number, case in enumerate(cases):
        ranks = case.traces.ranks
        npus, free = free[:ranks], free[ranks + rng.choice((0, 4)):]
        known[str(number), ranks] = case.traces
        jobs.append(ar.Job(ar.Trace(str(number)), npus, start=f"{rng.choice(STARTS)} ns"))
    base = cases[0].design
    check_apart(ar.Design(workload=ar.Jobs(jobs), network=ar.Network(shapes, backend), compute=base.compute,
                          memory=base.memory), known)


def check_apart(design: ar.Design, known: dict[tuple[str, int], Traces]) -> None:
    """The run of sets apart, which equals that of all together."""
    apart, joined = (run(design, cache=known, fold=fold) for fold in ("auto", "off"))
    assert finish(apart) == finish(joined)
    for mine, row in zip(apart.outcome.row.tolist(), joined.outcome.row.tolist(), strict=True):
        for name in ("start", "end"):
            here, there = (getattr(each, name)[each.node_ptr[at]:each.node_ptr[at + 1]]
                           for each, at in ((apart.outcome, mine), (joined.outcome, row)))
            assert np.array_equal(here, there)
    assert np.array_equal(apart.dims.size, joined.dims.size)
    assert np.array_equal(apart.dims.busy_over_time, joined.dims.busy_over_time)
    if not apart.outcome.folded:
        assert all(np.array_equal(getattr(apart.links, name), getattr(joined.links, name))
                   for name in ("dim", "source", "target", "size", "busy"))


@given(SEEDS)
@draws(24)
def test_equal_sets_of_jobs_equal_the_joined_run(seed: int) -> None:
    """One or two jobs in a corner of one dim, and the same once or twice more, moved there and along other dims."""
    rng = random.Random(seed)
    cases = [random_case(rng, ("contention",)) for _ in range(rng.choice((1, 2)))]
    kinds = (ar.Ring, ar.Switch, ar.FullyConnected, ar.Mesh, ar.Hypercube)
    shapes = [rng.choice(kinds)(8 if dim == 2 else 4, bandwidth="7 GB/s", latency="30 ns") for dim in range(3)]
    corner = rng.sample(range(32), 32)      # of which coordinate 2 is 0 or 1
    places = [[corner.pop() for _ in range(case.traces.ranks)] for case in cases]
    starts = [f"{rng.choice(STARTS)} ns" for _ in cases]
    jobs = []
    for copy in range(rng.choice((2, 3))):
        moves = [moved(rng, shape) for shape in shapes[:2]] if copy else [list(range(4))] * 2
        for number, npus in enumerate(places):
            there = [moves[0][npu % 4] + 4 * moves[1][npu // 4 % 4] + 16 * (npu // 16 + 2 * copy) for npu in npus]
            jobs.append(ar.Job(ar.Trace(str(number)), there, start=starts[number]))
    base = cases[0].design
    known = {(str(number), case.traces.ranks): case.traces for number, case in enumerate(cases)}
    check_apart(ar.Design(workload=ar.Jobs(jobs), network=ar.Network(shapes, "contention"), compute=base.compute,
                          memory=base.memory), known)


def moved(rng: random.Random, shape: Any) -> list[int]:
    """Where each of four places of a dim goes, so that messages go equal ways."""
    by = 0 if isinstance(shape, ar.Mesh) else rng.randrange(4)
    return [(at + by) % 4 if isinstance(shape, ar.Ring) else at ^ by for at in range(4)]


@given(SEEDS)
@draws(24)
def test_jobs_with_memories_at_switches_equal_the_joined_run(seed: int) -> None:
    """Two jobs at random places of which each moves bytes from and to two memories, beside collectives."""
    rng = random.Random(seed)
    inner = rng.choice((ar.Ring, ar.Switch, ar.Mesh))(4, bandwidth="10 GB/s", latency="30 ns")
    network = ar.Network([inner, ar.Switch(4, bandwidth="10 GB/s", latency="30 ns")],
                         rng.choice(("closed_form", "contention")))
    tiers = [ar.Tier(name, capacity="1 TB", bandwidth="10 GB/s", npus=16, over="network", dim=1,
                     total=f"{rng.choice((7, 40, 90))} GB/s") for name in ("a", "b")]
    free, jobs, known = rng.sample(range(16), 16), [], {}
    for number in range(2):
        ranks, made = rng.randint(1, 8), []
        kinds = [rng.choice(("sum", "a", "b")) for _ in range(rng.randint(2, 4))]
        for _ in range(ranks):
            trace = TraceBuilder()
            for kind in kinds:
                if kind == "sum":
                    trace.coll("sum", CommOp.ALL_REDUCE, 60_000)
                else:
                    trace.memory("move", rng.randint(0, 200_000), tier=kind, store=rng.random() < 0.5)
            made.append(trace.encode())
        known[str(number), ranks] = traces_of_bytes(made)
        jobs.append(ar.Job(ar.Trace(str(number)), [free.pop() for _ in range(ranks)], start=f"{rng.choice((0, 9))} us"))
    check_apart(ar.Design(workload=ar.Jobs(jobs), network=network, memory=ar.Memory(tiers=tiers)), known)
