"""Why two designs differ: a step for each knob from a figure of the one to that of the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.report.plot.colours import PALETTE
from astrarium.report.plot.find import Drawing
from astrarium.report.plot.plot import Axis, Column, Layer, Plot
from astrarium.report.plot.quantities import quantity_of, rounded
from astrarium.report.tables.explain import values_text
from astrarium.report.tables.explain_serving import TITLES
from astrarium.search.differences import Difference
from astrarium.search.explain import Explanation
from astrarium.search.explain_serving import VALUES, ServingExplanation
from astrarium.search.gains import Gains

__all__ = ["PLOT", "waterfall"]

WHOLE, BETTER, WORSE = PALETTE[0], PALETTE[2], PALETTE[1]
GAP = 0.01      # of the axis, between a bar and its text


class _Step(Struct, frozen=True):
    """A bar: of a whole value from 0, else of a knob from where the one before ends. `error`: the standard error."""

    name: str
    start: float
    end: float
    error: float = 0.0
    whole: bool = False


def waterfall(answer: Explanation | Gains | ServingExplanation, figure: str | None = None) -> Plot:
    """The figure of the first design, a bar for what each knob adds to it (its Shapley value), and that of the second.

    Args:
        answer: an explanation of two designs, of two serving designs, or of the best designs of two studies.
        figure: of serving designs ttft, tpot or tokens_per_second; None: tpot.

    Raises:
        InputError: where the designs do not differ, and of a recorded run.
    """
    if isinstance(answer, Explanation):
        return _explained(answer, "makespan", "time", 1000.0, more_is_better=False)
    if isinstance(answer, ServingExplanation):
        name = figure or "tpot"
        if name not in answer.knobs:
            raise InputError("figure", f"{name!r} is not known", expected=f"one of {', '.join(answer.knobs)}")
        rate = name == "tokens_per_second"
        return _explained(answer.knobs[name], TITLES[name], "per_second" if rate else "time",
                          VALUES[name][1] if rate else 1000.0, more_is_better=rate)
    if isinstance(answer, Gains):
        return _gained(answer)
    raise InputError("waterfall", "a recorded run is compared by part, not by knob",
                     expected="an explanation of two designs, serving files or studies")


def _explained(found: Explanation, what: str, quantity: str, unit: float, *, more_is_better: bool) -> Plot:
    """`unit`: how many of the whole units of the explanation one of the quantity has."""
    at, steps = found.before, list[_Step]()
    for change in sorted(found.changes, key=lambda each: -abs(each.contribution)):
        steps.append(_Step(_named(change.knobs), at / unit, (at + change.contribution) / unit, change.error / unit))
        at += change.contribution
    return _drawn((found.before / unit, found.after / unit), steps, what, quantity, more_is_better)


def _gained(found: Gains) -> Plot:
    """Factors of the gain, as what each makes of the objective in its turn."""
    rises = abs(math.log(found.before * found.gain / found.after)) <= abs(math.log(found.before / found.gain
                                                                                 / found.after))
    at, steps = found.before, list[_Step]()
    for part in found.parts:
        after = at * part.factor if rises else at / part.factor
        steps.append(_Step(f"{_named(part.knobs)} ({part.factor:.3f}x)", at, after, part.error * after))
        at = after
    return _drawn((found.before, found.after), steps, found.objective, quantity_of(found.objective), rises)


def _named(knobs: Sequence[Difference]) -> str:
    return " and ".join(f"{knob.knob}: {values_text(knob.before)} to {values_text(knob.after)}" for knob in knobs)


def _drawn(ends: tuple[float, float], steps: Sequence[_Step], what: str, quantity: str, more_is_better: bool) -> Plot:
    if not steps:
        raise InputError("waterfall", "the designs do not differ", expected="two designs with other knobs")
    rows = [_Step("first", 0.0, ends[0], whole=True), *steps, _Step("second", 0.0, ends[1], whole=True)]
    up, down = ("longer", "shorter") if quantity == "time" else ("more", "less")
    kinds = [what if row.whole else up if row.end > row.start else down for row in rows]
    columns = {"y": Column("", [row.name for row in rows]), "colour": Column("", kinds),
               "x": Column("from", [row.start for row in rows], quantity),
               "x2": Column("to", [row.end for row in rows], quantity),
               "adds": Column("difference", [row.end - row.start for row in rows], quantity)}
    if any(row.error for row in rows):
        columns["error"] = Column("standard error", [row.error for row in rows], quantity)
    top = 1.3 * max(max(row.start, row.end) for row in rows)
    texts = Layer("text", {"y": Column("", [row.name for row in rows]),
                           "x": Column("", [max(row.start, row.end) + GAP * top for row in rows], quantity),
                           "text": Column("", [_signed(row, quantity) for row in rows])}, colour="ink", align="left")
    colours = {what: WHOLE, up: BETTER if more_is_better else WORSE, down: WORSE if more_is_better else BETTER}
    most = max(steps, key=lambda step: abs(step.end - step.start))
    share = f"matters most ({_signed(most, quantity)})" if len(steps) > 1 else "is all that differs"
    matters = f"{most.name} {share}" if most.end != most.start else "no knob matters"
    return Plot(f"Why the designs differ: {what}", f"From {rounded(ends[0], quantity)} to "
                f"{rounded(ends[1], quantity)}; {matters}.",
                (Layer("bar", columns), texts),
                Axis(what, quantity, high=top), Axis(order=tuple(dict.fromkeys(row.name for row in rows))),
                {name: colour for name, colour in colours.items() if name in kinds})


def _signed(row: _Step, quantity: str) -> str:
    difference = row.end - row.start
    sign = "" if row.whole else "+" if difference > 0 else "-" if difference < 0 else ""
    return f"{sign}{rounded(abs(difference), quantity)}"


PLOT = Drawing(("explain",), waterfall)
