"""What a system costs, draws and emits, as an amount that grows with time.

All of these are  a T + b B  with a time T and the mean B over all NPUs of the time for which they compute: rent and the
paying off of what is bought go with T, and so does the power of an NPU that waits and of all that is not an NPU; what
an NPU draws more while it computes goes with B.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from astrarium.cost.capital import capital_cost
from astrarium.cost.power import SitePower, check_site, site_power
from astrarium.cost.rent import rent_per_hour
from astrarium.cost.running import check_hourly
from astrarium.design import Design
from astrarium.errors import InputError

__all__ = ["RATES", "Rate"]

HOUR_NS, KWH_NJ = 3.6e12, 3.6e15


class Rate(Struct, frozen=True):
    """US dollars, kWh or kg of CO2 for a ns of a system, and more for a ns in which all its NPUs compute. `rented`: of
    money, whether NPUs are rented."""

    per_ns: float
    per_busy_ns: float = 0.0
    rented: bool = False

    def value(self, time: float, busy: float) -> float:
        """The amount of `time` ns, of which NPUs compute `busy` ns in the mean."""
        return self.per_ns * time + self.per_busy_ns * busy if self.per_busy_ns else self.per_ns * time


def _cost(design: Design, figure: str) -> Rate:
    check_hourly(design, figure)
    rent = rent_per_hour(design)
    if rent is not None:
        return Rate(rent / HOUR_NS, rented=True)
    cost, power = design.cost, site_power(design)
    used, price = cost.utilisation, (cost.energy_price or 0.0) / KWH_NJ
    base, more = _watts(power)
    fixed = capital_cost(design) / (cost.lifetime or 1.0) / HOUR_NS / used
    return Rate(fixed + price * (base + (1 - used) / used * power.waiting), price * more)


def _watts(power: SitePower) -> tuple[float, float]:
    """W of the site while all NPUs wait, and how much more while they compute."""
    return power.waiting, power.pue * (power.active - power.idle)


def _energy(design: Design, figure: str) -> Rate:
    check_site(design, figure)
    base, more = _watts(site_power(design))
    return Rate(base / KWH_NJ, more / KWH_NJ)


def _carbon(design: Design, figure: str) -> Rate:
    grid = design.cost.grid
    if grid is None:
        raise InputError(figure, "is not known without cost.carbon_intensity (or cost.region)",
                         expected="a region of the catalog (`astrarium list region`)")
    found = _energy(design, figure)
    return Rate(found.per_ns * grid / 1000, found.per_busy_ns * grid / 1000)


RATES: Mapping[str, Callable[[Design, str], Rate]] = MappingProxyType({
    "cost": _cost, "energy": _energy, "carbon": _carbon})
"""Name -> the rate of a design; raises InputError, in the name of a figure, for what the design does not say."""
