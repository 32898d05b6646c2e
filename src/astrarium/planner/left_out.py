"""What a search did not simulate, from lower bounds alone: the best layout of each ep, and what a rule leaves out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from astrarium.planner.layout import Allowed, Layout
from astrarium.planner.rules import Rule

__all__ = ["Hidden", "OfEp", "hidden_by", "per_ep"]

KNOWN = {"pp", "virtual_stages", "zero"}    # parts that leave blocks as they are, so that their costs are known
Bounds = Callable[[Layout], "tuple[float, float] | None"]
"""Layout -> lower bounds of the objective and of its memory in bytes; None where a size does not divide."""


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


def hidden_by(rules: Iterable[Rule], space: Allowed, bounds: Bounds, room: float, best: float) -> tuple[Hidden, ...]:
    """What rules of pipelines and ZeRO leave out of a `space` that may be better than `best` and fits in `room` bytes.
    Layouts that differ only in recomputation count once."""
    found = [_hidden(rule, space, bounds, room, best) for rule in rules if set(rule.parts) <= KNOWN]
    return tuple([each for each in found if each is not None])


def _hidden(rule: Rule, space: Allowed, bounds: Bounds, room: float, best: float) -> Hidden | None:
    found: list[tuple[float, Layout]] = []
    for plain in space.left_out(rule):
        layout, least = plain, bounds(plain)
        if least is None or least[0] >= best:
            continue        # with recomputation it is as slow at least
        if least[1] > room and "full" in space.choices["recompute"]:
            layout = replace(layout, recompute="full")
            least = bounds(layout)
        if least is not None and least[1] <= room and least[0] < best:
            found.append((least[0], layout))
    return Hidden(rule.name, len(found), *min(found)) if found else None


def per_ep(every: Iterable[int], trials: Sequence[tuple[float, Layout]], left: Mapping[int, tuple[float, Layout]]
           ) -> tuple[OfEp, ...]:
    """The best layout of every ep. `trials`: (objective, layout) of those that were simulated; `left`: ep -> (lower
    bound of the objective, layout) of the lowest of those that were not."""
    best: dict[int, tuple[float, Layout]] = {}
    for trial in sorted(trials, reverse=True):
        best[trial[1].ep] = trial
    found: list[OfEp] = []
    for ep in every:
        least, layout = left.get(ep, (math.inf, None))
        done = best.get(ep)
        if done is not None:
            found.append(OfEp(ep, done[1], done[0], min(least, done[0])))
        else:
            found.append(OfEp(ep, layout, least=least) if layout is not None else OfEp(ep, None))
    return tuple(found)
