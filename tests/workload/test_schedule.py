"""Every schedule's exam: each unit once, nothing waits for ever, in-flight micro-batches and bubbles as published."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.commands import PlugIn, Run

import astrarium as ar
from astrarium.errors import InputError, PluginError
from astrarium.planner.job import job_of
from astrarium.planner.layout import layouts
from astrarium.workload.schedule import (
    BACKWARD,
    FORWARD,
    KIND,
    WEIGHT,
    PipelineSchedule,
    Units,
    load_schedule,
    units,
)
from astrarium.workload.schedule.one_f_one_b import alternating

from .pipeline import makespan, peak, stage_units

COST = {FORWARD: 1.0, BACKWARD: 2.0, WEIGHT: 0.0}
THIRDS = {FORWARD: 1.0, BACKWARD: 1.0, WEIGHT: 1.0}
CASES = st.tuples(st.sampled_from(KIND.names()), st.integers(1, 8), st.integers(1, 24), st.integers(1, 4))


def _legal(case: tuple[str, int, int, int]) -> tuple[str, int, int, int]:
    name, stages, batches, chunks = case
    if name == "interleaved":
        return name, max(2, stages), max(2, stages) * max(1, batches // max(2, stages)), chunks
    if name == "dualpipe":
        stages = 2 * max(1, stages // 2)
        return name, stages, 2 * max(stages, batches // 2), 1
    return name, stages, batches, 1


@settings(max_examples=60, deadline=None)
@given(CASES.map(_legal))
def test_each_unit_once_and_it_ends(case: tuple[str, int, int, int]) -> None:
    name, stages, batches, chunks = case
    line = load_schedule(name)
    assert not list(line.check(stages, batches, chunks))
    kinds = (FORWARD, BACKWARD, WEIGHT) if line.split else (FORWARD, BACKWARD)
    for run in stage_units(name, stages, batches, chunks):
        counted = Counter(zip(run.kind.tolist(), run.batch.tolist(), run.chunk.tolist(), strict=True))
        every = ({(k, m, m // (batches // 2)) for k in kinds for m in range(batches)} if line.copies == 2 else
                 {(k, m, c) for k in kinds for m in range(batches) for c in range(chunks)})
        assert counted == Counter(every)
        for kind in kinds[1:]:   # micro-batches of a chunk come in the order in which they were sent
            for chunk in range(int(run.chunk.max()) + 1):
                order = run.batch[(run.kind == kind) & (run.chunk == chunk)]
                assert (np.diff(order) > 0).all() or name == "gpipe"
    length, busy = makespan(name, stages, batches, chunks, THIRDS)
    assert length >= max(busy)


@pytest.mark.parametrize("stages", [1, 2, 4, 8])
@pytest.mark.parametrize("batches", [8, 16])
def test_gpipe_and_1f1b(stages: int, batches: int) -> None:
    """Bubble (s - 1)(t_f + t_b): arXiv 2104.04473, section 2.2.1; in flight m, and s - i."""
    for name in ("gpipe", "1f1b"):
        assert makespan(name, stages, batches, 1, COST)[0] == 3 * batches + 3 * (stages - 1)
    assert [peak(units) for units in stage_units("gpipe", stages, batches)] == [batches] * stages
    assert [peak(units) for units in stage_units("1f1b", stages, batches)] == list(range(stages, 0, -1))


@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("chunks", [2, 3, 4])
def test_interleaved(stages: int, chunks: int) -> None:
    """Bubble (s - 1)(t_f + t_b) / v (arXiv 2104.04473, section 2.2.2); v s + s - 1 parts in flight on the first stage
    (arXiv 2205.05198, section 4.2.3: activations of L (1 + (s - 1) / (s v)) layers)."""
    batches = 3 * stages
    cost = {kind: each / chunks for kind, each in COST.items()}
    found = makespan("interleaved", stages, batches, chunks, cost)[0]
    assert found == pytest.approx(3 * batches + 3 * (stages - 1) / chunks)
    assert peak(stage_units("interleaved", stages, batches, chunks)[0]) == chunks * stages + stages - 1


@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("cost", [THIRDS, {FORWARD: 2.0, BACKWARD: 2.0, WEIGHT: 2.0}])
def test_zero_bubble(stages: int, cost: dict[int, float]) -> None:
    """ZB-H1: bubble (s - 1)(t_f + t_b - t_w), at most s micro-batches in flight until their weight unit (arXiv
    2401.10241,
    table 1; with costs that it assumes alike)."""
    batches = 2 * stages
    bubble = (stages - 1) * (cost[FORWARD] + cost[BACKWARD] - cost[WEIGHT])
    assert makespan("zero_bubble", stages, batches, 1, cost)[0] == batches * sum(cost.values()) + bubble
    assert {peak(units, until=WEIGHT) for units in stage_units("zero_bubble", stages, batches)} == {stages}


@pytest.mark.parametrize("stages", [2, 4, 6, 8])
@pytest.mark.parametrize("times", [2, 3, 4])
def test_dualpipe(stages: int, times: int) -> None:
    """Bubble (s/2 - 1)(F&B + B - 3W), B all of backward, s + 1 micro-batches in flight (arXiv 2412.19437, table 2)."""
    batches = times * stages
    bubble = (stages / 2 - 1) * ((1 + 2) + 2 - 3 * 1)
    assert makespan("dualpipe", stages, batches, 1, THIRDS)[0] == 3 * batches + bubble
    assert {peak(units, until=WEIGHT) for units in stage_units("dualpipe", stages, batches)} == {stages + 1}


def test_what_is_refused() -> None:
    def said(name: str, *numbers: int) -> list[str]:
        return [problem.message for problem in load_schedule(name).check(*numbers)]

    assert "2 parts per stage are for schedule: interleaved" in said("1f1b", 4, 8, 2)
    assert "makes 6 micro-batches, which pp (4) does not divide" in said("interleaved", 4, 6, 2)
    assert said("dualpipe", 3, 6, 1) == ["3 is odd"]
    assert said("dualpipe", 4, 6, 1) == ["makes 6 micro-batches"]


def _eager(stages: int, stage: int, batches: int, chunks: int) -> Units:
    """1F1B with one more forward unit ahead."""
    del chunks
    return units(*alternating(stages - stage, batches))


EAGER = PipelineSchedule(_eager, conditions=("workload.pp > 1",))
DECODER = ar.Decoder(layers=8, d_model=256, heads=4, ffn=1024, vocab=1000)


def _design(schedule: str) -> ar.Design:
    work = ar.Transformer(DECODER, seq=128, global_batch=8, micro_batch=1, pp=4, schedule=schedule)
    return ar.Design(workload=work, network=ar.Network([ar.Ring(4, bandwidth="50 GB/s", latency="5 us")]),
                     compute=ar.Roofline(peak="100 TFLOP/s"), memory=ar.Memory(bandwidth="1 TB/s", capacity="80 GB"))


def test_a_plug_in(plug_in: PlugIn, run: Run) -> None:
    """A run, a search and the planner take a new schedule, without closed forms."""
    plug_in({"schedule.eager": f"{__name__}:EAGER"})
    assert "eager" in run("list", "schedule").out
    assert EAGER.in_flight(4, 8, 1)[:, 0].tolist() == [5, 4, 3, 2]
    usual, mine = ar.simulate(_design("1f1b")), ar.simulate(_design("eager"))
    assert mine.makespan < usual.makespan      # messages of 5 us are behind units
    assert mine.peak_memory > usual.peak_memory
    either = {"workload.schedule": ["1f1b", "eager"]}
    assert ar.Space(_design("1f1b"), {**either, "workload.pp": [1, 4], "workload.dp": [1, 4]}).count == 3
    found = ar.search(ar.Space(_design("1f1b"), either), "makespan", agent="grid", trials=2)
    assert found.values()["workload.schedule"] == "eager"
    job = job_of(DECODER, seq=128, global_batch=8)
    planned = set(layouts(job, 4, 4, {"schedule": ["eager"], "pp": [4]}))
    assert {str(each) for each in planned if each.recompute == "none"} >= {"pp 4 eager, dp 1, mb 1"}
    with pytest.raises(InputError, match="dualpipe: the planner has no lower bounds of copies"):
        layouts(job, 4, 4, {"schedule": ["dualpipe"]})
    plug_in({"schedule.none": f"{__name__}:DECODER"})
    with pytest.raises(PluginError, match="schedule plug-in none: is an object of Decoder, not a PipelineSchedule"):
        _design("none")


def _raises(*_: int) -> Units:
    raise KeyError("stage")


RAISES = PipelineSchedule(_raises)
SHORT = PipelineSchedule(lambda stages, stage, batches, chunks: _eager(stages, stage, batches - 1, chunks))
NO_UNITS = PipelineSchedule(lambda *_: [0, 1])      # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(("name", "message"), [
    ("RAISES", "raised KeyError: 'stage'"),
    ("SHORT", r"units\(4, 0, 8, 1\) gave 14 units, which are not forward, backward of each micro-batch once"),
    ("NO_UNITS", "gave an object of list, which is no Units")])
def test_a_wrong_plug_in_is_named(plug_in: PlugIn, name: str, message: str) -> None:
    plug_in({"schedule.mine": f"{__name__}:{name}"})
    with pytest.raises(PluginError, match="schedule plug-in mine: .*" + message):
        ar.simulate(_design("mine"))
