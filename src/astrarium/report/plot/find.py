"""Plots by name: what `plot.NAME` of the registry loads, and which plots an answer has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from astrarium.errors import InputError, PluginError, asked
from astrarium.registry import Kind, built_ins
from astrarium.report.plot.plot import Plot

__all__ = ["Drawing", "drawing_of", "drawn", "plots_of"]

KIND = Kind("plot")


class Drawing(Struct, frozen=True):
    """One kind of plot.

    Args:
        verbs: whose answers it draws, as in `Page`: run (a `ShownRun`), runs (a list of `Run`), plan (`Shortlist`),
            plan_serving (`ServingPlan`), serve (`ShownServing`), report (`StudyReport`), explain (`Explanation`,
            `Gains` or `ServingExplanation`), validate (`Validation`), calibrate (`Calibration`), trace
            (`ShownTrace`).
        draw: the plot of such an answer; raises InputError where the answer lacks the data, and says what to record.
    """

    verbs: tuple[str, ...]
    draw: Callable[[Any], Plot]


def drawing_of(name: str, verb: str, flag: str = "--plot") -> Drawing:
    """The plot of this name. Raises InputError where there is none, or where it is of another verb's answers."""
    found = KIND.load(name)
    if isinstance(found, Drawing) and verb in found.verbs:
        return found
    mine = [each for each in built_ins("plot") if verb in KIND.load(each).verbs]
    what = (f"draws what {' and '.join(found.verbs)} find" if isinstance(found, Drawing) else
            f"is an object of {type(found).__name__}, not a Drawing")
    raise InputError(f"{flag} {name}", what, expected=f"one of {', '.join(mine)}" if mine else "a plot of this verb")


def drawn(name: str, verb: str, answer: object) -> Plot:
    """The plot of this name of a verb's answer. Raises InputError as `drawing_of`, and where data is lacking."""
    drawing = drawing_of(name, verb)
    if name in built_ins("plot"):
        return drawing.draw(answer)
    found: object = asked(f"plot plug-in {name}", drawing.draw, answer)
    if not isinstance(found, Plot):
        raise PluginError(f"plot plug-in {name}", f"gave an object of {type(found).__name__}, not a Plot")
    return found


def plots_of(verb: str, answer: object) -> Iterator[tuple[str, Plot]]:
    """(name, plot) of every built-in plot of a verb's answer, but those whose data the answer lacks."""
    for name in built_ins("plot"):
        drawing = KIND.load(name)
        if verb in drawing.verbs:
            try:
                yield name, drawing.draw(answer)
            except InputError:
                continue
