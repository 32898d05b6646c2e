"""Timelines: the trace event format's required fields, arrows that match, tracks without overlap, bounded memory."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from collections import Counter as Count
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import astrarium as ar
from astrarium.errors import InputError
from astrarium.report.timeline.counters import memory_counters, network_counters
from astrarium.report.timeline.events import TraceEvents, quoted, us
from astrarium.report.timeline.run import Counter, Recorded, assign, write_timeline
from astrarium.trace import TraceBuilder, attribute
from astrarium.vocab import CommOp, NodeKind

# The schema: "Trace Event Format" (Google), as ui.perfetto.dev reads it. Every event has ph, ts, pid and tid; X has a
# dur that is not negative, s and f an id, f binds to the slice around it, C has numbers, M a known name.


class Event(msgspec.Struct, forbid_unknown_fields=True, tag_field="ph", kw_only=True):
    name: str
    ts: float
    pid: int
    tid: int


class Complete(Event, tag="X", forbid_unknown_fields=True, kw_only=True):
    dur: float
    cat: Literal["compute", "collective", "send", "receive", "remote_memory"]
    args: dict[str, Any]


class FlowStart(Event, tag="s", forbid_unknown_fields=True, kw_only=True):
    id: int
    cat: str


class FlowEnd(Event, tag="f", forbid_unknown_fields=True, kw_only=True):
    id: int
    cat: str
    bp: Literal["e"]


class CounterEvent(Event, tag="C", forbid_unknown_fields=True, kw_only=True):
    args: dict[str, float]


class Named(Event, tag="M", forbid_unknown_fields=True, kw_only=True):
    name: Literal["process_name", "process_sort_index", "thread_name", "thread_sort_index"]
    args: dict[str, str | int]


class File(msgspec.Struct, forbid_unknown_fields=True):
    displayTimeUnit: Literal["ns"]  # noqa: N815 - the format's word
    traceEvents: list[Complete | FlowStart | FlowEnd | CounterEvent | Named]  # noqa: N815


def read(path: Path) -> list[Event]:
    """The events of a file that keeps to the schema."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return list(msgspec.json.decode(text, type=File, strict=True).traceEvents)


def traces(folder: Path, ranks: int = 4) -> ar.Trace:
    """Every rank computes, reduces, and passes two equal messages to the next one."""
    for rank in range(ranks):
        trace = TraceBuilder()
        made = trace.node(NodeKind.COMP, "work", [attribute("outputs", ["a", "1000"])], duration=5)
        trace.coll("sum", CommOp.ALL_REDUCE, 1 << 20, after=[made])
        for k in range(2):
            trace.send(f"out {k}", (rank + 1) % ranks, 4096, tag=3, after=[made])
            trace.recv(f"in {k}", (rank - 1) % ranks, 4096, tag=3, after=[made])
        trace.node(NodeKind.COMP, 'say "\\é\n', [attribute("inputs", ["a", "1000"])], after=[made], duration=1)
        trace.write(folder / f"w.{rank}.et")
    return ar.Trace(str(folder / "w"))


@pytest.fixture
def result(tmp_path: Path) -> Any:
    dims = [ar.Ring(4, bandwidth="50 GB/s", latency="500 ns")]
    return ar.simulate(ar.Design(workload=traces(tmp_path), network=ar.Network(dims)), fold="off")


def recorded(result: Any) -> Recorded:
    return Recorded(result.plan, result.outcome, result.traces, memory_counters(result))


@pytest.fixture
def events(result: Any, tmp_path: Path) -> list[Event]:
    path = tmp_path / "t.json"
    assert write_timeline(str(path), recorded(result)) == len(read(path))
    return read(path)


def test_slices_are_the_nodes_times(events: list[Event], result: Any) -> None:
    slices = [event for event in events if isinstance(event, Complete)]
    assert Count(event.pid for event in slices) == dict.fromkeys(range(4), 7)
    assert {event.name for event in slices} >= {"work", "sum", "out 0", "in 1", 'say "\\é\n'}
    last = max(round((event.ts + event.dur) * 1e6) for event in slices)
    assert last == result.makespan_ps
    work = next(event for event in slices if event.name == "work")
    assert (work.ts, work.dur, work.cat) == (0.0, 5.0, "compute")
    whole = next(event for event in slices if event.name == "sum")
    assert whole.args == {"node": 1, "bytes": 1 << 20, "op": "all_reduce", "ranks": 4}
    out = next(event for event in slices if event.name == "out 0" and event.pid == 2)
    assert (out.args["peer"], out.args["tag"], out.args["bytes"]) == (3, 3, 4096)


