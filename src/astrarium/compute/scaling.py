"""Clock and power of an NPU: dynamic voltage and frequency scaling, and a power cap.

    P(f) = P_static + (P_0 - P_static) (V(f) / V_0)^2 f / f_0

with P_0 at the nominal clock f_0 under full load; the second term is C V^2 f of CMOS logic (A. P. Chandrakasan et al.,
"Low-power CMOS digital design", IEEE JSSC 27(4), 1992). V(f) / V_0 is `lowest_voltage` up to the clock `knee`, and
rises from there to 1 at f_0 in a straight line: below the knee the voltage cannot fall further. What computes takes
f_0 / f times as long; what waits for memory takes as long as before. Of a power cap follows the highest clock that
keeps to it under full load.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from astrarium.config import Config, Knob, Problem, default
from astrarium.units import Frequency, OptionalFrequency, OptionalPower, Power

__all__ = ["Scaling"]

STEPS = 60      # bisections: to the last bit of a clock


def _clocks(scaling: Scaling) -> Iterable[Problem]:
    for name in ("clock", "lowest", "knee"):
        value = getattr(scaling, name)
        if value is not None and value > scaling.nominal:
            yield Problem(name, f"is above the nominal clock of {Frequency.of(scaling.nominal)}", "at most that")
    if scaling.clock is not None and scaling.clock < scaling.lowest:
        yield Problem("clock", f"is below the lowest clock of {Frequency.of(scaling.lowest)}", "at least that")
    if scaling.lowest_voltage > 1:
        yield Problem("lowest_voltage", f"{scaling.lowest_voltage} is above the nominal voltage", "above 0, at most 1")


class Scaling(Config, frozen=True, kw_only=True):
    """The clock of an NPU, and its power at that clock."""

    rules = (_clocks,)
    nominal: Annotated[Frequency, Knob("Clock at which peak and power are said.", gt=0)]
    static_power: Annotated[Power, Knob("Power that does not depend on the clock.")]
    knee: Annotated[Frequency, Knob("Clock up to which the voltage is the lowest one.")]
    lowest_voltage: Annotated[float, Knob("The lowest voltage, as a share of that at the nominal clock.", gt=0)]
    lowest: Annotated[Frequency, Knob("Lowest clock.", gt=0)]
    clock: Annotated[OptionalFrequency, Knob("Clock that it runs at; left out: the nominal one.", gt=0)] = default(None)
    power_cap: Annotated[OptionalPower, Knob("Power that it may not exceed: lowers the clock; left out: none.", gt=0)
                         ] = default(None)

    def voltage(self, clock: float) -> float:
        """Voltage at a clock (cycle/ns), as a share of that at the nominal one."""
        if clock <= self.knee or self.knee >= self.nominal:
            return self.lowest_voltage if clock < self.nominal else 1.0
        return self.lowest_voltage + (1 - self.lowest_voltage) * (clock - self.knee) / (self.nominal - self.knee)

    def power_at(self, clock: float, power: float) -> float:
        """Power at a clock (cycle/ns) under full load, W; `power` is that at the nominal clock."""
        return self.static_power + (power - self.static_power) * self.voltage(clock) ** 2 * clock / self.nominal

    def least(self, power: float) -> float:
        """Power at the lowest clock, W."""
        return self.power_at(self.lowest, power)

    def runs_at(self, power: float) -> float:
        """The clock, cycle/ns: the field, or the highest one below it within the power cap."""
        high = self.nominal if self.clock is None else self.clock
        if self.power_cap is None or self.power_at(high, power) <= self.power_cap:
            return high
        low = self.lowest
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.power_at(middle, power) <= self.power_cap else (low, middle)
        return low

    def share(self, power: float) -> float:
        """The clock over the nominal one."""
        return self.runs_at(power) / self.nominal

    def drawn(self, power: float) -> float:
        """Power under full load at the clock, W."""
        return self.power_at(self.runs_at(power), power)
