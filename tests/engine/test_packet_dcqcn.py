"""DCQCN: one flow's rate by hand; several flows at the fixed point of the equations of Zhu et al., SIGCOMM 2015."""

from __future__ import annotations

import pytest
from tests.plans.hand import plan_of, recv, send

from astrarium import engine
from astrarium.engine.plan import Dim, NetworkPlan, PacketRules, RoceRules, Shape
from astrarium.engine.reference.packet_dcqcn import Rate

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


def fixed_point(flows: int, line: float) -> float:
    """The share of marked packets at which the fluid model's rates stand still, each flow with its part of the link."""
    rate = line / flows / PACKET * 1e9      # packets per second
    count, timer = RULES.byte_counter / PACKET, RULES.rate_timer * 1e-12 * rate
    notify, slow = RULES.cnp_interval * 1e-12, RULES.alpha_timer * 1e-12
    step = RULES.additive / PACKET * 1e9

    def rises(p: float) -> float:
        """The change of the target rate, with the gap at which the current rate does not change."""
        alpha, cut = 1 - (1 - p)**(slow * rate), 1 - (1 - p)**(notify * rate)
        by_bytes, by_time = (p / ((1 - p)**-events - 1) for events in (count, timer))
        gap = alpha * cut / notify / (by_bytes + by_time)
        more = (1 - p)**(RULES.recovery * count) * by_bytes + (1 - p)**(RULES.recovery * timer) * by_time
        return step * rate * more - gap * cut / notify

    low, high = 1e-8, 0.02
    for _ in range(100):
        middle = (low * high)**0.5
        low, high = (middle, high) if rises(middle) > 0 else (low, middle)
    return low


@pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here: two million packet-hops")
@pytest.mark.parametrize("flows", [2, 4])
def test_flows_settle_at_the_fixed_point(flows: int) -> None:
    """Marks between 60 and 180 ms: the start, at line rate, is not in the equations. Marks come in bunches, of which a
    CNP tells of one: packets see up to half more of them than the equations, which count marks that act."""
    seen = []
    for ms in 60, 180:
        size = int(5.0 * ms * 1e6 / flows)
        ranks = [[recv(npu, size) for npu in range(1, flows + 1)]] + [[send(0, size)]] * flows
        network = NetworkPlan("packets", (Dim(Shape.SWITCH, flows + 1, 5.0, 1000.0),),
                              packets=PacketRules(PACKET, roce=RULES))
        outcome = engine.execute(plan_of(ranks, network), record=True, fold=False)
        assert outcome.packets is not None
        seen.append((int(outcome.packets.marks.sum()), size * flows, outcome.makespan, outcome.packets.arrived))
    marked = (seen[1][0] - seen[0][0]) / ((seen[1][1] - seen[0][1]) / PACKET)
    assert 1 <= marked / fixed_point(flows, 5.0) < 1.6
    assert (seen[1][1] - seen[0][1]) / 5.0 * 1000 / (seen[1][2] - seen[0][2]) == pytest.approx(1, abs=0.03)
    assert seen[1][3].min() / seen[1][3].max() > 0.9        # in equal parts
