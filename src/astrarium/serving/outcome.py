"""What came of a stream of requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.serving.policy import Objective

__all__ = ["PERCENTILES", "PS", "Served", "percentile"]

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
PS = 1e12
PERCENTILES = (50, 90, 99)


class Served(Struct, frozen=True, eq=False, dict=True):
    """Times in ps [requests]: `arrival`, `first` token, `finish`; tokens of `prompt` and `output`, and how many of the
    prompt were `cached`; how often each was `preempted`. `gap_times` and `gap_counts` [entries]: times in ps between
    successive tokens of a request, and how many tokens came after each. `steps` of all `servers`, `busy` ps in all,
    with `tokens` going through the model. `samples` [., 4]: time in ps, requests waiting, requests running, cache
    blocks in use of `blocks` in all. `group` of each request into `groups`."""

    arrival: I64
    first: I64
    finish: I64
    prompt: I64
    output: I64
    preempted: I64
    gap_times: I64
    gap_counts: I64
    steps: int
    busy: int
    tokens: int
    preemptions: int
    servers: int = 1
    cached: I64 | None = None
    samples: I64 | None = None
    blocks: int = 0
    group: I64 | None = None
    groups: Sequence[str] = ()

    @cached_property
    def ttft(self) -> I64:
        """Time to the first token [requests], ps."""
        return self.first - self.arrival

    @cached_property
    def tpot(self) -> F64:
        """Mean time per token after the first [requests], ps; NaN where there is only one."""
        more = np.maximum(self.output - 1, 1)
        return np.where(self.output > 1, (self.finish - self.first) / more, np.nan)

    @property
    def latency(self) -> I64:
        """Time to the last token [requests], ps."""
        return self.finish - self.arrival

    @property
    def gaps(self) -> I64:
        """Times between successive tokens [tokens after the first of each request], ps: one number a token."""
        return np.repeat(self.gap_times, self.gap_counts)

    @property
    def span(self) -> float:
        """Seconds from the first arrival to the last answer."""
        return float(self.finish.max() - self.arrival.min()) / PS

    @property
    def busy_share(self) -> float:
        """Share of the span in which a server was at a step, on average."""
        return self.busy / PS / self.span / self.servers

    @property
    def throughput(self) -> float:
        """Generated tokens per second."""
        return float(self.output.sum()) / self.span

    @property
    def request_rate(self) -> float:
        """Answered requests per second."""
        return len(self.finish) / self.span

    def good(self, objective: Objective) -> Bool:
        """[requests] whether everything that was promised was kept."""
        found = np.ones(len(self.finish), np.bool_)
        if objective.ttft is not None:
            found &= self.ttft <= float(objective.ttft) * 1000
        if objective.tpot is not None:
            found &= ~(self.tpot > float(objective.tpot) * 1000)
        return found

    def goodput(self, objective: Objective) -> float:
        """Good requests per second."""
        return float(self.good(objective).sum()) / self.span

    def summary(self, objective: Objective | None = None) -> Mapping[str, float | int]:
        """The figures of the command line's table: plain values, units in the keys."""
        found: dict[str, float | int] = {"requests": len(self.finish), "span_s": self.span}
        for name, values in (("ttft", self.ttft), ("tpot", self.tpot[~np.isnan(self.tpot)]),
                             ("latency", self.latency)):
            if len(values):
                found |= figures(name, values)
        if len(self.gap_times):
            found |= figures("itl", self.gap_times, self.gap_counts)
        found |= {"output_tokens_per_s": self.throughput, "requests_per_s": self.request_rate,
                  "steps": self.steps, "busy_share": self.busy_share, "preemptions": self.preemptions}
        if objective is not None and objective != Objective():
            found |= {"good_share": float(self.good(objective).mean()), "goodput_per_s": self.goodput(objective)}
        return found


def figures(name: str, values: npt.NDArray[np.generic], counts: I64 | None = None) -> dict[str, float]:
    """Mean and percentiles in ms of times in ps, each of them `counts` times."""
    numbers = np.asarray(values, np.float64)
    found = {f"{name}_mean_ms": float(np.average(numbers, weights=counts)) / 1e9}
    for share in PERCENTILES:
        found[f"{name}_p{share}_ms"] = percentile(values, share, counts) / 1e9
    return found


def percentile(values: npt.NDArray[np.generic], share: int, counts: I64 | None = None) -> float:
    """The smallest value that at least `share` % of the values, each of them `counts` times, do not exceed (nearest
    rank)."""
    if counts is None:
        ordered = np.sort(values)
        return float(ordered[max(0, -(-share * len(ordered) // 100) - 1)])
    order = np.argsort(values, kind="stable")
    total = np.cumsum(counts[order])
    place = np.searchsorted(total, max(1, -(-share * int(total[-1]) // 100)))
    return float(values[order][place])
