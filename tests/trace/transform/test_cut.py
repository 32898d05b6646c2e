"""Cutting: orders among what stays, barriers where many would wait for many, and steps that take their own time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from astrarium.cli.replay_design import replay_design
from astrarium.profile.link import link, write_linked
from astrarium.simulate import simulate
from astrarium.trace import Attribute, Columns, Metadata, Node, TraceBuilder, encode_trace, graph_of
from astrarium.trace.transform import Job, bridge, load_job, transform, write_job


def reached(columns: Columns) -> dict[str, set[str]]:
    """Name of a node -> names of all that it waits for, directly or not; barriers are seen through."""
    graph, names = graph_of(columns), columns.names()
    found: list[set[str]] = []
    for node in range(columns.nodes):
        before = [each for each in graph.parent[graph.ptr[node]:graph.ptr[node + 1]].tolist() if each >= 0]
        found.append(set().union(*(found[each] | {names[each]} for each in before)) if before else set())
    return {name: found[node] - {bridge.BARRIER} for node, name in enumerate(names) if name != bridge.BARRIER}


@pytest.mark.parametrize("seed", range(20))
def test_every_order_among_what_stays_is_kept(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "SHARED", seed % 3)
    monkeypatch.setattr(bridge, "WIDE", 3 + seed % 5)
    draw, made = random.Random(seed), TraceBuilder()
    for place in range(60):
        before = draw.sample(range(place), min(place, draw.randrange(7)))
        cut = draw.randrange(len(before) + 1)
        made.comp(f"{'go' if draw.random() < 0.6 else 'stay'}{place}", 1, after=before[:cut], ctrl=before[cut:])
    job = Job([made.encode()], {})
    whole, kept = (reached(each.traces().classes[0]) for each in (job, transform([job], ["drop:name=go*"])))
    assert kept == {name: {each for each in before if each.startswith("stay")} for name, before in whole.items()
                    if name.startswith("stay")}


def test_many_that_wait_for_many_get_a_barrier() -> None:
    """2,000 nodes, a hub that goes, 2,000 nodes: 4 million dependencies without a barrier."""
    made = TraceBuilder()
    first = [made.comp("before", 3) for _ in range(2000)]
    hub = made.comp("hub", 5, after=first)
    for _ in range(2000):
        made.comp("after", 4, after=[hub])
    columns = transform([Job([made.encode()], {})], ["drop:name=hub"]).traces().classes[0]
    assert (columns.nodes, columns.data_dep.size) == (4001, 4000)
    assert columns.name(2000) == bridge.BARRIER
    assert (int(columns.duration[2000]), int(columns.is_cpu_op[2000])) == (0, 1)


def test_what_nobody_waits_for_costs_nothing() -> None:
    """Nodes of later steps wait for thousands that stay; nobody that stays waits for them."""
    made = TraceBuilder()
    hub = made.comp("go", 5, after=[made.comp("stay", 3) for _ in range(1000)])
    for _ in range(3000):
        made.comp("go", 5, after=[hub])
    columns = transform([Job([made.encode()], {})], ["drop:name=go"]).traces().classes[0]
    assert (columns.nodes, columns.data_dep.size) == (1000, 0)


LEAD, BUSY, STEP = 60, 90, 100      # us: the host's lead over the GPU, kernels of a step, a step


def overlapped(steps: int) -> Job:
    """A host that launches a step's kernel and goes on while it runs, and a GPU that idles 10 us a step."""
    nodes = []
    for step in range(steps):
        host, base = STEP * step + 1, 4 * step
        cpu, gpu = (Attribute("is_cpu_op", flag, "bool_val") for flag in (True, False))
        stream = Attribute("stream", 7, "int64_val")
        nodes += [
            Node(base + 1, f"ProfilerStep#{step}", 4, (), (base - 2,) if step else (), host, LEAD, attrs=(cpu,)),
            Node(base + 2, "rest", 4, (), (base + 1,), host + LEAD, STEP - LEAD, attrs=(cpu,)),
            Node(base + 3, "idle", 4, (), (base,) if step else (), host + LEAD - 10, 10, attrs=(cpu,)),
            Node(base + 4, "kernel", 4, (), (base + 1, base + 3), host + LEAD, BUSY, attrs=(gpu, stream))]
    return Job([encode_trace(Metadata("", (Attribute("kind", "profiled", "string_val"),)), nodes)], {})


def replayed(job: Job, folder: Path) -> float:
    """Microseconds."""
    write_job(job, folder / "w")
    return simulate(replay_design(str(folder / "w.0.et"))).makespan / 1000


def test_a_step_takes_the_time_by_which_it_moves_the_end_on(tmp_path: Path) -> None:
    whole = overlapped(4)
    assert replayed(whole, tmp_path) == 3 * STEP + LEAD + BUSY
    for steps, time in (("1", STEP), ("2", STEP), ("1-2", 2 * STEP), ("0", LEAD + BUSY)):
        assert replayed(transform([whole], [f"cut_steps:steps={steps}"]), tmp_path) == time, steps
    plain = transform([whole], ["cut_steps:steps=1,overlap=false"])
    assert replayed(plain, tmp_path) == LEAD + BUSY      # the host's lead counts once more


@pytest.mark.shared
@pytest.mark.exam
def test_steps_of_a_recording_take_their_own_time(shared: Path, tmp_path: Path) -> None:
    """ResNet-50 on a V100: the third of six steps alone, against the time between the ends of two steps' GPU work."""
    path = shared / "traces" / "real" / "resnet50_v100_a.json.gz"
    if not path.exists():
        pytest.skip("the reference folder has no traces/real")
    write_linked(tmp_path / "r", link(None, path))
    job = load_job(tmp_path / "r.0.et")
    ends = []
    for number in (1, 2):
        until = transform([job], [f"cut_steps:steps=0-{number}"]).traces().classes[0]
        gpu = (until.is_cpu_op == 0) & (until.duration > 0)
        ends.append(int((until.start + until.duration)[gpu].max()))
    step = transform([job], ["cut_steps:steps=2"])
    assert replayed(step, tmp_path) == pytest.approx(ends[1] - ends[0], rel=0.001)
    long = transform([job], ["cut_steps:steps=2,overlap=false"])
    assert replayed(long, tmp_path) > 1.05 * (ends[1] - ends[0])
