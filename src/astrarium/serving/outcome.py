"""What came of a stream of requests."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.serving.policy import Objective

__all__ = ["PERCENTILES", "Served", "percentile"]

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
PS = 1e12
PERCENTILES = (50, 90, 99)


class Served(Struct, frozen=True, eq=False, dict=True):
    """Times in ps [requests]: `arrival`, `first` token, `finish`; tokens of `prompt` and `output`; how often each was
    `preempted`. `gaps` [tokens after the first of each] between tokens. `steps` of all `servers`, `busy` ps in all,
    with `tokens` going through the model."""

    arrival: I64
    first: I64
    finish: I64
    prompt: I64
    output: I64
    preempted: I64
    gaps: I64
    steps: int
    busy: int
    tokens: int
    preemptions: int
    servers: int = 1

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
        for name, values in (("ttft", self.ttft), ("tpot", self.tpot[~np.isnan(self.tpot)]), ("itl", self.gaps),
                             ("latency", self.finish - self.arrival)):
            if len(values):
                found[f"{name}_mean_ms"] = float(np.mean(values)) / 1e9
                for share in PERCENTILES:
                    found[f"{name}_p{share}_ms"] = percentile(values, share) / 1e9
        found |= {"output_tokens_per_s": self.throughput, "requests_per_s": self.request_rate,
                  "steps": self.steps, "busy_share": self.busy_share, "preemptions": self.preemptions}
        if objective is not None and objective != Objective():
            found |= {"good_share": float(self.good(objective).mean()), "goodput_per_s": self.goodput(objective)}
        return found


def percentile(values: npt.NDArray[np.generic], share: int) -> float:
    """The smallest value that at least `share` % of the values do not exceed (nearest rank)."""
    ordered = np.sort(values)
    return float(ordered[max(0, -(-share * len(ordered) // 100) - 1)])
