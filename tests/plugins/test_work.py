"""Workloads that decide as they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.plans.draw import random_plan

from astrarium.engine import HAVE_CORE, Outcome, execute
from astrarium.engine.plan import Backend, Kind, Plan
from astrarium.engine.plugins import Plugins
from astrarium.engine.plugins.exams import ExamError, exam_work
from astrarium.engine.plugins.work import PlanSource, Work, collective, compute, recv, send, timer
from astrarium.engine.source import RunContext, run_source
from astrarium.errors import PluginError, StallError

from .common import mixed_plan, steady

ENGINES = [pytest.param(False, marks=pytest.mark.skipif(not HAVE_CORE, reason="no compiled core here")), True]
engines = pytest.mark.parametrize("pure", ENGINES)


def traffic(outcome: Outcome) -> list[tuple[int, ...]]:
    columns = (outcome.link_dim, outcome.link_from, outcome.link_to, outcome.link_bytes, outcome.link_busy)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


class Listening(PlanSource):
    """Keeps what it was told."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.told: list[tuple[int, int, int]] = []

    def completed(self, work: Work, t: int) -> list[Work]:
        self.told.append((work.rank, work.id, t))
        return super().completed(work, t)


@pytest.mark.skipif(not HAVE_CORE, reason="no compiled core here")
@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_both_engines_tell_a_source_the_same_in_the_same_order(seed: int) -> None:
    plan = random_plan(seed)
    sources = Listening(plan), Listening(plan)
    fast, slow = (run_source(source, RunContext.of(plan), pure=pure)
                  for source, pure in zip(sources, (False, True), strict=True))
    assert sources[0].told == sources[1].told
    assert (fast.work, fast.start.tolist(), fast.end.tolist(), fast.events) == (
        slow.work, slow.start.tolist(), slow.end.tolist(), slow.events)
    for name in ("finish", "busy", "use_busy"):
        assert getattr(fast.outcome, name).tolist() == getattr(slow.outcome, name).tolist(), name
    assert traffic(fast.outcome) == traffic(slow.outcome)


@engines
@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_a_trace_is_the_trivial_source(pure: bool, seed: int) -> None:
    plan = random_plan(seed)
    own = execute(plan, fold=False, record=True)
    outcome = run_source(PlanSource(plan), RunContext.of(plan), pure=pure)
    for name in ("finish", "busy", "node_ptr", "start", "end"):
        assert getattr(outcome.outcome, name).tolist() == getattr(own, name).tolist(), name
    assert traffic(outcome.outcome) == traffic(own)
    places = [int(own.node_ptr[work.rank]) + work.id for work in outcome.work]
    assert sorted(places) == list(range(len(own.end)))
    assert own.start[places].tolist() == outcome.start.tolist()
    assert own.end[places].tolist() == outcome.end.tolist()
    assert outcome.makespan == own.makespan


@engines
def test_a_source_over_a_network_plug_in(pure: bool) -> None:
    plan, plugins = mixed_plan(), Plugins(network=steady(777))
    outcome = run_source(PlanSource(plan), RunContext.of(plan), plugins, pure=pure)
    assert outcome.makespan == execute(plan, plugins=plugins).makespan


class Scripted:
    """A source from functions."""

    def __init__(self, start: Callable[[], Sequence[Any]], then: Callable[[Work, int], Sequence[Any]] = lambda w, t: (),
                 left: Sequence[str] = ()) -> None:
        self._start, self._then, self._left = start, then, left

    def start(self, t: int) -> Sequence[Work]:
        assert t == 0
        return self._start()

    def completed(self, work: Work, t: int) -> Sequence[Work]:
        return self._then(work, t)

    def unfinished(self) -> Sequence[str]:
        return self._left


def context() -> RunContext:
    return RunContext.of(replace(mixed_plan(), network=replace(mixed_plan().network, backend=Backend.PORTS)))


@engines
def test_what_runs_next_depends_on_when_something_ended(pure: bool) -> None:
    def then(work: Work, t: int) -> list[Work]:
        return [compute(1, 0, 50 if t > 150 else 5)] if work.id == 0 else []

    for first, end in ((100, 105), (200, 250)):
        outcome = run_source(Scripted(lambda first=first: [timer(0, 0, first)], then), context(), pure=pure)
        assert outcome.end.tolist() == [first, end]


@engines
def test_ids_may_have_holes_and_decide_ties(pure: bool) -> None:
    outcome = run_source(Scripted(lambda: [compute(9, 0, 10), compute(4, 0, 10)]), context(), pure=pure)
    assert dict(zip((work.id for work in outcome.work), outcome.start.tolist(), strict=True)) == {9: 10, 4: 0}


@engines
@pytest.mark.parametrize(("works", "words"), [
    ([timer(0, 9, 1)], "there is no rank 9"), ([timer(0, 0, 1), timer(0, 0, 1)], "has had a work 0"),
    ([timer(-1, 0, 1)], "not a small number"), ([timer(10**9, 0, 1)], "not a small number"),
    ([collective(0, 0, 7)], "there is no collective 7"), ([collective(0, 0, 0, group=3)], "there is no group 3"),
    ([Work(0, 0, Kind.DELAY, lane=17)], "there is no lane 17"), ([timer(0, 0, -4)], "negative"),
    (["compute"], "which is no Work"), ([send(0, 0, 0, 1)], "its peer is the rank itself"),
    ([recv(0, 1, 99, 1)], "there is no rank 99"), ([send(0, 0, 1, 1, tag=2**31)], "tag 2147483648"),
    ([timer(0, 0, 2**63)], "more than 63 bits"), ([timer(0, 0, 0.5)], "not a whole number"),  # type: ignore[arg-type]
    ([collective(0, 0, 0, priority=2**31)], "more than 32 bits"), (5, "raised TypeError"),
])
def test_work_that_cannot_be_is_refused_in_the_sources_name(works: list[Any], words: str, pure: bool) -> None:
    with pytest.raises(PluginError, match=f"workload plug-in Scripted: .*{words}"):
        run_source(Scripted(lambda: works), context(), pure=pure)


@engines
def test_a_source_that_raises_is_named(pure: bool) -> None:
    def then(work: Work, t: int) -> list[Work]:
        raise ZeroDivisionError("no tokens")

    with pytest.raises(PluginError, match="workload plug-in Scripted: raised ZeroDivisionError: no tokens"):
        run_source(Scripted(lambda: [timer(0, 0, 1)], then), context(), pure=pure)


@engines
def test_work_that_never_ends_is_a_stall(pure: bool) -> None:
    with pytest.raises(StallError, match="recv from 1, tag 5, 10 bytes"):
        run_source(Scripted(lambda: [recv(0, 0, 1, 10, tag=5)]), context(), pure=pure)
    with pytest.raises(StallError, match="request 3 has no answer"):
        run_source(Scripted(lambda: [timer(0, 0, 1)], left=["request 3 has no answer"]), context(), pure=pure)


def test_the_exam() -> None:
    outcome = exam_work(lambda: Scripted(lambda: [send(0, 0, 1, 64), recv(0, 1, 0, 64)]), context())
    assert outcome.end[0] == outcome.end[1] > 0
    numbers = iter(range(100))
    with pytest.raises(ExamError, match="different work"):
        exam_work(lambda: Scripted(lambda: [timer(0, 0, next(numbers))]), context())
    with pytest.raises(ExamError, match="no answer"):
        exam_work(lambda: Scripted(list, left=["no answer"]), context())
