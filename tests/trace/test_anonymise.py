"""Anonymised traces: nothing to read in them, and as long as before within the budget."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trace.transform.jobs import assert_valid, generated, makespan, random_jobs

from astrarium.errors import InputError
from astrarium.trace import TraceBuilder, graph_of
from astrarium.trace.anonymise import _room, anonymise
from astrarium.trace.transform import Job
from astrarium.vocab import CommOp


@settings(max_examples=50, deadline=None)
@given(random_jobs(), st.floats(0, 0.5), st.floats(0, 0.5), st.integers(0, 9))
def test_structure_stays_and_budgets_hold(job: Job, durations: float, sizes: float, seed: int) -> None:
    made = anonymise(job, durations=durations, sizes=sizes, seed=seed)
    assert list(made.job.files) == list(anonymise(job, durations=durations, sizes=sizes, seed=seed).job.files)
    assert_valid(made.job)
    old, new = job.traces(), made.job.traces()
    for rank in range(4):
        before, after = old.of(rank)[0], new.of(rank)[0]
        np.testing.assert_array_equal(graph_of(before).parent, graph_of(after).parent)
        for name, budget in (("duration", durations), ("comm_size", sizes)):
            a, b = getattr(before, name).astype(float), getattr(after, name).astype(float)
            assert (np.abs(a - b) <= a * budget + 1e-9).all()
    assert made.durations <= durations
    assert made.sizes <= sizes


def test_a_budget_a_hair_below_a_half_does_not_move_two_by_one() -> None:
    assert _room(np.array([2, 3, 20]), 0.49999999999999994).tolist() == [0, 1, 9]
    assert _room(np.array([2, 20]), 0.5).tolist() == [1, 10]


@pytest.mark.parametrize("fields", [{"dp": 4}, {"dp": 2, "tp": 2, "pp": 2, "micro_batch": 2}])
def test_simulated_time_stays_within_the_budget(fields: dict[str, int]) -> None:
    job = generated(**fields)
    exact = makespan(anonymise(job, durations=0.1).job)
    assert exact == makespan(job)       # nothing is recorded, so nothing moves
    assert makespan(anonymise(job, sizes=0.05, seed=3).job) == pytest.approx(exact, rel=0.05)


def test_long_replays_move_far_less_than_the_budget() -> None:
    rng, made, last = np.random.default_rng(1), TraceBuilder(), list[int]()
    for place in range(2000):
        last = [made.comp(f"k{place % 7}", int(rng.integers(1, 200)), cpu=True, after=last)]
    job = Job([made.encode()], {})
    before = makespan(job, roofline=False)
    assert makespan(anonymise(job, durations=0.1, seed=5).job, roofline=False) == pytest.approx(before, rel=0.01)


def test_nothing_readable_is_left() -> None:
    made = TraceBuilder()
    made.comp("secret_kernel", 7, scope="secret.module", op_schema="secret")
    made.coll("secret_reduce", CommOp.ALL_REDUCE, 64, group="secret_group", after=[0])
    found = anonymise(Job([made.encode()], {"secret_group": (0,)}), seed=1)
    assert b"secret" not in found.job.files[0]
    assert dict(found.names) == {"op0": "secret_kernel", "coll0": "secret_reduce"}
    assert json.dumps(dict(found.job.groups)) == '{"1": [0]}'
    with pytest.raises(InputError, match="budget"):
        anonymise(found.job, durations=0.9)


def test_what_no_float_counts_exactly_stays_and_the_budget_holds() -> None:
    made = TraceBuilder()
    for duration in ((1 << 64) - 1, 1 << 53, 1000, 0):
        made.comp("k", duration)
    made.coll("r", CommOp.ALL_REDUCE, (1 << 63) - 1)
    found = anonymise(Job([made.encode()], {}), durations=0.1, sizes=0.1)
    columns = found.job.traces().classes[0]
    assert columns.duration.tolist()[:2] == [(1 << 64) - 1, 1 << 53]
    assert 900 <= columns.duration[2] <= 1100
    assert (columns.duration[3], columns.comm_size[4]) == (0, (1 << 63) - 1)
    assert 0 < found.durations <= 0.1
    assert found.sizes == 0
