"""What a serving plan gives: the best engines within the limits, with their figures, and why the others lost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from astrarium.cost.interval import Interval
from astrarium.planner.rules import Ruling
from astrarium.planner.serving.explore import Lost, Trial
from astrarium.planner.serving.goal import Goal
from astrarium.planner.serving.prices import Price
from astrarium.planner.serving.routed import Routed, routed
from astrarium.planner.serving.service import Service
from astrarium.registry import cell, printed
from astrarium.serving.find import Tried
from astrarium.serving.outcome import Served

__all__ = ["Line", "Point", "ServingPlan"]


class Point(Struct, frozen=True):
    """A load of an engine: tokens/s of a user and of an NPU; whether the limits hold."""

    user: float
    npu: float
    holds: bool


class Line(Struct, frozen=True, dict=True):
    """An engine with its figures in a fleet of `engines` equal ones; `within`: the interval of its times; `span`: that
    of its rate, requests/s, where there is one; `tie`: whether one of it and the best is within the interval of the
    other (None: it is the best one, or one of them is unvalidated); `price` of the device, where it is
    known; `lost`: why it is not the best."""

    trial: Trial
    engines: int
    within: Interval | None
    span: tuple[float, float] | None = None
    price: Price | None = None
    tie: bool | None = None
    lost: str = ""

    @property
    def device(self) -> str:
        """Device of its NPUs."""
        return self.trial.candidate.machine.device

    @property
    def npus(self) -> int:
        """NPUs of all engines."""
        return self.engines * self.trial.candidate.engine.npus

    @property
    def load(self) -> float:
        """Requests/s of each engine, at which the figures are."""
        return self.trial.load.rate

    @property
    def served(self) -> Served:
        """What came of the load on one engine."""
        return self.trial.load.served

    @cached_property
    def figures(self) -> Mapping[str, float | int]:
        """Figures of one engine: those of `serve`."""
        return self.served.summary()

    def point(self, tried: Tried) -> Point:
        """A load that was tried."""
        output = float(self.served.output.mean())
        tpot = float(tried.served.summary().get("tpot_mean_ns", math.nan))
        return Point(1e9 / tpot if tpot else math.nan, tried.rate * output / self.trial.candidate.engine.npus,
                     tried.holds)

    @property
    def tokens(self) -> float:
        """Output tokens/s of an NPU of the engine."""
        return self.load * float(self.served.output.mean()) / self.trial.candidate.engine.npus

    @property
    def user(self) -> float:
        """Output tokens/s of a user."""
        return 1e9 / float(self.figures["tpot_mean_ns"])

    @cached_property
    def money(self) -> Mapping[str, float]:
        """US dollars, J and kg of CO2 of 10^6 output tokens, of the NPUs of the engines."""
        engine = self.trial.candidate.engine
        return {} if self.price is None else self.price.figures(engine.npus, self.served)

    @property
    def plain(self) -> dict[str, Any]:
        """For --json: units in the names."""
        engine = self.trial.candidate.engine
        low, high = self.span or (None, None)
        return {"device": self.device, "engine": engine.plain, "engines": self.engines, "npus": self.npus,
                "requests_per_s": self.load * self.engines, "requests_per_s_per_engine": self.load,
                "most_requests_per_s_per_engine": self.trial.rate, "tokens_per_s_per_npu": self.tokens,
                "tokens_per_s_per_user": self.user, "ceiling_requests_per_s_per_engine": self.trial.candidate.rate,
                "interval": {"low_requests_per_s_per_engine": low, "high_requests_per_s_per_engine": high,
                             "words": None if self.within is None else self.within.words},
                **self.money, "tie": self.tie, "lost": self.lost,
                "figures": {name: value for name, value in self.figures.items() if name.endswith("_ns")
                            or name in ("busy_share", "cache_use_most", "queue_most", "preemptions", "requests")}}


class ServingPlan(Struct, frozen=True, dict=True):
    """`lines`, best first, at most `top`. `candidates` that the rules allow; `lost`: those not in the table;
    `simulated` streams; `assumed`: what the caller left open; `models`: which ones say how long steps take.
    `today`: the line of what the caller runs now."""

    service: Service
    goal: Goal
    lines: tuple[Line, ...]
    candidates: int
    lost: tuple[Lost, ...]
    simulated: int
    rules: tuple[Ruling, ...]
    assumed: tuple[str, ...]
    models: tuple[str, ...]
    today: Line | None = None

    def __str__(self) -> str:
        """The tables of the command line."""
        return printed("plan_serving", self)

    _repr_html_ = cell("plan_serving")

    @property
    def best(self) -> Line:
        """The best engine."""
        return self.lines[0]

    @cached_property
    def routed(self) -> Routed | None:
        """The best engine behind a router; served when it is first asked for."""
        return routed(self.service, self.best.trial, self.best.engines)

    @property
    def reasons(self) -> Mapping[str, int]:
        """How many lost by each kind of reason."""
        return Counter(each.kind for each in self.lost)

    @property
    def front(self) -> Sequence[tuple[int, Point]]:
        """(line, load) of the loads that were tried and that no other exceeds in tokens/s of a user and of an NPU, the
        slowest users first."""
        every = [(place, line.point(tried)) for place, line in enumerate(self.lines, 1)
                 for tried in (*line.trial.lower, *line.trial.found.tried) if not tried.served.saturated]
        every.sort(key=lambda pair: (-pair[1].user, -pair[1].npu))
        found, most = list[tuple[int, Point]](), 0.0
        for place, point in every:
            if point.npu > most:
                found.append((place, point))
                most = point.npu
        return found[::-1]

    @property
    def plain(self) -> dict[str, Any]:
        """As plain data for --json."""
        return {"model": str(self.service.name), "prompt": self.service.mix.context, "output": self.service.mix.output,
                "slo_ns": {each.name: each.most for each in self.service.slo.limits},
                "gpus": self.goal.gpus, "requests_per_s": self.goal.rate, "candidates": self.candidates,
                "simulated": self.simulated, "rules": [each.plain for each in self.rules],
                "assumed": list(self.assumed), "models": list(self.models),
                "today": None if self.today is None else self.today.plain,
                "lines": [line.plain for line in self.lines],
                "routed": None if self.routed is None else {
                    "engines": self.routed.engines, "requests_per_s": self.routed.fewest,
                    "requests_per_s_at_random": self.routed.at_random},
                "lost": [{"engine": each.engine.plain, "device": each.device, "kind": each.kind, "why": each.why}
                         for each in self.lost],
                "front": [{"line": place, "tokens_per_s_per_user": point.user, "tokens_per_s_per_npu": point.npu,
                           "holds": point.holds} for place, point in self.front]}
