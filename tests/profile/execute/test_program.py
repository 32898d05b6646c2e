"""Programs and the loop without PyTorch: order, timers, lanes, refusals; measured times in a new trace."""

from __future__ import annotations

import time

import pytest

from astrarium.errors import InputError
from astrarium.profile.execute import Measured, Settings, measured_trace
from astrarium.profile.execute.loop import Loop
from astrarium.profile.execute.program import program
from astrarium.trace import Attribute, TraceBuilder, read_node, read_traces, traces_of_bytes
from astrarium.trace.node import Metadata, attribute
from astrarium.vocab import CommOp


class Work:
    def __init__(self, seconds):
        self.until = time.perf_counter() + seconds

    def is_completed(self):
        return time.perf_counter() >= self.until

    def wait(self):
        pass


class SlowWire:
    """Every operation takes 30 ms; `issued` is the order."""

    device = "cpu"

    def __init__(self):
        self.issued = []

    def issue(self, message):
        self.issued.append(message.size)
        return Work(0.03), []

    def give_back(self, buffers):
        assert buffers == []


def made(*, profiled=True):
    """A and B of 40 ms side by side, a collective of 30 ms after A, then 20 ms after both and it."""
    builder = TraceBuilder()
    if profiled:
        builder.metadata = Metadata("", (attribute("kind", "profiled"),))
    a, b = builder.comp("a", 40_000), builder.comp("b", 40_000)
    c = builder.coll("c", CommOp.ALL_REDUCE, 1000, after=[a])
    builder.comp("d", 20_000, after=[b, c])
    return builder


@pytest.mark.parametrize(("profiled", "expected"), [(True, 0.09), (False, 0.10)])
def test_timers_run_side_by_side_unless_a_lane_holds_them(profiled, expected):
    """Dependencies of profiled traces hold the order; in others an NPU runs one compute node at a time."""
    traces = traces_of_bytes([made(profiled=profiled).encode()] * 2)
    found = Loop(program(traces, 1), Settings(), SlowWire()).run()
    assert expected - 1e-6 <= found.makespan < expected + 0.05      # differences of a float clock
    assert list(found.taken) == [2]
    assert found.taken[2] >= 0.03


def test_a_chain_of_short_sleeps_does_not_drift():
    builder = TraceBuilder()
    last = builder.comp("0", 10)
    for number in range(3000):
        last = builder.comp(str(number), 10, after=[last])
    found = Loop(program(traces_of_bytes([builder.encode()]), 0), Settings(scale=2), SlowWire()).run()
    assert found.makespan == pytest.approx(2 * 0.03001, abs=1e-6)     # ends are planned, not looked at


def test_collectives_of_a_group_are_issued_in_one_order():
    """The second collective is ready first, and waits for its turn."""
    builder = TraceBuilder()
    first = builder.comp("late", 20_000)
    builder.coll("c1", CommOp.ALL_REDUCE, 1, after=[first])
    builder.coll("c2", CommOp.ALL_REDUCE, 2)
    one = program(traces_of_bytes([builder.encode()]), 0)
    wire = SlowWire()
    Loop(one, Settings(), wire).run()
    expected = [one.messages[node].size for node in one.order if node in one.messages]
    assert wire.issued == expected


def test_nothing_hangs_for_ever():
    builder = TraceBuilder()
    builder.recv("r", 1, 8)

    class Silent(SlowWire):
        def issue(self, message):
            return Work(1e9), []

    with pytest.raises(InputError, match="nothing has ended"):
        Loop(program(traces_of_bytes([builder.encode()] * 2), 0), Settings(timeout=0.05), Silent()).run()


@pytest.mark.parametrize("fault", ["order", "cycle", "group", "peer"])
def test_what_cannot_run_is_refused(fault):
    files = []
    for rank in range(2):
        builder = TraceBuilder()
        if fault == "order":
            builder.coll("x", CommOp.ALL_REDUCE, 8 + rank)
        elif fault == "cycle":
            builder.comp("a", 1, after=[1])
            builder.comp("b", 1, after=[0])
        elif fault == "group":
            builder.coll("x", CommOp.ALL_REDUCE, 8, group=7)
        else:
            builder.send("s", 5, 8)
        files.append(builder.encode())
    words = {"order": "another order", "cycle": "can never run", "group": "group '7'", "peer": "the other rank is 5"}
    with pytest.raises(InputError, match=words[fault]):
        program(traces_of_bytes(files), 1)


def test_measured_times_become_durations(tmp_path):
    builder = made()
    builder.comp("e", 7, note=Attribute("note").name)
    traces = traces_of_bytes([builder.encode()])
    runs = [Measured(0.1, {2: seconds}) for seconds in (0.001, 0.005, 0.002)]
    path = measured_trace(traces, 0, runs, Settings(), tmp_path / "out")
    again = read_traces(tmp_path / "out")
    assert path.endswith("out.0.et")
    assert again.classes[0].duration.tolist() == [40_000, 40_000, 2_000, 20_000, 7]
    assert read_node(again, 0, 4) == read_node(traces, 0, 4)
    assert b"replayed_on" in again.classes[0].metadata
    assert b"profiled" in again.classes[0].metadata
