"""Speeds that change: both engines, closed forms, what changes nothing, what stands still for ever, what is refused."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws
from tests.oracle.test_same_integers import assert_same
from tests.plans.changes import Change, changes_of, random_changes
from tests.plans.draw import random_plan
from tests.plans.graphs import random_graph
from tests.plans.hand import Node, collective, delay, native_collective, plan_of, recv, send

from astrarium import engine
from astrarium.engine import HAVE_CORE, Outcome, Plan, execute
from astrarium.engine.plan import FULL_SPEED, Backend, Changes, Changing, Dim, Lane, NetworkPlan, Order, Policy, Shape
from astrarium.errors import InternalError, StallError, UnsupportedError
from astrarium.fabric.graph import graph_of
from astrarium.oracle.clock import NEVER, Rates
from astrarium.vocab import CommOp

from .test_core_hostile import answers, corrupt

CORE = pytest.mark.skipif(not HAVE_CORE, reason="no compiled core here")
ENGINES = pytest.mark.parametrize("pure", [pytest.param(False, marks=CORE, id="core"), pytest.param(True, id="pure")])
SEEDS = st.integers(0, 2**32 - 1)
FACTORS = (0, 1, 250_000, 333_333, 500_000, FULL_SPEED)
HALF = FULL_SPEED // 2
NPU, LINK = Changing.NPU, Changing.LINK
PAIR = (Dim(Shape.RING_ONE_WAY, 2, 10.0, 100.0),)       # link 0: 0 to 1; 100 ps a byte... of 10 bytes
MEDIA = ("contention", "fluid", Backend.PORTS)


def run(plan: Plan, pure: bool = False) -> Outcome:
    return execute(plan, record=True, fold=False, pure=pure)


def changing(plan: Plan, *rows: Change) -> Plan:
    return replace(plan, changes=changes_of(rows))


def drawn(seed: int, factors: tuple[int, ...]) -> Plan:
    """A random plan on dims or a graph, with changes of whatever may change there."""
    rng, plan = random.Random(seed), random_plan(seed)
    network = replace(plan.network, backend=rng.choice(MEDIA), cut_through=rng.random() < 0.3)
    links = 0 if network.backend == Backend.PORTS else graph_of(network.dims).source.size
    if links and rng.random() < 0.3:
        network = replace(network, graph=random_graph(rng, plan.npus))
        links = network.graph.source.size
    plan = replace(plan, network=network)
    makespan = engine.execute(plan).makespan
    return replace(plan, changes=random_changes(rng, plan.npus, links, makespan, factors))


# --- the value


def by_hand(steps: list[tuple[int, int]], start: int, work: int) -> int:
    """The first whole ps at which the work is done; NEVER where there is none before 10^7."""
    if not work:
        return start
    done, now = Fraction(0), start
    while done < work:
        speed = next((factor for time, factor in reversed(steps) if time <= now), FULL_SPEED)
        done, now = done + Fraction(speed, FULL_SPEED), now + 1
        if speed == 0 and now > steps[-1][0]:
            return NEVER
    return now


@given(st.lists(st.tuples(st.integers(0, 60), st.sampled_from((0, 300_000, 333_333, HALF, FULL_SPEED))), max_size=5),
       st.integers(0, 70), st.integers(0, 50))
def test_an_end_is_the_first_ps_at_which_the_work_is_done(steps: list[tuple[int, int]], start: int, work: int) -> None:
    steps.sort(key=lambda step: step[0])
    rates = Rates({"it": ([time for time, _ in steps], [factor for _, factor in steps])})
    assert rates.finish("it", start, work) == by_hand(steps, start, work)


@CORE
@given(st.lists(st.tuples(st.integers(0, 2**40), st.sampled_from(FACTORS)), min_size=1, max_size=6),
       st.integers(0, 2**40), st.integers(0, 2**50))
def test_the_core_finds_the_same_ends(steps: list[tuple[int, int]], start: int, work: int) -> None:
    plan = plan_of([[delay(start, lane=Lane.CPU), delay(work, 0, lane=Lane.COMPUTE)], []], NetworkPlan("fluid", PAIR))
    assert_same(changing(plan, *((time, NPU, 0, factor) for time, factor in steps)))


# --- both engines, and what changes nothing


@CORE
@given(SEEDS)
@draws(60)
def test_both_engines(seed: int) -> None:
    plan = drawn(seed, FACTORS)
    assert_same(plan)
    said = []
    for pure in (False, True):
        try:
            run(plan, pure)
        except StallError as error:
            said.append([wait.text for wait in error.waits if "stands still" in wait.text])
    assert len(said) in (0, 2)
    assert not said or (said[0] and sorted(said[0]) == sorted(said[1]))


@ENGINES
@given(seed=SEEDS)
@draws(20)
def test_full_speed_changes_nothing(pure: bool, seed: int) -> None:
    plan = drawn(seed, (FULL_SPEED,))
    ours, theirs = run(plan, pure), run(replace(plan, changes=None), pure)
    for name in ("finish", "busy", "start", "end", "link_bytes", "link_busy", "use_width", "use_busy"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)


@CORE
@given(SEEDS)
@draws(20)
def test_flows_carry_all_bytes_and_nothing_is_busy_all_the_time(seed: int) -> None:
    plan = drawn(seed, (1000, 250_000, HALF))
    plan = replace(plan, network=replace(plan.network, backend="fluid"))
    ours, theirs = run(plan), run(replace(plan, changes=None))
    np.testing.assert_array_equal(ours.link_bytes, theirs.link_bytes)
    assert (ours.link_busy <= ours.makespan).all()
    messages = int(ours.link_bytes.size) + 10_000
    leaves = (ours.link_from >= 0) & (ours.link_from < plan.npus)
    assert abs(int(ours.use_busy.sum()) - int(ours.link_busy[leaves].sum())) <= messages * len(plan.network.dims)


@CORE
def test_a_change_of_dims_finds_its_link() -> None:
    """The number is that of the graph of the dims: a message over that link takes longer."""
    dims = (Dim(Shape.RING, 3, 10.0, 0.0), Dim(Shape.SWITCH, 2, 10.0, 0.0), Dim(Shape.MESH, 2, 10.0, 0.0),
            Dim(Shape.HYPERCUBE, 4, 10.0, 0.0), Dim(Shape.FULLY_CONNECTED, 3, 10.0, 0.0))
    graph = graph_of(dims)
    for link in random.Random(1).sample(range(graph.source.size), 60):
        source, target = int(graph.source[link]), int(graph.target[link])
        a = source if source < 144 else next(int(s) for s in graph.source[graph.target == source] if s != target)
        b = target if target < 144 else next(int(t) for t in graph.target[graph.source == target] if t != source)
        ranks: list[list[Node]] = [[] for _ in range(144)]
        ranks[a], ranks[b] = [send(b, 1000)], [recv(a, 1000)]
        for backend in "contention", "fluid":
            plan = plan_of(ranks, NetworkPlan(backend, dims))
            later = run(changing(plan, (0, LINK, link, HALF))).makespan - run(plan).makespan
            assert abs(later - 100_000) <= (backend == "fluid"), (link, source, target)


# --- closed forms


@ENGINES
def test_a_straggler_at_half_speed_from_some_time_on(pure: bool) -> None:
    ranks = [[delay(1000), delay(1000, 0), delay(1000, lane=Lane.CPU)]] * 2
    outcome = run(changing(plan_of(ranks, NetworkPlan(Backend.PORTS, PAIR)), (600, NPU, 1, HALF)), pure)
    assert outcome.finish.tolist() == [2000, 600 + 2 * 1400]
    assert outcome.busy.tolist() == [2000, 3400]
    assert outcome.end.reshape(2, 3)[:, 2].tolist() == [1000, 1000]     # other lanes do not change


@ENGINES
def test_an_npu_that_stands_still_for_a_while(pure: bool) -> None:
    plan = plan_of([[delay(1000), delay(0, 0)], []], NetworkPlan(Backend.PORTS, PAIR))
    outcome = run(changing(plan, (400, NPU, 0, 0), (5000, NPU, 0, 300_000), (5000, NPU, 0, 600_000)), pure)
    assert outcome.finish.tolist() == [5000 + 1000, 0]


@ENGINES
@pytest.mark.parametrize("backend", ["contention", "fluid"])
def test_a_link_at_half_speed_for_an_interval(pure: bool, backend: str) -> None:
    """1,000 bytes take 100 ns; 40 of them lie in 80 ns of half speed."""
    plan = plan_of([[send(1, 1000)], [recv(0, 1000)]], NetworkPlan(backend, PAIR))
    outcome = run(changing(plan, (20_000, LINK, 0, HALF), (100_000, LINK, 0, FULL_SPEED)), pure)
    assert 0 <= outcome.makespan - (100_000 + 40_000 + 100_000) <= (backend == "fluid")     # rates are rounded down
    assert outcome.link_busy.tolist() == [140_000 if backend == "contention" else 99_999]


@ENGINES
@pytest.mark.parametrize("factor", [0, HALF])
def test_sends_that_queue_at_a_link_that_changes(pure: bool, factor: int) -> None:
    """Turns were equal steps of 10 ns: from 35 ns on, for 40 ns, they are not."""
    ring = native_collective("direct", CommOp.ALL_TO_ALL, 9, 900)
    plan = plan_of([[collective(0)]] * 9, NetworkPlan("contention", (Dim(Shape.SWITCH, 9, 10.0, 0.0),)),
                   collectives=[ring])
    assert run(plan, pure).makespan == 90_000
    changed = changing(plan, *((time, LINK, npu, speed) for npu in range(9)
                               for time, speed in ((35_000, factor), (75_000, FULL_SPEED))))
    lost = 40_000 * (FULL_SPEED - factor) // FULL_SPEED
    assert run(changed, pure).makespan == 90_000 + lost


@ENGINES
def test_flows_share_what_is_left_of_a_link(pure: bool) -> None:
    """Two flows share a link of 10 B/ns, which stands still from 50 to 100 ns; a third one has its own."""
    network = NetworkPlan("fluid", (Dim(Shape.SWITCH, 4, 10.0, 0.0),))
    plan = plan_of([[recv(1, 500), recv(2, 500)], [send(0, 500)], [send(0, 500), send(3, 0)], [recv(2, 0)]], network)
    down = int(np.flatnonzero(graph_of(network.dims).target == 0)[0])
    outcome = run(changing(plan, (50_000, LINK, down, 0), (100_000, LINK, down, FULL_SPEED)), pure)
    assert outcome.finish.tolist()[:2] == [150_001, 150_001]    # rates are rounded down


# --- what stands still for ever


def stall(plan: Plan, pure: bool) -> str:
    with pytest.raises(StallError) as caught:
        run(plan, pure)
    return "\n".join(wait.text for wait in caught.value.waits)


@ENGINES
def test_an_npu_that_stands_still_for_ever(pure: bool) -> None:
    plan = plan_of([[delay(1000)], [delay(1000)]], NetworkPlan(Backend.PORTS, PAIR))
    assert "NPU 1 stands still for ever, since 999 ps" in stall(changing(plan, (999, NPU, 1, 0)), pure)
    assert run(changing(plan, (1000, NPU, 1, 0)), pure).finish.tolist() == [1000, 1000]      # nobody needs it


@ENGINES
@pytest.mark.parametrize("network", [NetworkPlan("contention", PAIR), NetworkPlan("contention", PAIR, cut_through=True),
                                     NetworkPlan("fluid", PAIR)], ids=["stored", "cut through", "fluid"])
def test_a_link_that_stands_still_for_ever(pure: bool, network: NetworkPlan) -> None:
    plan = plan_of([[send(1, 1000), send(1, 10, tag=1)], [recv(0, 1000), recv(0, 10, tag=1)]], network, lanes=(2,) * 5)
    said = stall(changing(plan, (50_000, LINK, 0, HALF), (60_000, LINK, 0, 0), (70_000, LINK, 0, 0)), pure)
    assert "link 0 stands still for ever, since 60000 ps" in said
    assert "link 1" not in stall(changing(plan, (60_000, LINK, 0, 0), (0, LINK, 1, 0)), pure)
    assert run(changing(plan, (0, LINK, 1, 0)), pure).makespan == run(plan, pure).makespan


@ENGINES
def test_a_collective_over_a_link_that_stands_still(pure: bool) -> None:
    plan = plan_of([[collective(0)]] * 9, NetworkPlan("contention", (Dim(Shape.SWITCH, 9, 10.0, 0.0),)),
                   collectives=[native_collective("direct", CommOp.ALL_TO_ALL, 9, 900)])
    assert "link 4 stands still" in stall(changing(plan, (35_000, LINK, 4, 0)), pure)


# --- refusals

BAD: dict[str, tuple[Change, str]] = {
    "an NPU too many": ((0, NPU, 2, HALF), "change 1: there is no NPU 2"),
    "a negative link": ((0, LINK, -1, HALF), "change 1: there is no link -1"),
    "a link too many": ((0, LINK, 2, HALF), "change 1: there is no link 2"),
    "a time below 0": ((-1, NPU, 0, HALF), "change 1: its time is below 0"),
    "a factor below 0": ((0, NPU, 0, -1), "change 1: its factor is not from 0"),
    "more than full speed": ((0, NPU, 0, FULL_SPEED + 1), "change 1: its factor is not from 0"),
    "neither": ((0, 2, 0, HALF), "change 1: of neither"),  # type: ignore[dict-item]
}


@CORE
@pytest.mark.parametrize("what", BAD)
def test_changes_that_cannot_be(what: str) -> None:
    row, why = BAD[what]
    with pytest.raises(UnsupportedError, match=why):
        execute(changing(plan_of([[], []], NetworkPlan("fluid", PAIR)), (0, NPU, 0, HALF), row))


@CORE
def test_who_does_not_know_changes() -> None:
    plan = plan_of([[delay(10)], []], NetworkPlan(Backend.PORTS, PAIR))
    for pure, why in ((False, "change 0: closed_form has no links of its own"), (True, "nor links that change")):
        with pytest.raises(UnsupportedError, match=why):
            execute(changing(plan, (0, LINK, 0, HALF)), pure=pure)
    astra = plan_of([[delay(1000)], []], NetworkPlan(Backend.LINKS, (Dim(Shape.RING, 2, 1.0, 0.0),), whole_ns=True),
                    policy=Policy(order=Order.ASTRA_SIM))
    with pytest.raises(UnsupportedError, match="changes while it runs, under ASTRA-sim's rule book"):
        execute(changing(astra, (0, NPU, 0, HALF)))
    broken = replace(changes_of([(0, NPU, 0, HALF)]), number=np.zeros(2, np.int32))
    with pytest.raises(InternalError, match="changes differ in length"):
        execute(replace(plan, changes=broken))


@CORE
@given(seed=SEEDS, times=st.integers(1, 2))
@draws(20)
def test_corrupted_changes(seed: int, times: int) -> None:
    rng, plan = random.Random(seed), drawn(seed, FACTORS)
    changes: Any = plan.changes
    for _ in range(times):
        changes = corrupt(rng, changes)
        if not isinstance(changes, Changes):
            return
    answers(replace(plan, changes=changes))


@CORE
def test_nothing_folds_and_no_period_is_skipped() -> None:
    layers = [node for layer in range(40) for node in
              (delay(1000, *([2 * layer - 1] if layer else [])), collective(0, 2 * layer))]
    plan = plan_of([layers] * 4, NetworkPlan("contention", (Dim(Shape.RING, 4, 10.0, 0.0),)),
                   collectives=[native_collective("ring", CommOp.ALL_REDUCE, 4, 400)])
    plan = changing(plan, (1_000_000, NPU, 2, HALF))
    folded = engine.execute(plan)
    assert folded.unfolded_because == "speeds that change while it runs"
    assert folded.makespan == run(plan, pure=True).makespan > engine.execute(replace(plan, changes=None)).makespan
