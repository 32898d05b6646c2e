"""Limits that a stream has to hold (SLO): `ttft_p99=2s,tpot_p99=30ms`."""

from __future__ import annotations

from msgspec import Struct

from astrarium.errors import InputError, nearest
from astrarium.serving.outcome import PERCENTILES, Served, mean_of, percentiles
from astrarium.units import Time, format_time

__all__ = ["METRICS", "STATISTICS", "Limit", "Slo", "limit_of", "slo_of"]

METRICS = ("ttft", "tpot", "itl", "latency")
STATISTICS = ("mean", *(f"p{share}" for share in PERCENTILES))
EXPECTED = "such as ttft_p99=2s,tpot_p99=30ms: ttft, tpot, itl or latency, with mean, p50, p90 or p99"


class Limit(Struct, frozen=True):
    """The most ns that a statistic (`mean`, `p50`, `p90`, `p99`) of a metric (`ttft`, `tpot`, `itl`, `latency`) may be.
    """

    metric: str
    statistic: str
    most: float

    def __str__(self) -> str:
        """`TTFT p99 2 s`."""
        return f"{self.metric.upper() if self.metric != 'latency' else self.metric} {self.statistic} " \
               f"{format_time(self.most)}"

    @property
    def name(self) -> str:
        """Its key in `Served.summary`, without the unit."""
        return f"{self.metric}_{self.statistic}"

    @property
    def share(self) -> float:
        """Share of requests that keep it: 1 of a mean, whose excesses others make up for."""
        return 1.0 if self.statistic == "mean" else int(self.statistic[1:]) / 100

    def of(self, served: Served) -> float:
        """The statistic in ns of the steady state, or the whole run where there is none; 0 without such times."""
        found = served.latencies(served.window).get(self.metric)
        if found is None:
            return 0.0
        value = mean_of(*found) if self.statistic == "mean" else \
            percentiles(found[0], (int(self.statistic[1:]),), found[1])[0]
        return value / 1000


class Slo(Struct, frozen=True):
    """All limits."""

    limits: tuple[Limit, ...]

    def __str__(self) -> str:
        """As a person says it."""
        return ", ".join(map(str, self.limits))

    def worst(self, served: Served) -> tuple[float, Limit]:
        """The largest value as a share of its limit, and that limit; infinite for a saturated stream."""
        if served.saturated:
            return float("inf"), self.limits[0]
        return max(((each.of(served) / each.most, each) for each in self.limits), key=lambda pair: pair[0])

    def limit(self, metric: str) -> Limit | None:
        """The limit of a metric, where there is one."""
        return next((each for each in self.limits if each.metric == metric), None)


def slo_of(text: str, path: str = "slo") -> Slo:
    """Limits as one writes them: `ttft_p99=2s,tpot_p99=30ms`. Raises InputError at `path`."""
    limits = []
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        metric, _, statistic = name.strip().partition("_")
        if not equals:
            raise InputError(path, f"{part.strip()[:60]!r} is no limit", expected=EXPECTED)
        if not statistic and metric in METRICS:
            raise InputError(path, f"{part.strip()[:60]!r} does not say of which statistic",
                             expected=f"such as {metric}_p99={value.strip()[:30]}: mean, p50, p90 or p99")
        limits.append(_limit(path, metric, statistic, value))
    names = [each.name for each in limits]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(path, f"{twice} is there twice", expected="one limit of each")
    return Slo(tuple(limits))


def limit_of(metric: str, text: str, path: str) -> Limit:
    """A limit of one metric: `2s` (of the 99th percentile), or `mean=2s`. Raises InputError at `path`."""
    statistic, equals, value = text.partition("=")
    return _limit(path, metric, statistic.strip(), value) if equals else _limit(path, metric, "p99", text)


def _limit(path: str, metric: str, statistic: str, value: str) -> Limit:
    for given, known in ((metric, METRICS), (statistic, STATISTICS)):
        if given not in known:
            raise InputError(path, f"{given[:60]!r} is not one of {', '.join(known)}", expected=EXPECTED,
                             did_you_mean=nearest(given, known))
    try:
        most = float(Time(value.strip()))
    except InputError as error:
        raise InputError(path, error.message, expected=error.expected) from None
    if not most > 0:
        raise InputError(path, f"{value.strip()} is no time to keep", expected="more than 0")
    return Limit(metric, statistic, most)
