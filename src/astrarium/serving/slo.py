"""Limits that a stream has to hold (SLO): `ttft_p99=2s,tpot_p99=30ms`; with `good90` in place of `p99` 90 % of its
requests have to keep all limits marked so (the goodput of DistServe, arXiv 2401.09670)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.errors import InputError, nearest
from astrarium.serving.outcome import PERCENTILES, Served, mean_of, percentiles
from astrarium.units import Time, format_time

__all__ = ["METRICS", "STATISTICS", "Limit", "Slo", "limit_of", "slo_of"]

METRICS = ("ttft", "tpot", "itl", "latency")
STATISTICS = ("mean", *(f"p{share}" for share in PERCENTILES))
TOGETHER = tuple(f"good{share}" for share in PERCENTILES)
EXPECTED = "such as ttft_p99=2s,tpot_p99=30ms: ttft, tpot, itl or latency, with mean, p50, p90, p99; or with good50, " \
           "good90, good99, the share of requests that keep all such limits"


class Limit(Struct, frozen=True):
    """The most ns that a statistic (`mean`, `p50`, `p90`, `p99`) of a metric (`ttft`, `tpot`, `itl`, `latency`) may be;
    `good90`: that the metric may be of a request that counts among the 90 % that keep all such limits."""

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
        return self.percent / 100 if self.percent else 1.0

    @property
    def percent(self) -> int:
        """The number in its statistic; 0 of a mean."""
        return int("".join(filter(str.isdigit, self.statistic)) or 0)

    def of(self, served: Served) -> float:
        """The statistic in ns of the steady state, or the whole run where there is none; 0 without such times. Of
        `good90` it is the percentile of this metric alone."""
        found = served.latencies(served.window).get(self.metric)
        if found is None:
            return 0.0
        value = percentiles(found[0], (self.percent,), found[1])[0] if self.percent else mean_of(*found)
        return value / 1000

    def shares(self, served: Served) -> npt.NDArray[np.float64]:
        """What each request of the steady state has of its limit [requests]; 0 if it has no such time."""
        times = np.asarray(getattr(served, self.metric), np.float64)[served.within(served.window)]
        return np.nan_to_num(times) / (self.most * 1000)


class Slo(Struct, frozen=True):
    """All limits."""

    limits: tuple[Limit, ...]

    def __str__(self) -> str:
        """As a person says it."""
        return ", ".join(map(str, self.limits))

    def worst(self, served: Served) -> tuple[float, Limit]:
        """The largest value as a share of its limit, and that limit; infinite for a saturated stream. Of limits that
        requests keep together the value is a percentile of each request's largest share."""
        if served.saturated:
            return float("inf"), self.limits[0]
        found = [(each.of(served) / each.most, each) for each in self.limits if each.statistic not in TOGETHER]
        for statistic in TOGETHER:
            limits = [each for each in self.limits if each.statistic == statistic]
            if limits:
                shares = np.stack([each.shares(served) for each in limits])
                found.append((percentiles(shares.max(axis=0), (limits[0].percent,))[0],
                              limits[int(shares.mean(axis=1).argmax())]))
        return max(found, key=lambda pair: pair[0])

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
    if metric == "itl" and statistic in TOGETHER:
        raise InputError(path, "itl is of tokens, not of requests", expected="ttft, tpot or latency with " + statistic)
    for given, known in ((metric, METRICS), (statistic, (*STATISTICS, *TOGETHER))):
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
