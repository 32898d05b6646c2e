"""What came of a stream of requests, as the tables that `astrarium serve` prints."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from astrarium.report.tables import Table
from astrarium.serving import Objective, Served
from astrarium.serving.outcome import PERCENTILES, percentile
from astrarium.units import format_time

__all__ = ["serving_tables"]


def serving_tables(served: Served, objective: Objective, title: str) -> Iterator[Table]:
    """Latencies, then rates."""
    rows = [_row(name, values, counts) for name, values, counts in (
        ("TTFT", served.ttft, None), ("TPOT", served.tpot[~np.isnan(served.tpot)], None),
        ("ITL", served.gap_times, served.gap_counts), ("latency", served.latency, None)) if len(values)]
    yield Table(title, "<>>>>", rows, ("", "mean", *(f"p{share}" for share in PERCENTILES)))
    rates = [("requests", f"{len(served.finish):,}", f"in {served.span:,.4g} s: {served.request_rate:,.4g} per s"),
             ("output tokens", f"{int(served.output.sum()):,}", f"{served.throughput:,.5g} per s"),
             ("steps", f"{served.steps:,}", f"{served.tokens / max(1, served.steps):,.4g} tokens each; busy "
              f"{100 * served.busy_share:.1f} % of the time"),
             ("preemptions", f"{served.preemptions:,}", "")]
    if objective != Objective():
        good = served.good(objective)
        rates.append(("good requests", f"{int(good.sum()):,}",
                      f"{100 * float(good.mean()):.1f} %; goodput {served.goodput(objective):,.4g} per s"))
    yield Table("served", "<><", rates)


def _row(name: str, values: npt.NDArray[np.generic], counts: npt.NDArray[np.int64] | None) -> tuple[str, ...]:
    """Mean and percentiles of times in ps, each of them `counts` times."""
    mean = float(np.average(np.asarray(values, np.float64), weights=counts))
    each = (mean, *(percentile(values, share, counts) for share in PERCENTILES))
    return (name, *(format_time(value / 1000) for value in each))
