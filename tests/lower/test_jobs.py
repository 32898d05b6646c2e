"""Jobs from a design to a result: names, memory, times, errors in their own terms."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.commands import Run

import astrarium as ar
from astrarium.cost.rent import rent_per_hour
from astrarium.engine.jobs import JobPlan, join_jobs
from astrarium.lower import Kept, lower, read_jobs
from astrarium.result import Result
from astrarium.trace import TraceBuilder

START = "30 us"
WORK = ar.Transformer({"like": "llama3-8b", "layers": 2}, tp=2, dp=4, global_batch=4, seq=128)
COLLECTIVE = ar.SingleCollective("all_reduce", "4 MB")
DIMS = [ar.Ring(8, bandwidth="50 GB/s", latency="100 ns"), ar.Ring(4, bandwidth="20 GB/s", latency="1 us")]


def design(*jobs: ar.Job, backend: str = "contention", **more: Any) -> ar.Design:
    return ar.Design(workload=ar.Jobs(jobs), network=ar.Network(DIMS, backend), compute=ar.Roofline(peak="100 TFLOP/s"),
                     memory=ar.Memory(bandwidth="1 TB/s", capacity="80 GB"), **more)


def single(work: Any, npus: list[int], backend: str = "contention") -> Result:
    """The same job as the only workload of a design."""
    return ar.simulate(ar.Design(workload=work, network=ar.Network(DIMS, backend), system=ar.System(placement=npus),
                                 compute=ar.Roofline(peak="100 TFLOP/s"),
                                 memory=ar.Memory(bandwidth="1 TB/s", capacity="80 GB")))


@pytest.mark.parametrize("backend", ["closed_form", "contention", "fluid"])
def test_generated_jobs_alone(backend: str) -> None:
    """Rows of a ring of their own: times, exposed communication and memory are those of the job alone."""
    result = ar.simulate(design(ar.Job(WORK, "8:16", start=START), ar.Job(COLLECTIVE, 8), backend=backend))
    first, second = result.jobs
    alone = single(WORK, [*range(8, 16)], backend)
    assert (first.makespan_ps, first.exposed_comm_ps) == (alone.makespan_ps, int(float(alone.exposed_comm) * 1000))
    assert first.alone_ps == first.makespan_ps
    assert (first.start_ps, first.ranks, first.npus.tolist()) == (30_000_000, range(8), [*range(8, 16)])
    assert (first.name, second.name, second.npus.tolist()) == ("job 0", "job 1", [*range(8)])
    assert result.memory.peak[result.outcome.row[:8]].tolist() == alone.memory.peak[alone.outcome.row].tolist()
    assert second.makespan_ps == single(COLLECTIVE, [*range(8)], backend).makespan_ps


def test_jobs_on_the_same_links() -> None:
    """Each job's messages pass the other's NPUs: both take longer, none more than twice as long; bytes add up."""
    result = ar.simulate(design(*[ar.Job(COLLECTIVE, f"{number}:8:2") for number in (0, 1)]))
    alone = [single(COLLECTIVE, [*range(number, 8, 2)]) for number in (0, 1)]
    for job, one in zip(result.jobs, alone, strict=True):
        assert job.alone_ps == one.makespan_ps < job.makespan_ps <= 2 * job.alone_ps
        assert job.slowdown == job.makespan_ps / job.alone_ps
    assert int(result.links.size.sum()) == sum(int(one.links.size.sum()) for one in alone)


def test_the_part_of_a_joined_plan_is_the_job() -> None:
    jobs = [ar.Job(WORK, "8:16"), ar.Job(COLLECTIVE, 8)]
    made = ar.replace(design(*jobs), "system.comm_streams", 2)      # one machine, whatever a job alone would take
    kept = Kept()
    work = read_jobs(made, {}, kept)
    plans = [lower(job.design, job.work, kept=kept) for job in work.jobs]
    joined = join_jobs([JobPlan(plan, plan.npu_of) for plan in plans])
    for number, plan in enumerate(plans):
        part, again = joined.alone(number), join_jobs([JobPlan(plan, plan.npu_of)]).plan
        for name in ("program_of", "npu_of", "slot_ptr", "slot_b", "slot_c"):
            assert np.array_equal(getattr(part, name), getattr(again, name)), name
        assert [group.tolist() for group in part.groups] == [group.tolist() for group in again.groups]
        assert part.programs == again.programs


def traces(folder: Path, name: str, peer: int = 1) -> str:
    """Two ranks that exchange a message; what they are called."""
    ranks = [TraceBuilder() for _ in range(2)]
    ranks[0].send("hello", peer, 1_000_000)
    ranks[1].recv("hear", 0, 1_000_000)
    for rank, trace in enumerate(ranks):
        (folder / f"{name}.{rank}.et").write_bytes(trace.encode())
    return f"{name}.*.et"


def file_of(folder: Path, *jobs: str) -> Path:
    """A design file with jobs of traces beside it."""
    path = folder / "jobs.yaml"
    path.write_text("workload:\n  source: jobs\n  jobs:\n" + "".join(f"    - {job}\n" for job in jobs) +
                    "network:\n  backend: contention\n"
                    "  dims: [{shape: ring, npus: 8, bandwidth: 50 GB/s, latency: 0 ns}]\n")
    return path


def test_traces_beside_the_design(tmp_path: Path, run: Run) -> None:
    """Their paths are relative to the file; tables, JSON and the timeline name the jobs."""
    path = file_of(tmp_path, "{name: red, workload: {source: trace, path: " + traces(tmp_path, "a") + "}, "
                   "npus: [0, 2]}",
                   "{name: blue, workload: {source: trace, path: " + traces(tmp_path, "b") + "}, npus: [1, 3], "
                   "start: 5 us}")
    said = run("run", path, "--timeline", tmp_path / "t.json.gz")
    assert said.code == 0, said.err
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    assert "red 2 0, 2 0 ps 20 us 20 us 20 us 1.000x 75.0 % 1.000x" in lines      # over two links; blue wants one
    assert "blue 2 1, 3 5 us 35 us 35 us 20 us 1.750x 42.9 % -" in lines      # while red runs it only waits
    assert "blue, rank 0 finishes last" in said.out
    with gzip.open(tmp_path / "t.json.gz") as stream:
        events = json.load(stream)["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert [names[rank] for rank in range(4)] == ["red, rank 0", "red, rank 1", "blue, rank 0", "blue, rank 1"]
    assert {event["name"] for event in events if event["ph"] == "X"} == {"hello", "hear"}
    said = run("run", path, "--json")
    (tmp_path / "r.json").write_text(said.out)
    jobs = Result.load(tmp_path / "r.json").tables["jobs"]
    assert jobs["job"].tolist() == ["red", "blue"]
    assert jobs["npus"].tolist() == ["0 2", "1 3"]
    assert jobs["makespan_ns"].tolist() == [20_000, 35_000]
    assert jobs["slowdown"].tolist() == [1, 1.75]
    assert jobs["start_ns"].tolist() == [0, 5000]


def test_errors_name_the_job(tmp_path: Path, run: Run) -> None:
    good = "{workload: {source: trace, path: " + traces(tmp_path, "a") + "}, npus: 2}"
    path = file_of(tmp_path, good, "{workload: {source: trace, path: missing.*.et}, npus: 2}")
    said = run("run", path)
    assert (said.code, "workload.jobs[1]" in said.err, "missing.0.et does not exist" in said.err) == (1, True, True)
    path = file_of(tmp_path, good, "{workload: {source: transformer, model: llama3-8b, tp: 3, dp: 1, global_batch: 1, "
                   "seq: 128}}")
    assert "workload.jobs[1].workload.tp: 3" in run("run", path).err
    (tmp_path / "b.0.et").write_bytes((tmp_path / "a.1.et").read_bytes())
    (tmp_path / "b.1.et").write_bytes((tmp_path / "a.1.et").read_bytes())
    said = run("run", file_of(tmp_path, good, "{name: blue, workload: {source: trace, path: b.*.et}, npus: 2}"))
    assert said.code == 1
    assert "blue, rank 0, node 0 (hear; recv from 0, tag 0, 1000000 bytes): its peer is the rank itself" in said.err
    assert run("check", file_of(tmp_path, good)).code == 0
    assert run("check", file_of(tmp_path, "{workload: {source: trace, path: b.*.et}, npus: 2}")).code == 1


@pytest.mark.parametrize("change", [
    {"workload.jobs[0].workload.tp": 4, "workload.jobs[0].workload.dp": 2}, {"workload.jobs[1].placement": "spread"},
    {"workload.jobs[1].start": "1 ms"}, {"workload.jobs[1].npus": "16:24"}])
def test_paths_of_jobs(change: dict[str, Any]) -> None:
    base = design(ar.Job(WORK), ar.Job(COLLECTIVE, 8))
    changed = ar.replace_all(base, change)
    assert changed != base
    assert all(ar.get(changed, path) == (1e6 if value == "1 ms" else value) for path, value in change.items())


def test_a_search_over_placements() -> None:
    jobs = [ar.Job(COLLECTIVE, 4, placement="spread"), ar.Job(COLLECTIVE, 4, placement="spread")]
    space = ar.Space(design(*jobs), {f"workload.jobs[{number}].placement": ["spread", "packed"] for number in (0, 1)})
    study = ar.search(space, minimize="slowdown", agent="grid", trials=4)
    assert study.best.verdict.values == (1.0,)
    one = ar.replace(design(ar.Job(COLLECTIVE, 8)), "workload", COLLECTIVE)
    space = ar.Space(one, {"network.dims[0].latency": ["1 ns", "2 ns"]})
    with pytest.raises(ar.InputError, match="slowdown: is of several jobs, and the workload is one"):
        ar.search(space, minimize="slowdown", trials=1)


def test_traces_are_not_given_to_jobs() -> None:
    with pytest.raises(ar.InputError, match="traces: jobs bring their traces"):
        ar.simulate(design(ar.Job(COLLECTIVE, 8)), traces=object())     # type: ignore[arg-type]


@pytest.mark.parametrize(("places", "folds"), [(("packed", "packed"), True), (("random", "random"), False)])
def test_when_jobs_fold(places: tuple[str, str], folds: bool) -> None:
    """On closed_form, but not where groups are irregular; the integers are those of every rank."""
    jobs = [ar.Job(COLLECTIVE, 8, place, number if place == "random" else None) for number, place in enumerate(places)]
    both = [ar.simulate(design(*jobs, backend="closed_form"), fold=fold) for fold in ("auto", "off")]
    assert both[0].outcome.folded is folds
    assert both[0].outcome.unfolded_because == ("" if folds else "too few equal ranks")
    assert both[1].outcome.unfolded_because == ""
    ends: list[list[int]] = [each.outcome.finish[each.outcome.row].tolist() for each in both]
    assert ends[0] == ends[1]
    assert [job.slowdown for job in both[0].jobs] == [1, 1]




def test_rent_is_that_of_the_npus_that_the_jobs_have() -> None:
    """By hand: 4 NPUs of the dear type, in either order of the jobs' places."""
    dear = ar.NpuType(npus="4:8", compute=ar.Roofline(peak="1 TFLOP/s", hourly_price=10.0))
    for where, dollars in (("4:8", 40.0), ("0:4", 4.0)):
        made = ar.Design(workload=ar.Jobs([ar.Job(COLLECTIVE, where)]), npu_types=[dear],
                         compute=ar.Roofline(peak="1 TFLOP/s", hourly_price=1.0), memory=ar.Memory(bandwidth="1 TB/s"),
                         network=ar.Network([ar.Ring(8, bandwidth="50 GB/s", latency="0 ns")]))
        assert rent_per_hour(made) == dollars
