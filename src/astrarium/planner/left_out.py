"""What a search did not simulate, from lower bounds alone: the best layout of each ep, and what a rule leaves out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from astrarium.planner.layout import Allowed, Layout
from astrarium.planner.rules import Rule
from astrarium.planner.shortlist import Hidden, OfEp

__all__ = ["hidden_by", "per_ep"]

KNOWN = {"pp", "virtual_stages", "zero"}    # parts that leave blocks as they are, so that their costs are known
Bounds = Callable[[Layout], "tuple[float, float] | None"]
"""Layout -> lower bounds of the objective and of its memory in bytes; None where a size does not divide."""


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
