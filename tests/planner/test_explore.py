"""The planner finds what exhaustive search finds, and its lower bounds are lower bounds."""

from __future__ import annotations

import math
import random
from itertools import islice
from typing import Any

import pytest
from msgspec.structs import replace
from tests.draws import draws
from tests.planner.spaces import DENSE, LONG, MEASURED, QUICK, SPARSE, Case, exhaustive

from astrarium.compute import kernels
from astrarium.errors import InputError
from astrarium.lower.kept import Kept
from astrarium.planner.explore import _Search, explore, workload_of
from astrarium.planner.job import job_of
from astrarium.planner.layout import Layout, layouts
from astrarium.planner.machine import machine_of
from astrarium.planner.planning import settings_for
from astrarium.search.limits import Guard


def compare(case: Case) -> int:
    every = exhaustive(case)
    for layout in list(every):      # the same work under another name
        if layout.recompute == "selective" and every.get(replace(layout, recompute="none")) == every[layout]:
            del every[layout]
    found = explore(case.job, case.machine, top=3, every=layouts(case.job, case.npus, case.machine.host, case.fixed))
    best = sorted(every.values())[:3]
    assert [trial.time for trial in found.found] == best
    assert not found.unknown
    assert all(every[trial.layout] == trial.time for trial in found.found)
    return len(every) - found.simulated


@pytest.mark.parametrize("case", [QUICK, MEASURED], ids=lambda case: case.name)
def test_never_worse_than_exhaustive_search(case: Case) -> None:
    assert compare(case) > 20


@pytest.mark.exam
@pytest.mark.parametrize("case", LONG, ids=lambda case: case.name)
def test_never_worse_than_exhaustive_search_of_other_spaces(case: Case) -> None:
    compare(case)


ROOFLINE = QUICK.how


@pytest.mark.parametrize(("model", "npus", "fixed", "how", "tightest"), [
    (DENSE, 32, {}, ROOFLINE, 0.75), (SPARSE, 8, {"cp": [1]}, ROOFLINE, 0.75),
    (DENSE, 64, {"pp": [4], "virtual_stages": [1, 2]}, ROOFLINE, 0.75),
    (DENSE, 64, {"pp": [4], "schedule": ["gpipe", "zero_bubble"]}, ROOFLINE, 0.75),
    ("llama3-8b", 16, {"pp": [1, 2]}, MEASURED.how, 0.96)],
    ids=["dense", "experts", "stages", "schedules", "sustained clocks"])
def test_floors_of_time_and_memory_hold(model: object, npus: int, fixed: dict[str, list[Any]],
                                        how: tuple[str, str, str | None], tightest: float) -> None:
    machine = machine_of("h100_sxm", npus, None, *how)
    job = job_of(model, **settings_for(machine, {"seq": 4096, "global_batch": 32}))
    search = _Search(job, machine, Kept(), Guard())
    every = list(layouts(job, npus, machine.host, fixed))
    random.Random(7).shuffle(every)
    tight: list[float] = []
    for group in (every, [each for each in every if each.zero > 1]):
        fit = (each for layout in group if (each := search.candidate(layout)) is not None
               and each.bound.memory <= machine.capacity)
        for candidate in islice(fit, draws(10).max_examples):
            trial, _ = search.trial(candidate)
            assert not trial.problem
            if math.isnan(trial.time):
                assert trial.memory > machine.capacity
                continue
            assert candidate.bound.time <= trial.time
            assert candidate.bound.memory <= trial.memory * (1 + 1e-9)
            tight.append(candidate.bound.time / trial.time)
    assert max(tight) > tightest


def test_kernels_that_nobody_measured_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = kernels.load("gb300")
    bare = replace(whole, parts={name: part for name, part in whole.parts.items() if "experts" not in name})
    monkeypatch.setattr(kernels, "load", lambda _: bare)
    machine = machine_of("gb300", 16, None, *MEASURED.how)
    with pytest.raises(InputError, match="no measured rows of experts"):
        explore(job_of(SPARSE, seq=4096, global_batch=32), machine)


def test_every_layout_is_one_that_the_rules_allow() -> None:
    job, machine = job_of(DENSE, seq=2048, global_batch=24), machine_of("h100_sxm", 24)
    every = list(layouts(job, 24, machine.host))
    assert len(set(every)) == len(every) > 100
    assert {layout.dp for layout in every} <= {1, 2, 3, 4, 6, 8, 12, 24}
    for layout in random.Random(1).sample(every, 40):
        assert layout.ranks == workload_of(job, layout).ranks == 24
        assert 24 % (layout.dp * layout.micro_batch) == 0


def test_what_takes_too_long_is_named() -> None:
    every = layouts(QUICK.job, QUICK.npus, QUICK.machine.host, {**QUICK.fixed, "pp": [2], "tp": [1]})
    found = explore(QUICK.job, QUICK.machine, top=2, every=every, limit=1e-6)
    assert found.found == ()
    assert found.unknown
    assert all("stopped at its limit" in trial.problem for trial in found.unknown)


def test_an_unknown_part_of_a_layout_is_refused() -> None:
    with pytest.raises(InputError, match="pipeline: is no part of a layout"):
        list(layouts(job_of(DENSE, seq=2048, global_batch=8), 8, 8, {"pipeline": [1]}))


def test_ends_count_as_layers_where_that_is_even() -> None:
    job = job_of(LONG[4].model, seq=2048, global_batch=64)       # 14 layers
    assert job.stage_layers(2) is None
    assert job.stage_layers(8) == [1, 2, 2, 2, 2, 2, 2, 1]
    assert not job.even(4) or job.stage_layers(4) == [3, 4, 4, 3]


def test_a_layout_says_what_is_not_usual() -> None:
    assert str(Layout(tp=8, pp=4, dp=16, virtual_stages=5, zero=1, tp_sequence=True)) == \
        "tp 8 sp, pp 4 x 5, dp 16, mb 1, zero 1"
    assert str(Layout(dp=2, recompute="full")) == "dp 2, mb 1, recompute full"
