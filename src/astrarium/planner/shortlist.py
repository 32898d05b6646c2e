"""What a plan gives: the fastest layouts that fit, with their figures, and why each lost to the one before."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from astrarium.cost.assumed import rents
from astrarium.cost.interval import Interval, interval_of
from astrarium.design import Design
from astrarium.planner.breakdown import PARTS, Breakdown
from astrarium.planner.job import Job
from astrarium.planner.layout import Layout
from astrarium.planner.objective import TIME, Objective
from astrarium.planner.rules import Ruling
from astrarium.registry import cell, printed
from astrarium.units import HourlyPrice

__all__ = ["SMALL", "Change", "Hidden", "Line", "NoGain", "OfEp", "Shortlist", "reason"]

SMALL = 0.0005      # of a step: smaller differences are not named
WORDS = {"compute": "compute", "recompute": "recomputation", "tp": "exposed tp communication",
         "ep": "exposed ep communication", "cp": "exposed cp communication", "dp": "exposed dp communication",
         "pp": "exposed pp communication", "ports": "collectives that share ports", "bubble": "bubble"}


class Hidden(Struct, frozen=True):
    """`count` layouts that a rule leaves out, that fit by their lower bound of memory, and whose lower bound of the
    objective is below the best value; the lowest, `least`, is that of `layout`."""

    rule: str
    count: int
    least: float
    layout: Layout

    @property
    def plain(self) -> dict[str, Any]:
        """For --json."""
        return {"rule": self.rule, "layouts": self.count, "lower_bound": self.least, "layout": self.layout.plain}


class OfEp(Struct, frozen=True):
    """The best layout with an `ep`: its objective `value` if it was simulated (else NaN), and `least`, which no layout
    with that ep falls below. `layout`: None if none fits."""

    ep: int
    layout: Layout | None
    value: float = math.nan
    least: float = math.nan

    @property
    def plain(self) -> dict[str, Any]:
        """For --json."""
        numbers = {"value": self.value, "lower_bound": self.least}
        return {"ep": self.ep, "layout": None if self.layout is None else self.layout.plain,
                **{name: None if math.isnan(value) else value for name, value in numbers.items()}}


class Line(Struct, frozen=True, dict=True):
    """One layout. `time` ns of a step; `memory` of `capacity` bytes of the fullest NPU, of which a layout may need
    `room`; `mfu` 0 to 1; `tokens` per
    second and NPU; `lost`: what makes it slower than the best one. `tie`: whether one of the two is within the interval
    of the other (None: it is the best one, or one of them has none). `value`: the objective's; `figures`: those
    of cost, where prices are known. `makespan`: ns of the run; `time` is more where `limited`. `peak`: bytes that the
    simulation held, with what overlaps; `memory` has one unit of the pipeline after the other."""

    layout: Layout
    device: str
    time: float
    memory: float
    capacity: float
    mfu: float
    tokens: float
    breakdown: Breakdown
    design: Design
    job: Job
    room: float
    lost: str = ""
    tie: bool | None = None
    value: float = math.nan
    figures: Mapping[str, float] = field(default_factory=dict)
    makespan: float = math.nan
    peak: float = math.nan

    @property
    def limited(self) -> bool:
        """Whether collectives need a port for longer than the run takes: the step is a lower bound."""
        return self.time > self.makespan

    @cached_property
    def rented(self) -> dict[str, float]:
        """US dollars of 10^12 tokens at each rent of the device in the catalog, the lowest first; nothing if the plan
        is priced by a rent already, or not priced."""
        hours = self.figures.get("npu_hours_per_tera_tokens")
        if hours is None or "owned_cost_per_tera_tokens" not in self.figures:
            return {}
        return {name: hours * float(HourlyPrice(rent)) for name, rent in rents(self.device).items()}

    @property
    def npus(self) -> int:
        """NPUs that it takes."""
        return self.layout.ranks

    @property
    def label(self) -> str:
        """The layout, and which of the layers compute again where not all of them do."""
        work = self.design.workload
        every, first = getattr(work, "recompute_every", 1), getattr(work, "recompute_first", None)
        if self.layout.recompute == "none":
            return str(self.layout)
        some = f" (1 of {every} layers)" if every > 1 else ""
        return str(self.layout) + some + ("" if first is None else f" (first {first} of a part)")

    @cached_property
    def within(self) -> Interval:
        """The interval of its step time."""
        found = interval_of(self.design)
        assert found is not None        # a design of training
        return found

    @property
    def plain(self) -> dict[str, Any]:
        """For --json: units in the names."""
        low, high = self.within.around(self.time) or (None, None)
        interval = {"low_ns": low, "high_ns": high, "share": self.within.share, "rows": self.within.rows,
                    "validated": self.within.validated, "extrapolated": list(self.within.extrapolated)}
        return {"device": self.device, "npus": self.npus, "layout": self.layout.plain, "step_ns": self.time,
                "makespan_ns": self.makespan, "memory_bytes": self.memory,
                "peak_memory_bytes": None if math.isnan(self.peak) else self.peak, "capacity_bytes": self.capacity,
                "room_bytes": self.room, "mfu": self.mfu, "tokens_per_second_per_npu": self.tokens,
                "parts_ns": self.breakdown.mean, "lost": self.lost, "tie": self.tie, "interval": interval,
                "value": self.value, "figures": dict(self.figures),
                "rented_per_tera_tokens": self.rented}


class Change(Struct, frozen=True):
    """One part of today's layout changed: its name, values before and after, and the line of the layout that results
    (the number of replicas follows)."""

    part: str
    before: str
    after: str
    line: Line

    @property
    def plain(self) -> dict[str, Any]:
        """For --json."""
        return {"part": self.part, "before": self.before, "after": self.after, "line": self.line.plain}


class NoGain(Struct, frozen=True):
    """One part of today's layout changed without a gain: its name, values before and after, and why."""

    part: str
    before: str
    after: str
    why: str

    @property
    def plain(self) -> dict[str, Any]:
        """For --json."""
        return {"part": self.part, "before": self.before, "after": self.after, "why": self.why}


