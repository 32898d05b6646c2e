"""The rate of a flow: the reaction point of DCQCN (Zhu et al., SIGCOMM 2015)."""

from __future__ import annotations

from msgspec import Struct

from astrarium.engine.plan import RoceRules
from astrarium.oracle.clock import NEVER

__all__ = ["Rate"]

NO_ALPHA = 1e-6     # less counts as 0: idle flows are caught up in few steps


class Rate(Struct):
    """The rate of a flow, bytes per ns. Timers are caught up when the flow sends."""

    line: float
    current: float
    target: float
    alpha: float = 1.0
    alpha_at: int = NEVER       # when their timers are over, ps
    rate_at: int = NEVER
    timers: int = 0             # increases since the last cut
    counts: int = 0
    bytes: int = 0              # since the last increase by bytes
    limited: bool = False       # below the line's

    def cut(self, rules: RoceRules, now: int) -> None:
        """A CNP has come."""
        self.catch_up(rules, now)
        if not self.limited:
            self.current = self.target = self.line
        if rules.clamp or self.timers + self.counts:
            self.target = self.current
        self.current = max(self.current * (1 - self.alpha / 2), rules.least)
        self.alpha = (1 - rules.gain) * self.alpha + rules.gain
        self.alpha_at, self.rate_at = now + rules.alpha_timer, now + rules.rate_timer
        self.timers = self.counts = self.bytes = 0
        self.limited = True

    def catch_up(self, rules: RoceRules, now: int) -> None:
        """What the timers did until now."""
        while self.alpha_at <= now and self.alpha:
            self.alpha = 0.0 if self.alpha < NO_ALPHA else (1 - rules.gain) * self.alpha
            self.alpha_at += rules.alpha_timer
        while self.limited and self.rate_at <= now:
            self.timers += 1
            self._increase(rules)
            self.rate_at += rules.rate_timer

    def sent(self, rules: RoceRules, size: int) -> None:
        """A packet has begun to leave."""
        if not self.limited or not rules.byte_counter:
            return
        self.bytes += size
        if self.bytes >= rules.byte_counter:
            self.bytes -= rules.byte_counter
            self.counts += 1
            self._increase(rules)

    @property
    def now(self) -> float:
        """The rate."""
        return self.current if self.limited else self.line

    def _increases_fast(self, rules: RoceRules) -> bool:
        """Without a byte counter one additive increase comes before hyper ones, as in the HPCC authors' simulator."""
        if not rules.hyper:
            return False
        return min(self.timers, self.counts) > rules.recovery if rules.byte_counter else (
            self.timers > rules.recovery + 1)

    def _increase(self, rules: RoceRules) -> None:
        if max(self.timers, self.counts) > rules.recovery:
            step = rules.hyper if self._increases_fast(rules) else rules.additive
            self.target = min(self.target + step, self.line)
        self.current = (self.current + self.target) / 2
        if self.target >= self.line and self.current >= 0.999999 * self.line:
            self.limited = False