def test_one_process_per_rank_and_one_track_per_stream(events: list[Event]) -> None:
    processes = {event.pid: event.args["name"] for event in events
                 if isinstance(event, Named) and event.name == "process_name"}
    assert processes == {rank: f"rank {rank}" for rank in range(4)}
    tracks = {(event.pid, event.tid): event.args["name"] for event in events
              if isinstance(event, Named) and event.name == "thread_name"}
    used = {(event.pid, event.tid) for event in events if isinstance(event, Complete)}
    assert used == set(tracks)
    assert {"compute", "communication"} <= set(tracks.values())


def test_slices_of_a_track_do_not_overlap(events: list[Event]) -> None:
    by_track: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in events:
        if isinstance(event, Complete):
            by_track.setdefault((event.pid, event.tid), []).append((event.ts, event.ts + event.dur))
    for spans in by_track.values():
        spans.sort()
        assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(spans))


def test_arrows_match_and_lie_within_their_slices(events: list[Event]) -> None:
    starts = {event.id: event for event in events if isinstance(event, FlowStart)}
    ends = {event.id: event for event in events if isinstance(event, FlowEnd)}
    assert len(starts) == sum(isinstance(event, FlowStart) for event in events) == 8
    assert set(starts) == set(ends)
    slices = [event for event in events if isinstance(event, Complete)]
    for number, start in starts.items():
        end = ends[number]
        assert end.pid == (start.pid + 1) % 4
        assert end.ts >= start.ts
        assert (start.name, start.cat) == (end.name, end.cat)
        tail = next(s for s in slices if s.cat == "send" and (s.pid, s.tid, s.ts) == (start.pid, start.tid, start.ts))
        head = next(s for s in slices if s.cat == "receive" and (s.pid, s.tid) == (end.pid, end.tid)
                    and s.ts <= end.ts < s.ts + s.dur)
        assert tail.name.split()[1] == head.name.split()[1]      # equal messages meet in order


def test_memory_counters(events: list[Event], result: Any) -> None:
    seen = [(event.ts, event.args) for event in events if isinstance(event, CounterEvent) and event.pid == 1]
    assert seen[0] == (0.0, {"bytes": 1000.0})
    assert seen[-1][1] == {"bytes": 0.0}
    assert seen[-1][0] * 1e6 <= result.makespan_ps


