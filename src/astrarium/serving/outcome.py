"""What came of a stream of requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64, I32, I64, Bool
from astrarium.registry import printed
from astrarium.serving.policy import Objective
from astrarium.serving.steady import Window, falls_behind, fewest_steady, steady_window

__all__ = ["PERCENTILES", "PS", "InstanceRun", "Served", "figures", "mean_of", "percentiles"]

Counted = tuple[npt.NDArray[np.generic], I32 | None]       # values, and how often each occurs
PS = 1e12
PERCENTILES = (50, 90, 99)


class InstanceRun(Struct, frozen=True):
    """What an instance did: `member`, its entry of the fleet; `steps`, in which its `servers` were `busy` ps in all,
    with `tokens`; how often it `failed`, for how many ps it was `down` after it had been up, and the `startup` ps of
    each start; ps in which the busiest link of its caches was `linked`."""

    member: int
    npus: int
    servers: int
    steps: int
    busy: int
    tokens: int
    preemptions: int
    failed: int = 0
    down: int = 0
    startup: int = 0
    linked: int = 0


class Served(Struct, frozen=True, eq=False, dict=True):
    """Times in ps [requests]: `arrival`, `first` token, `finish`; tokens of `prompt` and `output`, and how many of the
    prompt were `cached`; how often each was `preempted`. Gaps between successive tokens of a request [entries]: when
    they end (`gap_ends`, ps), their length (`gap_times`, ps), and how many of them there are (`gap_counts`). `steps` of
    all `servers`, `busy` ps in all, with `tokens` going through the model. `samples` [., 4]: time in ps, requests
    waiting, requests running, cache blocks in use of `blocks` in all. `group` of each request into `groups`. `closed`:
    whether requests wait for answers. `npus` of all servers. `how`: where step times come from, in words. `session`:
    the conversation of each request, where there are any. `notes`: what to know of requests and settings. `instance`
    of the fleet that answered each request, and how often it was `retried` because one went down; then `wasted` tokens
    were given in vain. `parts`: what each instance did."""

    arrival: I64
    first: I64
    finish: I64
    prompt: I64
    output: I64
    preempted: I64
    gap_ends: I64
    gap_times: I64
    gap_counts: I32
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
    closed: bool = False
    npus: int = 1
    how: str = ""
    session: I64 | None = None
    notes: Sequence[str] = ()
    instance: I64 | None = None
    retried: I64 | None = None
    parts: Sequence[InstanceRun] = ()
    wasted: int = 0

    def __str__(self) -> str:
        """The tables of the command line."""
        return printed("serve", self)

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
        """Generated tokens per second of the whole run."""
        return float(self.output.sum()) / self.span

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

    @cached_property
    def window(self) -> Window | None:
        """The steady state, without warm-up and drain; None: the stream is too short to have one, or saturated."""
        return None if self.saturated else steady_window(*self._lives())

    @property
    def fewest(self) -> int:
        """How many requests a stream like this must have at least to have a steady state."""
        lives = self._lives()
        return fewest_steady(*lives) * len(self.arrival) // len(lives[0])

    def _lives(self) -> tuple[I64, I64]:
        """When each request comes and is answered; of conversations: when the first and the last is."""
        if self.session is None:
            return self.arrival, self.finish
        order = np.argsort(self.session, kind="stable")
        starts = np.flatnonzero(np.diff(self.session[order], prepend=-1))
        return np.minimum.reduceat(self.arrival[order], starts), np.maximum.reduceat(self.finish[order], starts)

    @cached_property
    def saturated(self) -> bool:
        """Whether requests come faster than they are answered; never in a closed loop."""
        return not self.closed and falls_behind(self.arrival, self.first, self.finish)

    def within(self, window: Window | None) -> Bool:
        """[requests] whether a request arrived in the window; None: all."""
        return np.ones(len(self.arrival), np.bool_) if window is None else window.has(self.arrival)

    def latencies(self, window: Window | None) -> Mapping[str, Counted]:
        """TTFT, TPOT, time between tokens and latency in ps, each with how often its values occur; those of requests
        that arrived, and of tokens that came, in the window."""
        chosen = self.within(window)
        tpot = self.tpot[chosen]
        place: slice | Bool = slice(None)
        if window is not None:
            place = window.has(self.gap_ends)
        found = {"ttft": (self.ttft[chosen], None), "tpot": (tpot[~np.isnan(tpot)], None),
                 "itl": (self.gap_times[place], self.gap_counts[place]), "latency": (self.latency[chosen], None)}
        return {name: each for name, each in found.items() if len(each[0])}

    def rates(self, window: Window | None, objective: Objective | None = None) -> Mapping[str, float]:
        """Output tokens, prompt tokens (from arrival to first token, by time), requests and good requests per second,
        in the window, or from the first arrival to the last answer. Requests are those that arrived, if they are
        answered as fast as they come, else those that were answered; of a closed loop, whose users may all begin at
        once, each counts by the share of its time that is in the window."""
        if window is None:
            window = Window(int(self.arrival.min()) - 1, int(self.finish.max()))
        tokens = int(self.gap_counts[window.has(self.gap_ends)].sum()) + np.count_nonzero(window.has(self.first))
        requests = (float(window.share_of(self.arrival, self.finish).sum()) if self.closed else
                    np.count_nonzero(window.has(self.finish if self.saturated else self.arrival)))
        found = {"output_tokens_per_s": tokens / window.seconds,
                 "prompt_tokens_per_s": float((self.prompt * window.share_of(self.arrival, self.first)).sum())
                 / window.seconds, "requests_per_s": requests / window.seconds}
        found["output_tokens_per_s_per_npu"] = found["output_tokens_per_s"] / self.npus
        if objective is not None and objective != Objective():
            found["good_share"] = float(self.good(objective)[self.within(window)].mean())
            found["goodput_per_s"] = found["good_share"] * found["requests_per_s"]
        return found

    def over_time(self, column: int) -> float:
        """Mean over time of a column of the samples, each of which holds until the next."""
        assert self.samples is not None
        lasts = np.diff(self.samples[:, 0])
        return float(np.average(self.samples[:-1, column], weights=lasts) if lasts.any() else self.samples[-1, column])

    def hits(self) -> Mapping[str, tuple[int, int, int]]:
        """Group -> (requests, tokens of their prompts, those that were cached); all of them as `all`."""
        cached = np.zeros(len(self.prompt), np.int64) if self.cached is None else self.cached
        found = {"all": (len(self.prompt), int(self.prompt.sum()), int(cached.sum()))}
        for number, name in enumerate(self.groups):
            mine = self.group == number
            found[name] = (int(np.count_nonzero(mine)), int(self.prompt[mine].sum()), int(cached[mine].sum()))
        return found

    def summary(self, objective: Objective | None = None, *, whole: bool = False) -> Mapping[str, float | int]:
        """The figures of the command line's table: plain values, units in the keys; of the steady state where there is
        one and not the `whole` run is asked for."""
        window = None if whole else self.window
        found: dict[str, float | int] = {"requests": len(self.finish), "span_ns": self.span * 1e9}
        if window is not None:
            start = int(self.arrival.min())
            found |= {"steady_from_ns": (window.start - start) / 1000, "steady_to_ns": (window.end - start) / 1000,
                      "steady_requests": int(self.within(window).sum())}
        for name, (values, counts) in self.latencies(window).items():
            found |= figures(name, values, counts)
        found |= self.rates(window, objective)
        if "tpot_mean_ns" in found:
            found["output_tokens_per_s_per_user"] = 1e9 / found["tpot_mean_ns"] if found["tpot_mean_ns"] else 0.0
        _, prompts, cached = self.hits()["all"]
        found |= {"steps": self.steps, "busy_share": self.busy_share, "preemptions": self.preemptions,
                  "prefix_hit_share": cached / prompts, "saturated": int(self.saturated)}
        if self.samples is not None and len(self.samples):
            found |= {"queue_mean": self.over_time(1), "queue_most": int(self.samples[:, 1].max()),
                      "cache_use_mean": self.over_time(3) / max(1, self.blocks),
                      "cache_use_most": int(self.samples[:, 3].max()) / max(1, self.blocks)}
        return found


def figures(name: str, values: npt.NDArray[np.generic], counts: I32 | None = None) -> dict[str, float]:
    """Mean and percentiles in ns of times in ps, each of them `counts` times."""
    found = {f"{name}_mean_ns": mean_of(values, counts) / 1000}
    for share, value in zip(PERCENTILES, percentiles(values, PERCENTILES, counts), strict=True):
        found[f"{name}_p{share}_ns"] = value / 1000
    return found


def mean_of(values: npt.NDArray[np.generic], counts: I32 | None = None) -> float:
    """Mean of values, each of them `counts` times."""
    return float(np.average(np.asarray(values, np.float64), weights=counts))


def percentiles(values: npt.NDArray[np.generic], shares: Sequence[int], counts: I32 | None = None) -> list[float]:
    """For each share the smallest value that at least that share of the values, each `counts` times, do not
    exceed (nearest rank)."""
    if counts is None:
        ordered = np.sort(values)
        return [float(ordered[max(0, -(-share * len(ordered) // 100) - 1)]) for share in shares]
    order = np.argsort(values)
    total = np.cumsum(counts[order], dtype=np.int64)
    places = [np.searchsorted(total, max(1, -(-share * int(total[-1]) // 100))) for share in shares]
    return [float(values[order[place]]) for place in places]
