"""A search of the highest rate within limits, as a table."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.report.tables.table import Table
from astrarium.serving import LONGER, FoundRate, Served, Slo, Tried
from astrarium.units import format_time

__all__ = ["RateSearch"]


class RateSearch(Struct, frozen=True):
    """The rates that were tried, and the search with steps LONGER times as long."""

    slo: Slo
    found: FoundRate
    slower: FoundRate

    @property
    def served(self) -> Served:
        """What came of the highest rate that holds. Raises InputError where none does."""
        if self.found.best is None:
            last = min(self.found.tried, key=lambda each: each.rate)
            raise InputError("--slo", f"no rate holds {self.slo}: at {last.rate:,.4g} requests/s {last.why}",
                             expected="other limits")
        return self.found.best.served

    @property
    def plain(self) -> dict[str, Any]:
        """As plain data for --json."""
        rates = [None if each.best is None else each.best.rate for each in (self.found, self.slower)]
        return {"slo_ns": {each.name: each.most for each in self.slo.limits}, "requests_per_s": rates[0],
                "requests_per_s_with_longer_steps": rates[1], "longer": LONGER,
                "tried": [{"requests_per_s": each.rate, "holds": each.holds, "saturated": each.served.saturated,
                           **{limit.name + "_ns": limit.of(each.served) for limit in self.slo.limits}}
                          for each in self.found.tried]}

    def table(self, title: str) -> Table:
        """Every rate with its figures; the last lines say which is the highest, and how near the cliff it is."""
        best, beyond = self.found.best, self.found.beyond
        rows = [self._row(each) for each in sorted(self.found.tried, key=lambda each: each.rate)]
        said = [f"{title}: the most requests within {self.slo}",
                f"{best.rate:,.4g} requests/s" + ("; no higher rate was tried" if beyond is None else
                                                  f"; at {beyond.rate:,.4g} {beyond.why}") if best else ""]
        slower = self.slower.best
        share = 100 * (LONGER - 1)
        said.append(f"with steps {share:.0f} % longer: " + ("no rate that was tried holds" if slower is None else
                                                            f"{slower.rate:,.4g} requests/s"))
        return Table("\n".join(said), ">" + ">" * len(self.slo.limits) + "<", rows,
                     ("requests/s", *(f"{each.metric.upper()} {each.statistic}" for each in self.slo.limits), ""))

    def _row(self, each: Tried) -> tuple[str, ...]:
        times = [format_time(limit.of(each.served)) for limit in self.slo.limits]
        return (f"{each.rate:,.4g}", *times, "holds" if each.holds else each.why)