class Shortlist(Struct, frozen=True):
    """`lines`, best first. `layouts` that the rules allow, `too_large` of which do not fit, `simulated` of which were;
    `unknown`: those that were not simulated to the end (layout and why, lower bound of the objective), the only ones
    that may be better. `assumed`: what the caller left open. `conditions`: what holds for every line; `models`: which
    ones say how long kernels and collectives take, and the software stack. `today`: the line of a layout that the
    caller runs now. `objective`: what the lines are ranked by; `counts`: of NPUs that were compared. `rules`: those
    that leave out layouts, or were lifted. `beyond`: lower bound of the objective of all layouts that were not
    simulated. `candidates`: the best line of each device, if there are several. `certificate`: see
    `planner.certificate`, if it was asked for. `measured`: ns that a step of today's job was measured to take; then
    `changes` of one part of its layout that shorten it, the largest gain first, and those with `no_gain`. Times of
    lines stay predictions; `factor` scales them to what was measured. `per_ep`: the best layout of each ep, if
    there are several; `hidden`: what rules leave out that may be better than the best; `notes`: what to know first;
    `framework`: that of the launch of `today`."""

    model: str
    tokens: int
    npus: int
    lines: tuple[Line, ...]
    layouts: int
    too_large: int
    simulated: int
    unknown: tuple[tuple[str, float], ...] = ()
    assumed: tuple[str, ...] = ()
    conditions: Mapping[str, object] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    today: Line | None = None
    objective: Objective = TIME
    counts: tuple[int, ...] = ()
    rules: tuple[Ruling, ...] = ()
    beyond: float = math.inf
    candidates: tuple[Line, ...] = ()
    certificate: Mapping[str, Any] = field(default_factory=dict)
    measured: float | None = None
    changes: tuple[Change, ...] = ()
    no_gain: tuple[NoGain, ...] = ()
    per_ep: tuple[OfEp, ...] = ()
    hidden: tuple[Hidden, ...] = ()
    notes: tuple[str, ...] = ()
    framework: str = ""

    def __str__(self) -> str:
        """The tables of the command line."""
        return printed("plan", self)

    _repr_html_ = cell("plan")

    @property
    def best(self) -> Line:
        """The best layout."""
        return self.lines[0]

    @property
    def factor(self) -> float:
        """Measured over predicted step of today; 1 where none was measured."""
        return 1.0 if self.measured is None or self.today is None else self.measured / self.today.time

    @property
    def proved(self) -> bool:
        """Whether no other layout of the space can be better than the best."""
        return self.sure > 0

    @property
    def sure(self) -> int:
        """Number of lines that are proved: no other layout can come before them."""
        least = min([self.beyond, *(bound for _, bound in self.unknown)])
        return sum(line.value <= least for line in self.lines)

    def broken(self, line: Line) -> tuple[str, ...]:
        """Names of the rules that leave out the layout of a line."""
        kept = [each.rule for each in self.rules if not each.lifted]
        return tuple(rule.name for rule in kept if not rule.allows(line.layout.plain))

    @property
    def plain(self) -> dict[str, Any]:
        """As plain data for --json."""
        bound = "lower_bound_ns" if self.objective.name == "time" else "lower_bound"
        return {"model": self.model, "tokens_per_step": self.tokens, "npus": self.npus, "counts": list(self.counts),
                "rules": [each.plain for each in self.rules], "notes": list(self.notes),
                "hidden": [each.plain for each in self.hidden], "per_ep": [each.plain for each in self.per_ep],
                "objective": self.objective.name, "assumed": list(self.assumed),
                "conditions": dict(self.conditions), "models": list(self.models),
                "layouts": self.layouts, "too_large": self.too_large, "simulated": self.simulated,
                "proved": self.proved, "sure": self.sure,
                "unknown": [{"layout": text, bound: least} for text, least in self.unknown],
                "measured_step_ns": self.measured, "changes": [each.plain for each in self.changes],
                "no_gain": [each.plain for each in self.no_gain],
                "today": None if self.today is None else self.today.plain, "lines": [line.plain for line in self.lines],
                "candidates": [line.plain for line in self.candidates]}


def reason(line: Line, best: Line, objective: Objective = TIME) -> str:
    """What makes a line worse than the best: of time, the difference and the parts that it is the sum of, largest
    first."""
    above, slower = line.value / best.value - 1, line.time / best.time - 1
    if objective.name != "time":
        return f"{objective.name} {100 * above:+.1f} %: step {100 * slower:+.1f} %, {line.npus:,} NPUs"
    if slower <= 0:
        return "nothing: as fast" if slower > -SMALL else f"nothing: its step is {-100 * slower:.1f} % shorter"
    mine, theirs = line.breakdown.mean, best.breakdown.mean
    changes = sorted(((mine[part] - theirs[part], part) for part in PARTS), key=lambda each: -abs(each[0]))
    said = [f"{WORDS[part].removesuffix(' communication')} {100 * ns / best.time:+.1f} %"
            for ns, part in changes if abs(ns) > SMALL * best.time]
    return f"{100 * slower:+.{1 if slower > SMALL else 2}f} %" + (f": {', '.join(said)}" if said else "")
