"""`contention` and `fluid` against byte bounds: every link carries what dimension-ordered routing puts on it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.draws import draws

import astrarium as ar
from astrarium import engine
from astrarium.collective.algorithms import supporting
from astrarium.config import Config
from astrarium.engine import Outcome
from astrarium.lower import lower
from astrarium.trace import TraceBuilder, Traces, traces_of_bytes
from astrarium.units import Bandwidth, Time
from astrarium.vocab import CommOp

from .bounds_routes import Link, Message, Side, bytes_per_link, route

KINDS = {"ring": ar.Ring, "one_way": ar.Ring, "switch": ar.Switch, "full": ar.FullyConnected, "mesh": ar.Mesh,
         "cube": ar.Hypercube}
SIZES = [0, 1, 999, 4096, 1_000_003]
SENDS = ["ring", "direct", "halving_doubling"]
PURE = [pytest.param(True, id="pure"),
        pytest.param(False, id="core", marks=pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here"))]


@st.composite
def networks(draw: st.DrawFn) -> tuple[Side, ...]:
    """One to three dims, at most 24 NPUs."""
    sides: list[Side] = []
    total = 1
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(sorted(KINDS)))
        legal = (1, 2, 4, 8) if kind == "cube" else range(1, 9)
        npus = draw(st.sampled_from([n for n in legal if n * total <= 24]))
        total *= npus
        bandwidth, latency = draw(st.sampled_from([1.0, 2.5, 50.0])), draw(st.sampled_from([0.0, 0.5, 100.0]))
        sides.append(Side(kind, npus, bandwidth, latency))
    return tuple(sides)


def count(sides: tuple[Side, ...]) -> int:
    total = 1
    for side in sides:
        total *= side.npus
    return total


def network(sides: tuple[Side, ...], backend: str = "contention", switching: str | None = None) -> ar.Network:
    """The same dims as a user writes them."""
    dims: list[Config] = []
    for side in sides:
        more = {"one_way": True} if side.kind == "one_way" else {}
        dims.append(KINDS[side.kind](side.npus, bandwidth=Bandwidth.of(side.bandwidth), latency=Time.of(side.latency),
                                     **more))
    return ar.Network(dims, backend=backend, switching=switching)


def trace_of(messages: list[Message], ranks: int) -> Traces:
    """All messages at once: one send and one receive each, tags apart."""
    builders = [TraceBuilder() for _ in range(ranks)]
    for tag, (source, destination, size) in enumerate(messages):
        builders[source].send("send", destination, size, tag)
        builders[destination].recv("recv", source, size, tag)
    return traces_of_bytes([builder.encode() for builder in builders])


def run(design: ar.Design, traces: Traces, *, pure: bool) -> Outcome:
    return engine.execute(lower(design, traces), record=True, fold=False, pure=pure)


def carried(outcome: Outcome) -> dict[Link, int]:
    """What the engine says every link carried."""
    rows: Counter[Link] = Counter()
    for dim, source, to, size in zip(outcome.link_dim.tolist(), outcome.link_from.tolist(), outcome.link_to.tolist(),
                                     outcome.link_bytes.tolist(), strict=True):
        rows[dim, source, to] += size
    return dict(rows)


def check_bounds(outcome: Outcome, sides: tuple[Side, ...], expected: dict[Link, int]) -> None:
    """Bytes as expected, and no link faster than its bandwidth (half a ps of rounding per message)."""
    assert carried(outcome) == expected
    assert (outcome.link_busy <= outcome.makespan).all()
    for (dim, _, _), size in expected.items():
        needed = size / sides[dim].bandwidth * 1000
        assert outcome.makespan >= needed - len(outcome.start), f"dim {dim}"
    busy = dict(zip(zip(outcome.link_dim.tolist(), outcome.link_from.tolist(), outcome.link_to.tolist(), strict=True),
                    outcome.link_busy.tolist(), strict=True))
    for link, size in expected.items():
        assert busy[link] == pytest.approx(size / sides[link[0]].bandwidth * 1000, abs=len(outcome.start) + 1)


Pattern = tuple[tuple[Side, ...], list[Message], list[int]]


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    """A network, messages between ranks, and the NPU of every rank."""
    sides = draw(networks().filter(lambda found: count(found) > 1))
    npus = count(sides)
    ends = st.tuples(st.integers(0, npus - 1), st.integers(0, npus - 1)).filter(lambda pair: pair[0] != pair[1])
    messages = [(*draw(ends), draw(st.sampled_from(SIZES))) for _ in range(draw(st.integers(1, 30)))]
    placement = draw(st.one_of(st.just(list(range(npus))), st.permutations(range(npus))))
    return sides, messages, list(placement)


BACKENDS = st.sampled_from([("contention", "store_and_forward"), ("contention", "cut_through"), ("fluid", None)])


@pytest.mark.parametrize("pure", PURE)
@given(pattern=patterns(), backend=BACKENDS)
@draws(20)
def test_links_carry_the_messages_routed_over_them(
        pure: bool, pattern: Pattern, backend: tuple[str, str | None]) -> None:
    sides, messages, npu_of = pattern
    design = ar.Design(workload=ar.Trace("in memory"), network=network(sides, *backend),
                       system=ar.System(placement=npu_of, p2p_streams=64, comm_streams=64))
    outcome = run(design, trace_of(messages, len(npu_of)), pure=pure)
    placed = [(npu_of[a], npu_of[b], size) for a, b, size in messages]
    check_bounds(outcome, sides, bytes_per_link(sides, placed))
    links = [[sides[dim] for dim, _, _ in route(sides, a, b)] for a, b, _ in placed]
    bytes_on = sum if "store_and_forward" in backend else max      # or over all links at once
    alone = max(1000 * (sum(side.latency for side in way) + bytes_on(size / side.bandwidth for side in way))
                for way, (_, _, size) in zip(links, placed, strict=True))
    assert outcome.makespan >= alone - len(outcome.start) * 24      # no message is faster than by itself


@st.composite
def collectives(draw: st.DrawFn) -> tuple[tuple[Side, ...], CommOp, str, int]:
    sides = draw(networks().filter(lambda found: count(found) > 1))
    op = draw(st.sampled_from([CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL]))
    able = [name for name in SENDS if name in supporting(op)]
    return sides, op, draw(st.sampled_from(able)), draw(st.sampled_from([1, 5000, 65_536]))


@pytest.mark.parametrize("pure", PURE)
@given(case=collectives(), backend=BACKENDS)
@draws(20)
def test_collectives_never_beat_their_links(pure: bool, case: tuple[tuple[Side, ...], CommOp, str, int],
                                            backend: tuple[str, str | None]) -> None:
    sides, op, algorithm, size = case
    npus = count(sides)
    builders = [TraceBuilder() for _ in range(npus)]
    for builder in builders:
        builder.coll("work", op, size)
    design = ar.Design(workload=ar.Trace("in memory"), network=network(sides, *backend),
                       collective=ar.Collective(**{op.name.lower(): [algorithm]}, choice="none"))
    plan = lower(design, traces_of_bytes([builder.encode() for builder in builders]))
    outcome = engine.execute(plan, record=True, fold=False, pure=pure)
    check_bounds(outcome, sides, bytes_per_link(sides, messages_of(plan)))


def messages_of(plan: engine.Plan) -> list[Message]:
    """Every message of the collectives that all ranks issue once, from the schedules' definition (vocab.Schedule)."""
    found: list[Message] = []
    for collective in plan.collectives:
        for chunk in collective.chunks:
            for phase in chunk.phases:
                schedule = phase.schedule
                assert schedule is not None
                for position in range(len(plan.npu_of)):
                    index = position // phase.stride % phase.n
                    origin = position - index * phase.stride
                    role = int(schedule.program[index])
                    for send in range(int(schedule.send_ptr[role]), int(schedule.send_ptr[role + 1])):
                        peer = int(schedule.send_peer[send])
                        to = {"RELATIVE": (index + peer) % phase.n, "XOR": index ^ peer, "ABSOLUTE": peer}
                        blocks = int(schedule.send_block_ptr[send + 1] - schedule.send_block_ptr[send])
                        message = (position, origin + to[schedule.peer_mode.name] * phase.stride,
                                   blocks * phase.block_size)
                        found += [message] * chunk.repeat
    return found


def test_a_route_by_hand() -> None:
    # Ring of 4 inside, switch of 2 outside: NPU 3 to NPU 5 goes 3 -> 0 -> 1 round the ring, then up and down.
    sides = (Side("ring", 4, 1.0, 0.0), Side("switch", 2, 1.0, 0.0))
    assert list(route(sides, 3, 5)) == [(0, 3, 0), (0, 0, 1), (1, 1, -1), (1, -1, 5)]
    assert list(route((Side("cube", 8, 1.0, 0.0),), 1, 6)) == [(0, 1, 0), (0, 0, 2), (0, 2, 6)]
    assert list(route((Side("mesh", 4, 1.0, 0.0),), 3, 1)) == [(0, 3, 2), (0, 2, 1)]
    assert list(route((Side("ring", 4, 1.0, 0.0),), 0, 3)) == [(0, 0, 3)]
    assert list(route((Side("one_way", 3, 1.0, 0.0),), 2, 1)) == [(0, 2, 0), (0, 0, 1)]
