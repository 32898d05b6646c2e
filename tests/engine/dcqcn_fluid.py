"""The fluid model of DCQCN (Zhu et al., ECN or Delay, CoNEXT 2016, section 3): its fixed point and where it is stable.

N equal flows share a link of C packets/s. With p the share of packets that are marked, R_C and R_T current and target
rate (packets/s), tau the CNP interval, tau' the interval of alpha, T that of the rate, B packets of the byte counter, F
increases of fast recovery, and everything that a CNP tells a delay late:

    dq/dt = N R_C - C
    d alpha/dt = g / tau' (1 - (1 - p)^(tau' R_C) - alpha)
    dR_T/dt = -(R_T - R_C) / tau a + R_AI R_C (c + e)
    dR_C/dt = -R_C alpha / (2 tau) a + (R_T - R_C) / 2 R_C (b + d)
    a = 1 - (1 - p)^(tau R_C), b = p / ((1 - p)^-B - 1), c = (1 - p)^(F B) b, d = p / ((1 - p)^(-T R_C) - 1),
    e = (1 - p)^(F T R_C) d;  p = p_max (q - K_min) / (K_max - K_min)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.engine.plan import RoceRules

__all__ = ["Fluid", "Point"]

F64 = npt.NDArray[np.float64]
MOST = 0.5      # of p, where the fixed point is looked for


class Point(Struct, frozen=True):
    """Where nothing changes: share of marks, queue in bytes, alpha, target and current rate in packets/s."""

    marks: float
    queue: float
    alpha: float
    target: float
    current: float


class Fluid(Struct, frozen=True):
    """`line` in bytes/ns, `packet` in bytes."""

    rules: RoceRules
    flows: int
    line: float
    packet: int

    def point(self) -> Point:
        """By bisection: additive increase against cuts, with the gap between target and rate at which the rate stands
        still."""
        low, high = 1e-9, MOST
        for _ in range(100):
            middle = (low * high)**0.5
            low, high = (middle, high) if self._rises(middle) > 0 else (low, middle)
        rate, rules = self._rate(), self.rules
        queue = rules.kmin + low / (rules.pmax / 1e6) * (rules.kmax - rules.kmin)
        return Point(low, queue, self._alpha(low), rate + self._gap(low), rate)

    def growth(self, delay: float) -> float:
        """1/s of the mode that grows fastest (dies slowest: below 0) near the fixed point, with what a CNP tells
        `delay` seconds late: of the delay equation's generator on Chebyshev nodes (Breda et al., 2005)."""
        order, here = 24, self.point()
        at = np.array([here.queue / self.packet, here.alpha, here.target, here.current])
        now, late = (self._slope(at, which) for which in (0, 1))
        node = np.cos(np.pi * np.arange(order + 1) / order)
        weight = np.array([2.0, *[1.0] * (order - 1), 2.0]) * (-1.0)**np.arange(order + 1)
        slopes = np.outer(weight, 1 / weight) / (node[:, None] - node[None, :] + np.eye(order + 1))
        slopes -= np.diag(slopes.sum(axis=1))
        whole = np.kron(2 / delay * slopes, np.eye(4))
        whole[:4] = 0
        whole[:4, :4], whole[:4, -4:] = now, late
        return float(np.linalg.eigvals(whole).real.max())

    def _rate(self) -> float:
        return self.line / self.flows / self.packet * 1e9

    def _alpha(self, p: float) -> float:
        return float(1 - (1 - p)**(self.rules.alpha_timer * 1e-12 * self._rate()))

    def _events(self, p: float, rate: float) -> tuple[float, float, float, float, float]:
        rules = self.rules
        cut = 1 - (1 - p)**(rules.cnp_interval * 1e-12 * rate)
        count, timer = rules.byte_counter / self.packet, rules.rate_timer * 1e-12 * rate
        by_bytes, by_time = (p / np.expm1(-each * np.log1p(-p)) if each * p < 500 else 0.0 for each in (count, timer))
        return (cut, by_bytes, (1 - p)**(rules.recovery * count) * by_bytes, by_time,
                (1 - p)**(rules.recovery * timer) * by_time)

    def _gap(self, p: float) -> float:
        cut, by_bytes, _, by_time, _ = self._events(p, self._rate())
        return self._alpha(p) * cut / (self.rules.cnp_interval * 1e-12) / (by_bytes + by_time)

    def _rises(self, p: float) -> float:
        cut, _, after_bytes, _, after_time = self._events(p, self._rate())
        step = self.rules.additive / self.packet * 1e9
        return step * self._rate() * (after_bytes + after_time) - self._gap(p) * cut / (self.rules.cnp_interval * 1e-12)

    def _change(self, now: F64, late: F64) -> F64:
        rules = self.rules
        _, alpha, target, current = now
        low, high = rules.kmin / self.packet, rules.kmax / self.packet
        rate = float(late[3])
        p = float(np.clip((late[0] - low) / (high - low) * rules.pmax / 1e6, 1e-12, MOST))
        cut, by_bytes, after_bytes, by_time, after_time = self._events(p, rate)
        tau, slow = rules.cnp_interval * 1e-12, rules.alpha_timer * 1e-12
        return np.array([
            self.flows * current - self.line / self.packet * 1e9,
            rules.gain / slow * (1 - (1 - p)**(slow * rate) - alpha),
            -(target - current) / tau * cut + rules.additive / self.packet * 1e9 * rate * (after_bytes + after_time),
            -current * alpha / (2 * tau) * cut + (target - current) / 2 * rate * (by_bytes + by_time)])

    def _slope(self, at: F64, which: int) -> F64:
        """By the state now (0) or a delay ago (1), [change, state]."""
        found = np.zeros((4, 4))
        for place in range(4):
            step = np.zeros(4)
            step[place] = 1e-5 * at[place]
            up, down = (self._change(*((moved, at) if which == 0 else (at, moved))) for moved in (at + step, at - step))
            found[:, place] = (up - down) / (2 * step[place])
        return found
