"""DCQCN: one flow's rate by hand; several flows at the fixed point of the fluid model where it is stable, and not
where it is not."""

from __future__ import annotations

import math
import random
from collections import deque

import numpy as np
import pytest
from msgspec.structs import replace
from tests.engine.dcqcn_fluid import Fluid
from tests.plans.hand import plan_of, recv, send

from astrarium import engine
from astrarium.engine.outcome import PacketCounts
from astrarium.engine.plan import Dim, NetworkPlan, PacketRules, RoceRules, Shape
from astrarium.oracle.dcqcn import Rate

RULES = RoceRules()
PACKET = 1000


def test_a_cut_halves_and_recovery_halves_the_gap() -> None:
    rate = Rate(5.0, 5.0, 5.0)
    rate.cut(RULES, 0)
    assert (rate.current, rate.target, rate.alpha) == (2.5, 5.0, 1.0)
    rate.catch_up(RULES, 5 * RULES.rate_timer)
    assert rate.current == 5.0 - 2.5 / 2**5
    assert rate.alpha == pytest.approx((1 - RULES.gain)**5)
    rate.cut(RULES, 5 * RULES.rate_timer)
    before = rate.current
    assert rate.target == 5.0 - 2.5 / 2**5
    rate.catch_up(RULES, 10 * RULES.rate_timer)
    assert rate.target == 5.0 - 2.5 / 2**5       # fast recovery does not move it
    rate.catch_up(RULES, 11 * RULES.rate_timer)
    assert rate.target == 5.0 - 2.5 / 2**5 + RULES.additive
    assert rate.current > before


def test_bytes_count_as_timers_do() -> None:
    rate = Rate(5.0, 5.0, 5.0)
    rate.cut(RULES, 0)
    rate.sent(RULES, RULES.byte_counter - 1)
    assert rate.current == 2.5
    rate.sent(RULES, 1)
    assert rate.current == 3.75


def test_hyper_increase_follows_recovery_by_time_and_by_bytes() -> None:
    """`recovery` increases by the one alone make additive ones; by both, hyper ones."""
    rules = replace(RULES, hyper=0.05)
    rate = Rate(5.0, 5.0, 5.0)
    for _ in range(6):
        rate.cut(rules, 0)
    start = rate.target
    rate.catch_up(rules, 6 * rules.rate_timer)
    assert rate.target == start + rules.additive
    for _ in range(5):
        rate.sent(rules, rules.byte_counter)
    assert rate.target == pytest.approx(start + 6 * rules.additive)
    rate.sent(rules, rules.byte_counter)
    assert rate.target == pytest.approx(start + 6 * rules.additive + rules.hyper)


def test_without_a_byte_counter_one_additive_increase_comes_first() -> None:
    """Stages of the HPCC authors' simulator with FAST_RECOVERY_TIMES 1: fast, additive, hyper."""
    rules = replace(RULES, byte_counter=0, recovery=1, hyper=0.05)
    rate = Rate(5.0, 5.0, 5.0)
    for _ in range(3):
        rate.cut(rules, 0)
    rate.sent(rules, 10**9)
    targets = []
    for count in (1, 2, 3, 4):
        rate.catch_up(rules, count * rules.rate_timer)
        targets.append(rate.target)
    assert np.diff(targets) == pytest.approx([rules.additive, 0.05, 0.05])


def test_the_target_stays_where_only_increases_let_cuts_lower_it() -> None:
    for clamp, target in (True, 2.5), (False, 5.0):
        rules = replace(RULES, clamp=clamp)
        rate = Rate(5.0, 5.0, 5.0)
        rate.cut(rules, 0)
        rate.cut(rules, 1)
        assert rate.target == target
        rate.catch_up(rules, 1 + rules.rate_timer)
        lower = rate.current
        rate.cut(rules, 2 + rules.rate_timer)
        assert rate.target == lower


def test_a_flow_that_was_idle_for_long_is_at_its_line() -> None:
    """A second of 1 us timers: alpha is 0, the next cut costs nothing, and catching up took some thousand steps."""
    rules = replace(RULES, alpha_timer=1_000_000, additive=0.5)
    rate = Rate(5.0, 5.0, 5.0)
    rate.cut(rules, 0)
    rate.catch_up(rules, 10**12)
    assert (rate.limited, rate.alpha, rate.now) == (False, 0.0, 5.0)
    assert rate.alpha_at < 10**10
    rate.cut(rules, 10**12)
    assert rate.current == 5.0