def test_chosen_ranks_lose_arrows_to_ranks_not_shown(result: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    write_timeline(str(path), recorded(result), ranks=[2, 1, 2])
    events = read(path)
    assert {event.pid for event in events} == {1, 2}
    assert sum(isinstance(event, FlowStart) for event in events) == 2
    assert {event.pid for event in events if isinstance(event, FlowStart)} == {1}


@pytest.mark.parametrize("ranks", [[4], [-1], [0, 99]])
def test_ranks_that_do_not_exist(ranks: list[int], result: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no rank"):
        write_timeline(str(tmp_path / "t.json"), recorded(result), ranks=ranks)
    assert not (tmp_path / "t.json").exists()


def test_folded_runs_show_one_rank_of_each_class_and_any_that_is_asked_for(tmp_path: Path) -> None:
    for rank in range(8):
        trace = TraceBuilder()
        trace.coll("sum", CommOp.ALL_REDUCE, 1 << 20, after=[trace.comp("work", 5)])
        trace.write(tmp_path / f"w.{rank}.et")
    dims = [ar.Switch(8, bandwidth="50 GB/s", latency="500 ns")]
    design = ar.Design(workload=ar.Trace(str(tmp_path / "w")), network=ar.Network(dims))
    folded = ar.simulate(design)
    if not folded.outcome.folded:
        pytest.skip("this engine does not fold")
    path = tmp_path / "t.json"
    write_timeline(str(path), recorded(folded))
    assert len({event.pid for event in read(path)}) == len(folded.outcome.finish) < 8
    write_timeline(str(path), recorded(folded), ranks=range(8))
    every = path.read_bytes()
    write_timeline(str(path), recorded(ar.simulate(design, fold="off")), ranks=range(8))
    assert path.read_bytes() == every


@given(st.integers(0, 2**33 * 10**6 - 1))
def test_microseconds_keep_the_picosecond(ps: int) -> None:
    assert round(Decimal(json.dumps(us(ps))).scaleb(6)) == ps


@given(st.lists(st.tuples(st.sampled_from(["b", "a"]), st.integers(0, 20), st.integers(0, 5)), max_size=30))
def test_tracks(slices: list[tuple[str, int, int]]) -> None:
    """No overlap on a track, no track of two streams, and no more tracks than slices in flight at once."""
    start, end = [s for _, s, _ in slices], [s + d for _, s, d in slices]
    tracks = assign([name for name, _, _ in slices], start, end, ("a", "b"))
    assert list(tracks.names) == sorted(tracks.names, key=lambda name: (name[0], len(name), name))
    for number, name in enumerate(tracks.names):
        mine = sorted((start[i], end[i]) for i in range(len(slices)) if tracks.of[i] == number)
        assert mine
        assert all(before[1] <= after[0] for before, after in pairwise(mine))
        assert {slices[i][0] for i in range(len(slices)) if tracks.of[i] == number} == {name[0]}
    for name in "ab":
        at_once = [sum(s <= t < e for (n, _, _), s, e in zip(slices, start, end, strict=True) if n == name)
                   for t in range(26)]
        zero = any(d == 0 for n, _, d in slices if n == name)
        assert sum(track[0] == name for track in tracks.names) <= max(at_once, default=0) + zero


def test_events_are_streamed() -> None:
    """100 thousand slices (15 MB of text) are written while at most a few MB are held."""
    class Sink(io.RawIOBase):
        size = 0

        def write(self, data: Any) -> int:
            self.size += len(data)
            return len(data)

    sink = Sink()
    tracemalloc.start()
    with TraceEvents(sink) as events:  # type: ignore[arg-type]
        for number in range(100_000):
            events.slice(0, 1, quoted("work"), "compute", number, number + 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sink.size > 7_500_000
    assert peak < 5_000_000


def test_a_run_without_node_times_is_refused(tmp_path: Path) -> None:
    dims = [ar.Ring(4, bandwidth="50 GB/s", latency="500 ns")]
    bare = ar.simulate(ar.Design(workload=traces(tmp_path), network=ar.Network(dims)), record=False)
    with pytest.raises(InputError, match="not recorded"):
        write_timeline(str(tmp_path / "t.json"), Recorded(bare.plan, bare.outcome, bare.traces))


def test_the_network_has_a_counter_per_dim(result: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    run = Recorded(result.plan, result.outcome, network=network_counters(result.plan, result.outcome))
    write_timeline(str(path), run)
    found = [event for event in read(path) if isinstance(event, CounterEvent)]
    assert {(event.pid, event.name) for event in found} == {(4, "dim 0: ring of 4, links busy")}
    times = [round(event.ts * 1e6) for event in found]
    assert times == sorted(set(times))
    assert found[-1].args == {"percent": 0.0}
    assert result.makespan_ps * 0.9 < times[-1] <= result.makespan_ps
    shown = [event.args["percent"] for event in found]
    area = sum(percent * (end - begin) for percent, begin, end in zip(shown, times, times[1:], strict=False)) / 100
    leaves = result.links.source >= 0
    assert area == pytest.approx(result.links.busy[leaves].sum() / np.count_nonzero(leaves), rel=1e-4)


def test_counters_need_no_tensors(result: Any, tmp_path: Path) -> None:
    mine = Counter("load", "percent", np.array([0, 10], np.int64), np.array([1, 2], np.int64))
    run = Recorded(result.plan, result.outcome, None, lambda rank: (mine,) if rank == 0 else ())
    path = tmp_path / "t.json"
    write_timeline(str(path), run)
    found = [event for event in read(path) if isinstance(event, CounterEvent)]
    assert [(event.pid, event.name, event.args) for event in found] == [(0, "load", {"percent": 1.0}),
                                                                        (0, "load", {"percent": 2.0})]
    names = {event.name for event in read(path) if isinstance(event, Complete)}
    assert names == {"delay", "collective", "send", "recv"}


def test_tiers_have_a_counter_and_their_transfers_are_on_the_copy_track(tmp_path: Path) -> None:
    tier = ar.Tier("host", capacity="1 TB", bandwidth="16 GB/s")
    design = ar.Design(workload=ar.Transformer("gpt2-small", global_batch=1, seq=128),
                       compute=ar.Roofline("10 TFLOP/s"),
                       memory=ar.Memory(bandwidth="1 TB/s", tiers=[tier], placement=ar.Placement(activations="host")),
                       network=ar.Network([ar.Ring(1, bandwidth="1 GB/s", latency="0 ns")]))
    result = ar.simulate(design)
    path = tmp_path / "timeline.json"
    write_timeline(str(path), Recorded(result.plan, result.outcome, result.traces, memory_counters(result)))
    events = json.loads(path.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    tracks = {event["tid"]: event["args"]["name"] for event in events if event.get("name") == "thread_name"}
    moved = [event for event in events if event.get("cat") == "remote_memory"]
    assert len(moved) == 2 * 14
    assert {tracks[event["tid"]].split()[0] for event in moved} == {"copy"}
    assert {event["name"] for event in events if event["ph"] == "C"} >= {"memory", "memory in host"}
