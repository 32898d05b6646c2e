"""Plot of a search in two network models: designs in the cheaper one against the dear one."""

from __future__ import annotations

from astrarium.errors import InputError
from astrarium.report.plot.colours import PALETTE
from astrarium.report.plot.find import Drawing
from astrarium.report.plot.plot import Axis, Column, Layer, Plot
from astrarium.report.plot.plots.study import Searched, logarithmic, report_of, rim
from astrarium.report.plot.quantities import quantity_of

__all__ = ["FIDELITY", "fidelity"]


def fidelity(answer: Searched) -> Plot:
    """The objective of designs in a cheaper network model and in the search's own: random designs, by which it is
    decided whether the cheaper one is used, and the best designs of the cheaper search.

    Args:
        answer: a study file or several of one space and goal, or a `StudyReport`.

    Raises:
        InputError: without a cheaper network model.
    """
    report = report_of(answer)
    if not report.fidelity:
        raise InputError("fidelity", "the search had no cheaper network model", expected="a search with `fidelity`")
    _, found = report.fidelity[-1]      # the dearest rung
    name = report.goal.objectives[0].name
    quantity, groups = quantity_of(name), {"random designs": found.drawn, "best of the cheaper search": found.promoted}
    colours = {group: colour for (group, pairs), colour in zip(groups.items(), PALETTE) if pairs}
    layers = tuple(Layer("point", {
        "x": Column(found.model, [one for one, _ in groups[group]], quantity),
        "y": Column(found.dear, [other for _, other in groups[group]], quantity),
        "colour": Column("", [group] * len(groups[group]))}, size=50) for group in colours)
    every = [[pair[place] for pairs in groups.values() for pair in pairs] for place in (0, 1)]
    if not layers:
        raise InputError("fidelity", "no random design has a value in both models", expected="a space with some")
    x, y = (Axis(f"{name} ({model})", quantity, log=logarithmic(values), zero=False, low=rim(values, -1),
                 high=rim(values, 1)) for model, values in zip((found.model, found.dear), every))
    used = "its best designs were tried" if found.verdict == "high" else "it was not used"
    return Plot("The cheaper network model", f"{found.model} against {found.dear}: {found.words}: {found.verdict}, "
                f"{used}.", layers, x, y, colours)


FIDELITY = Drawing(("report",), fidelity)
