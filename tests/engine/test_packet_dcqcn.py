"""DCQCN: one flow's rate by hand; several flows at the fixed point of the equations of Zhu et al., SIGCOMM 2015."""

from __future__ import annotations

import math
import random
from collections import deque

import pytest
from tests.engine.dcqcn_fluid import Fluid
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


@pytest.mark.parametrize("flows", [4, 8])
def test_cnps_that_are_put_off_make_the_fixed_point(flows: int) -> None:
    """With the fixed point's marks a flow has its part of the link; where the destination forgets the marks that come
    within the interval after a CNP, it has more."""
    share = Fluid(RULES, flows, 5.0, PACKET).point().marks
    assert mean_rate(share, forget=False) == pytest.approx(5.0 / flows, rel=0.03)
    assert mean_rate(share, forget=True) > 1.08 * 5.0 / flows