def mean_rate(share: float, forget: bool, seconds: float = 1.0) -> float:
    """Bytes/ns of a flow whose packets are marked with the same chance, each by itself."""
    rng, rate, now, sent, cnps = random.Random(5), Rate(5.0, 1.5, 1.5, 0.1), 0, 0, deque[int]()
    rate.limited, rate.alpha_at, rate.rate_at = True, RULES.alpha_timer, RULES.rate_timer
    notified, put_off, end = -RULES.cnp_interval, False, round(seconds * 1e12)
    scale, begin = math.log1p(-share), end // 10
    left = int(math.log(rng.random()) / scale) + 1
    while now < end:
        while cnps and cnps[0] <= now:
            rate.cut(RULES, cnps.popleft())
        rate.catch_up(RULES, now)
        rate.sent(RULES, PACKET)
        now += round(PACKET / rate.current * 1000)
        sent += PACKET * (now > begin)
        if put_off and now >= notified + RULES.cnp_interval:
            notified, put_off = notified + RULES.cnp_interval, False
            cnps.append(notified)
        left -= 1
        if left:
            continue
        left = int(math.log(rng.random()) / scale) + 1
        if now - notified >= RULES.cnp_interval:
            notified = now
            cnps.append(now)
        else:
            put_off = not forget
    return sent / (end - begin) * 1000


@pytest.mark.parametrize("flows", [4, pytest.param(8, marks=pytest.mark.exam)])
def test_cnps_that_are_put_off_make_the_fixed_point(flows: int) -> None:
    """With the fixed point's marks a flow has its part of the link; where the destination forgets the marks that come
    within the interval after a CNP, it has more."""
    share = Fluid(RULES, flows, 5.0, PACKET).point().marks
    assert mean_rate(share, forget=False) == pytest.approx(5.0 / flows, rel=0.03)
    assert mean_rate(share, forget=True) > 1.08 * 5.0 / flows


needs_core = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here: a million packet-hops")
LINE, LATENCY = 5.0, 1000.0         # bytes/ns: 40 Gb/s; ns
# A quarter of the additive step, and room above the queue of the fixed point: the same slope of marks up to twice kmax.
CALM = replace(RULES, kmax=2 * RULES.kmax, pmax=2 * RULES.pmax, additive=RULES.additive / 4)


def together(flows: int, rules: RoceRules, ms: int) -> tuple[PacketCounts, int, int]:
    """So many NPUs send to another one: what was measured, bytes, and the end in ps."""
    size = int(LINE * ms * 1e6 / flows)
    ranks = [[recv(npu, size) for npu in range(1, flows + 1)]] + [[send(0, size)]] * flows
    network = NetworkPlan("packets", (Dim(Shape.SWITCH, flows + 1, LINE, LATENCY),),
                          packets=PacketRules(PACKET, transport=rules, queues=True))
    outcome = engine.execute(plan_of(ranks, network), record=True, fold=False)
    assert outcome.packets is not None
    return outcome.packets, size * flows, outcome.makespan


def marks(flows: int, rules: RoceRules) -> float:
    """Share of marked packets over the fixed point's, between 60 and 180 ms: the start, at line rate, is not in the
    equations. Flows must have equal parts of the link, and it be used."""
    (first, before, begin), (counts, after, end) = (together(flows, rules, ms) for ms in (60, 180))
    assert (after - before) / LINE * 1000 / (end - begin) == pytest.approx(1, abs=0.1)
    assert counts.arrived.min() / counts.arrived.max() > 0.85
    share = (int(counts.marks.sum()) - int(first.marks.sum())) / ((after - before) / PACKET)
    return share / Fluid(rules, flows, LINE, PACKET).point().marks


def growth(flows: int, rules: RoceRules) -> float:
    """Of the fluid model, in which a CNP is late by the queue, four links, and the interval that may put it off."""
    fluid = Fluid(rules, flows, LINE, PACKET)
    return fluid.growth((fluid.point().queue / LINE + 4 * LATENCY) * 1e-9 + rules.cnp_interval * 1e-12)


@needs_core
@pytest.mark.parametrize(("flows", "rules"), [(2, RULES), (4, RULES), *(
    pytest.param(flows, CALM, marks=pytest.mark.exam) for flows in (2, 4, 8, 16))])
def test_flows_settle_at_the_fixed_point_where_it_is_stable(flows: int, rules: RoceRules) -> None:
    """Within 15 % of its marks: these come in bunches, in the equations each by itself."""
    assert growth(flows, rules) < -20
    assert marks(flows, rules) == pytest.approx(1, abs=0.15)


@needs_core
def test_queues_swing_to_where_all_are_marked_where_the_fixed_point_is_not_stable() -> None:
    """Eight flows with the paper's rules: the model's swings grow, and end where every packet is marked. The same slope
    of marks with no such end within reach brings their mean back to the fixed point."""
    assert growth(8, RULES) > 20
    assert marks(8, RULES) > 2
    assert marks(8, replace(RULES, kmax=2 * RULES.kmax, pmax=2 * RULES.pmax)) == pytest.approx(1, abs=0.15)


@needs_core
def test_without_a_fixed_point_below_kmax_the_queue_goes_up_and_down() -> None:
    """Sixteen flows with the paper's rules need more marks than pmax, and above kmax all are marked."""
    assert Fluid(RULES, 16, LINE, PACKET).point().queue > RULES.kmax
    counts, _, end = together(16, RULES, 60)
    queue = counts.longest[end // counts.width // 3:end // counts.width - 4]
    assert queue.min() < 2 * RULES.kmin
    assert queue.max() > RULES.kmax
    turns = np.flatnonzero(np.diff((queue > queue.mean()).astype(int)))
    assert turns.size > 10
