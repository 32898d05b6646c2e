"""`contention` and `fluid` against SimGrid (optional: needs SimGrid's Python module, Debian's python3-simgrid).

SimGrid shares a link among its flows like a fluid (equal shares), `contention` serves whole messages first come, first
served. They must agree where sharing does not matter: a message on an idle link; the time at which a link has carried
all that it was given at once (work is conserved); a message stored and forwarded over links of its own. `fluid`
shares as SimGrid does behind the first link of a message, so there every message must agree whose first link no
other one uses.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import astrarium as ar
from astrarium import engine
from astrarium.engine.activities import Activities
from astrarium.lower import lower

from .bounds_routes import Link, Message, Side, route
from .test_bounds import count, network, networks, trace_of

SCRIPT = Path(__file__).with_name("simgrid_rival.py")
SIZES = st.integers(10**8, 10**9)       # bytes: 2 ms or more, as SimGrid's clock is exact to 1 ns
LATENCIES = st.integers(0, 10**7).map(lambda ps: ps / 1000)     # ns; SimGrid aborts on subnormal ones
TOLERANCE = 3e-9                        # s, per hop

pytestmark = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")


@functools.cache
def interpreter() -> str | None:
    """A Python that has the module; it need not be this one."""
    for python in (sys.executable, "/usr/bin/python3"):
        probe = [python, "-c", "import simgrid"]
        if not os.access(python, os.X_OK):
            continue
        if subprocess.run(probe, capture_output=True, env={}, check=False).returncode == 0:
            return python
    return None


def simgrid(links: list[tuple[float, float]], flows: list[dict[str, Any]]) -> list[float]:
    """Seconds at which each flow has arrived."""
    python = interpreter()
    if python is None:
        pytest.skip("no Python here has the simgrid module (Debian: apt-get install python3-simgrid)")
    done = subprocess.run([python, str(SCRIPT)], input=json.dumps({"links": links, "flows": flows}), env={},
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found: list[float] = json.loads(done.stdout)
    return found


def rival(sides: tuple[Side, ...], messages: list[Message], *, whole: bool = False) -> list[float]:
    """The same messages in SimGrid, one communication per link of their routes, or one per message (`whole`)."""
    numbers: dict[Link, int] = {}
    ways = [[numbers.setdefault(link, len(numbers)) for link in route(sides, a, b)] for a, b, _ in messages]
    flows = [{"bytes": size, "hops": [way] if whole else [[link] for link in way]}
             for (_, _, size), way in zip(messages, ways, strict=True)]
    return simgrid([(sides[dim].bandwidth * 1e9, sides[dim].latency * 1e-9) for dim, _, _ in numbers], flows)


def ours(sides: tuple[Side, ...], messages: list[Message], backend: str = "contention") -> list[float]:
    """Seconds at which each message is delivered: the end of its receive, which waits from the start."""
    design = ar.Design(workload=ar.Trace("in memory"), network=network(sides, backend),
                       system=ar.System(p2p_streams=64, comm_streams=64))
    plan = lower(design, trace_of(messages, count(sides)))
    outcome = engine.execute(plan, record=True, fold=False)
    ends: dict[int, int] = {}       # by tag, which is the number of the message
    for rank in range(len(plan.program_of)):
        program = plan.programs[plan.program_of[rank]]
        for node in np.flatnonzero(program.kind == 3).tolist():     # receives
            tag = int(plan.slot_b[plan.slot_ptr[rank] + program.slot[node]])
            ends[tag] = int(outcome.end[outcome.node_ptr[rank] + node])
    return [ends[tag] * 1e-12 for tag in range(len(messages))]


def last_per_link(sides: tuple[Side, ...], messages: list[Message], times: list[float]) -> list[float]:
    """The last arrival over every link, for messages of one hop."""
    last: dict[Link, float] = {}
    for (a, b, _), time in zip(messages, times, strict=True):
        (link,) = route(sides, a, b)
        last[link] = max(last.get(link, 0.0), time)
    return [last[link] for link in sorted(last)]


@st.composite
def lines(draw: st.DrawFn) -> tuple[Side, ...]:
    """One dim of at least two NPUs whose neighbours are one hop apart."""
    npus = draw(st.integers(2, 8))
    return (Side(draw(st.sampled_from(["ring", "one_way", "full", "mesh"])), npus, draw(st.floats(1, 50)),
                 draw(st.just(0.0) | st.floats(1, 10_000))),)


@st.composite
def neighbours(draw: st.DrawFn, *, most: int) -> tuple[tuple[Side, ...], list[Message]]:
    """Up to `most` messages from each of some NPUs to the next one."""
    sides = draw(lines())
    npus = sides[0].npus
    starts = draw(st.lists(st.integers(0, npus - 2), min_size=1, max_size=npus, unique=True))
    return sides, [(a, a + 1, draw(SIZES)) for a in starts for _ in range(draw(st.integers(1, most)))]


@settings(max_examples=8)
@given(neighbours(most=1))
def test_a_message_on_an_idle_link(case: tuple[tuple[Side, ...], list[Message]]) -> None:
    assert ours(*case) == pytest.approx(rival(*case), abs=TOLERANCE, rel=0)


@settings(max_examples=8)
@given(lines(), SIZES, st.integers(2, 12))
def test_equal_messages_over_one_link_end_together(sides: tuple[Side, ...], size: int, flows: int) -> None:
    messages = [(0, 1, size)] * flows
    mine, theirs = ours(sides, messages), rival(sides, messages)
    expected = sides[0].latency * 1e-9 + flows * size / sides[0].bandwidth * 1e-9
    assert max(mine) == pytest.approx(expected, abs=TOLERANCE)
    assert theirs == pytest.approx([expected] * flows, abs=TOLERANCE, rel=1e-9)
    assert len(set(mine)) == flows      # one after the other here, all at the end there


@settings(max_examples=8)
@given(neighbours(most=6))
def test_links_conserve_work(case: tuple[tuple[Side, ...], list[Message]]) -> None:
    sides, messages = case
    mine, theirs = (last_per_link(sides, messages, run(sides, messages)) for run in (ours, rival))
    assert mine == pytest.approx(theirs, abs=TOLERANCE, rel=1e-9)
    assert max(mine) == pytest.approx(max(theirs), abs=TOLERANCE, rel=1e-9)


@st.composite
def chains(draw: st.DrawFn) -> tuple[tuple[Side, ...], list[Message]]:
    """Messages over any number of hops and dims that share no link."""
    sides = draw(networks().filter(lambda found: count(found) > 1))
    npus, used = count(sides), set[Link]()
    messages: list[Message] = []
    for source in draw(st.permutations(range(npus))):
        target = draw(st.integers(0, npus - 1))
        links = set(route(sides, source, target))
        if links and not links & used:
            used |= links
            messages.append((source, target, draw(SIZES)))
    return sides, messages or [(0, 1, 10**8)]


@settings(max_examples=12)
@given(chains())
def test_messages_stored_and_forwarded_over_links_of_their_own(case: tuple[tuple[Side, ...], list[Message]]) -> None:
    sides, messages = case
    hops = max(len(list(route(sides, a, b))) for a, b, _ in messages)
    assert ours(sides, messages) == pytest.approx(rival(sides, messages), abs=TOLERANCE * hops, rel=0)


@st.composite
def crowds(draw: st.DrawFn) -> tuple[tuple[Side, ...], list[Message]]:
    """Messages of different sizes that share links behind their first. No latencies: SimGrid's shares go by them."""
    sides = tuple(replace(side, latency=0.0) for side in draw(networks().filter(lambda found: count(found) > 1)))
    ends = st.tuples(st.integers(0, count(sides) - 1), st.integers(0, count(sides) - 1)).filter(lambda e: e[0] != e[1])
    messages: list[Message] = []
    first, behind = set[Link](), set[Link]()
    for _ in range(draw(st.integers(2, 40))):
        a, b = draw(ends)
        way = list(route(sides, a, b))
        if way[0] not in first | behind and not first & set(way[1:]):
            first.add(way[0])
            behind |= set(way[1:])
            messages.append((a, b, draw(SIZES)))
    return sides, messages


@settings(max_examples=15)
@given(crowds())
def test_flows_have_max_min_fair_shares(case: tuple[tuple[Side, ...], list[Message]]) -> None:
    assert ours(*case, "fluid") == pytest.approx(rival(*case, whole=True), abs=TOLERANCE * len(case[1]), rel=1e-8)


@settings(max_examples=30)
@given(crowds())
def test_flows_have_the_shares_of_activities(case: tuple[tuple[Side, ...], list[Message]]) -> None:
    """The same without SimGrid: what the plug-ins' class of max-min shares says, to a ps per change of a rate."""
    sides, messages = case
    rival, ends = Activities[Link](), dict[int, float]()
    for number, (a, b, size) in enumerate(messages):
        for link in (way := list(route(sides, a, b))):
            rival.set_capacity(link, sides[link[0]].bandwidth / 1000)
        rival.start(size, way, lambda number=number: ends.setdefault(number, rival.now * 1e-12))  # type: ignore[misc]
    rival.advance(2 * 10**15)
    expected = [ends[number] for number in range(len(messages))]
    assert ours(sides, messages, "fluid") == pytest.approx(expected, abs=len(messages) * 1e-12, rel=1e-9)
