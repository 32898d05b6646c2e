"""Differences of traces by structure."""

from __future__ import annotations

import json

from hypothesis import given, settings
from tests.trace.transform.jobs import generated, random_jobs

from astrarium.trace import TraceBuilder, traces_of_bytes
from astrarium.trace.diff import diff_traces
from astrarium.trace.transform import Job, transform


def _built(first_id: int = 0, extra: bool = False, duration: int = 5) -> bytes:
    made = TraceBuilder()
    last = made.comp("a", 1, id=first_id)
    for place in range(5):
        if extra and place == 3:
            last = made.comp("extra", 2, after=[last])
        last = made.comp("k", duration if place == 4 else 5, after=[last])
    return made.encode()


def test_ids_do_not_matter_and_changes_are_found() -> None:
    plain = traces_of_bytes([_built()])
    assert diff_traces(plain, traces_of_bytes([_built(100)])).same
    found = diff_traces(plain, traces_of_bytes([_built(extra=True, duration=9)])).pairs[0]
    assert (found.matched, list(found.removed), list(found.added)) == (6, [], [(4, "extra")])
    assert [each.fields for each in found.changed] == [{"duration_us": (5, 9)}]
    assert found.totals["compute"] == {"nodes": (6, 7), "recorded_us": (26, 32), "flop": (0, 0), "bytes": (0, 0)}


@settings(max_examples=40, deadline=None)
@given(random_jobs())
def test_a_trace_equals_itself_and_differs_by_what_was_dropped(job: Job) -> None:
    traces = job.traces()
    assert diff_traces(traces, traces).same
    dropped = transform([job], ["drop:kind=gpu"]).traces()
    for pair in diff_traces(traces, dropped).pairs:
        assert not pair.added
        assert {name[:3] for _, name in pair.removed} <= {"gpu"}


def test_equal_ranks_are_compared_once_and_json_is_plain() -> None:
    job = generated(dp=4)
    found = diff_traces(job.traces(), transform([job], ["scale_sizes:by=2,kind=all_reduce"]).traces())
    assert [len(pair.ranks) for pair in found.pairs] == [4]
    assert all(set(each.fields) == {"comm_size"} for each in found.pairs[0].changed)
    assert json.loads(json.dumps(found.plain()))["same"] is False
    assert not diff_traces(job.traces(), generated(dp=2).traces()).same


def test_nodes_that_differ_are_listed_when_asked_for() -> None:
    """Differences are made when they are asked for: the n-th repetition pairs with the n-th."""
    made, other = TraceBuilder(), TraceBuilder()
    for place in range(1000):
        made.comp("k", 1 + place)
        other.comp("k", 2 + place)
    other.comp("late", 1)
    pair = diff_traces(traces_of_bytes([made.encode()]), traces_of_bytes([other.encode()])).pairs[0]
    assert (pair.matched, len(pair.changed), list(pair.added)) == (1000, 1000, [(1000, "late")])
    assert [(each.before, each.after, each.fields) for each in pair.changed[500:502]] == [
        (500, 500, {"duration_us": (501, 502)}), (501, 501, {"duration_us": (502, 503)})]
