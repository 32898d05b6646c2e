"""Links that fail while a plan runs: messages go another way, if there is one (design/0017)."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws
from tests.oracle.test_same_integers import assert_same
from tests.plans.changes import changes_of
from tests.plans.draw import random_plan
from tests.plans.graphs import graph_from, random_graph
from tests.plans.hand import Node, collective, native_collective, plan_of, recv, send

from astrarium import engine
from astrarium.engine import HAVE_CORE, Outcome, Plan, execute
from astrarium.engine.plan import (
    FIRST_LINK,
    FULL_SPEED,
    Changing,
    Dim,
    GivenRoutes,
    Graph,
    NetworkPlan,
    PacketRules,
    RoceRules,
    Shape,
)
from astrarium.errors import StallError
from astrarium.fabric.graph import graph_of
from astrarium.vocab import CommOp

CORE = pytest.mark.skipif(not HAVE_CORE, reason="no compiled core here")
ENGINES = pytest.mark.parametrize("pure", [pytest.param(False, marks=CORE, id="core"), pytest.param(True, id="pure")])
LINK = Changing.LINK
UP, DOWN = FULL_SPEED, 0
SMALL = PacketRules(size=100)
ROCE = RoceRules(buffer=10**9, alpha=0.001, kmin=200, kmax=2000, pmax=200_000, window=1.0)


def two_ways() -> Graph:
    """NPUs 0 and 1 with two switches between them: links 0 and 1 by the first, 2 and 3 by the second, then back.
    1,000 bytes take 100 ns, a link 100 ns more."""
    ends = [(0, 2), (2, 1), (0, 3), (3, 1), (2, 0), (1, 2), (3, 0), (1, 3)]
    return graph_from(4, [(a, b, 10.0, 100.0) for a, b in ends])


def plan(backend: str, *rows: tuple[int, int, int], sends: int = 1, size: int = 1000, **network: object) -> Plan:
    """Messages from NPU 0 to NPU 1, while links change: (ps, link, factor)."""
    ranks: list[list[Node]] = [[send(1, size, tag=tag) for tag in range(sends)],
                               [recv(0, size, tag=tag) for tag in range(sends)]]
    on = NetworkPlan(backend, (Dim(Shape.SWITCH, 2, 10.0, 100.0),), graph=two_ways(), ecmp=FIRST_LINK,
                     packets=SMALL, **network)    # type: ignore[arg-type]
    made = plan_of(ranks, on, lanes=(sends,) * 5)
    changed = changes_of([(time, LINK, link, factor) for time, link, factor in rows]) if rows else None
    return replace(made, changes=changed)


def run(given_plan: Plan, pure: bool) -> Outcome:
    return execute(given_plan, record=True, fold=False, pure=pure)


def over(outcome: Outcome) -> dict[int, int]:
    """Bytes by link."""
    return dict(zip(outcome.link_number.tolist(), outcome.link_bytes.tolist(), strict=True))


@ENGINES
def test_a_message_that_a_link_loses_goes_the_other_way_as_a_whole(pure: bool) -> None:
    assert run(plan("contention"), pure).makespan == 400_000
    found = run(plan("contention", (50_000, 0, DOWN)), pure)
    assert found.makespan == 450_000
    assert over(found) == {2: 1000, 3: 1000}
    assert run(plan("contention", (50_000, 0, DOWN), (60_000, 0, UP)), pure).makespan == 450_000     # it has gone


@ENGINES
def test_a_message_that_comes_to_a_failed_link_turns_back(pure: bool) -> None:
    found = run(plan("contention", (150_000, 1, DOWN)), pure)
    assert found.makespan == 200_000 + 3 * 200_000
    assert sorted(over(found)) == [0, 2, 3, 4]


@ENGINES
def test_messages_that_wait_for_a_link_leave_it_when_it_fails(pure: bool) -> None:
    """Three messages, 100 ns each: the first is through, the second half, the third waits."""
    found = run(plan("contention", (150_000, 0, DOWN), sends=3), pure)
    assert over(found) == {0: 1000, 1: 1000, 2: 2000, 3: 2000}
    assert found.makespan == 150_000 + 300_000 + 200_000
    back = run(plan("contention", (150_000, 0, DOWN), (1_000_000, 0, UP), sends=3), pure)
    assert back.makespan == found.makespan


@ENGINES
def test_packets_that_a_link_loses_are_sent_again(pure: bool) -> None:
    assert run(plan("packets"), pure).makespan == 310_000
    found = run(plan("packets", (55_000, 0, DOWN)), pure)
    assert found.makespan == 55_000 + 50_000 + 100_000 + 10_000 + 100_000
    assert over(found) == {0: 500, 1: 500, 2: 500, 3: 500}
    assert found.packets is not None
    assert found.packets.lost.tolist() == [100]


@ENGINES
def test_roce_packets_that_a_link_loses_are_sent_again(pure: bool) -> None:
    """Without a window as credits; what was cut waits at the link, and goes the other way."""
    on = plan("packets", (55_000, 0, DOWN))
    on = replace(on, network=replace(on.network, packets=replace(SMALL, transport=replace(ROCE, window=0.0))))
    found = run(on, pure)
    assert found.makespan == 55_000 + 50_000 + 100_000 + 10_000 + 100_000
    assert found.packets is not None
    assert found.packets.lost.tolist() == [100]


@ENGINES
def test_packets_that_are_on_their_way_to_a_failed_link_turn_back(pure: bool) -> None:
    """From 155 ns on nothing goes from the switch to NPU 1: 10 packets left for it or are there."""
    found = run(plan("packets", (155_000, 1, DOWN)), pure)
    assert over(found) == {0: 1000, 1: 400, 2: 600, 3: 600, 4: 600}
    assert found.packets is not None
    assert found.packets.lost.tolist() == [100]


@ENGINES
@pytest.mark.parametrize("backend", ["contention", "packets"])
def test_without_another_way_messages_wait(pure: bool, backend: str) -> None:
    """The link stands still, and goes on: nothing is lost."""
    rows = [(50_000, link, DOWN) for link in (0, 2)]
    usual = run(plan(backend), pure).makespan
    found = run(plan(backend, *rows, *((80_000, link, UP) for link in (0, 2))), pure)
    assert found.makespan == usual + 30_000
    with pytest.raises(StallError, match="link 0 stands still for ever, since 50000 ps"):
        run(plan(backend, *rows), pure)
    later = run(plan(backend, *rows, (90_000, 2, UP)), pure)
    assert over(later)[2] >= 500


@ENGINES
@pytest.mark.parametrize("backend", ["contention", "packets"])
def test_given_routes_count_while_their_links_are_there(pure: bool, backend: str) -> None:
    given_route = GivenRoutes(*(np.array(column, np.int32) for column in ([0, 0], [1, 1], [2, 3])))
    found = run(plan(backend, (1_000, 3, DOWN), (900_000, 3, UP), routes=given_route), pure)
    assert over(found)[1] >= 900
    assert 1 not in over(run(plan(backend, (900_000, 3, DOWN), routes=given_route), pure))


def failing(seed: int) -> Plan:
    """A random plan on a graph, or on that of its dims, of which some cables fail and mostly return."""
    rng, made = random.Random(seed), random_plan(seed)
    dims = made.network.dims
    graph = random_graph(rng, made.npus) if rng.random() < 0.8 else graph_of(dims)
    backend = rng.choice(["contention", "packets"])
    roce = backend == "packets" and rng.random() < 0.4
    if backend == "packets":
        graph = replace(graph, latency=np.maximum(graph.latency, 1.0))
    network = replace(made.network, backend=backend, graph=graph, ecmp=rng.choice([FIRST_LINK, 0, 7]),
                      cut_through=rng.random() < 0.3,
                      packets=PacketRules(rng.choice([100, 1000]), rng.choice([0, 30]),
                                          0 if roce else rng.choice([0, 0, 3000]),
                                          spray=rng.random() < 0.2, transport=ROCE if roce else None))
    made = replace(made, network=network)
    try:
        until = engine.execute(made).makespan
    except StallError:
        until = 10**6
    rows = []
    for link in rng.sample(range(graph.source.size), min(graph.source.size, rng.randint(1, 6))):
        both = [other for other in range(graph.source.size)
                if {graph.source[other], graph.target[other]} == {graph.source[link], graph.target[link]}]
        time = rng.choice([0, rng.randrange(until + 1), until // 2])
        for other in both if rng.random() < 0.8 else [link]:
            rows.append((time, LINK, other, DOWN))
            if rng.random() < 0.9:
                rows.append((time + rng.randrange(1, until + 2), LINK, other, rng.choice([UP, UP // 2])))
    return replace(made, changes=changes_of(rows))


@CORE
@given(st.integers(0, 2**32))
@draws(20)
def test_both_engines(seed: int) -> None:
    made = failing(seed)
    assert_same(made)
    try:
        ours, theirs = run(made, True).packets, run(made, False).packets
    except StallError:
        return
    if ours is not None and theirs is not None:
        for name in ("hops", "lost", "asked", "arrived", "queue", "buffer"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)


@ENGINES
@pytest.mark.parametrize("backend", ["contention", "packets"])
def test_a_collective_goes_round_a_link_that_fails(pure: bool, backend: str) -> None:
    """A ring of six NPUs, one of whose cables fails: its messages take five links the other way round."""
    dims = (Dim(Shape.RING, 6, 10.0, 100.0),)
    graph = graph_of(dims)
    cable = [k for k in range(graph.source.size) if {int(graph.source[k]), int(graph.target[k])} == {2, 3}]
    network = NetworkPlan(backend, dims, graph=graph, ecmp=FIRST_LINK, packets=SMALL)
    made = plan_of([[collective(0)]] * 6, network, collectives=[native_collective("ring", CommOp.ALL_REDUCE, 6, 6000)])
    usual = run(made, pure)
    assert usual.makespan == run(replace(made, network=replace(network, graph=None)), pure).makespan
    found = run(replace(made, changes=changes_of([(usual.makespan // 3, LINK, link, DOWN) for link in cable])), pure)
    assert found.makespan > usual.makespan
    against = next(k for k in cable if graph.source[k] == 3)
    assert set(over(found)) == set(range(graph.source.size)) - {against}
