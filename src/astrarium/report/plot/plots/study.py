"""Plots of searches: Pareto front, designs knob by knob, importance of knobs, convergence, one knob at a time."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from astrarium.errors import InputError
from astrarium.report.plot.colours import PALETTE, ranked
from astrarium.report.plot.find import Drawing
from astrarium.report.plot.plot import Axis, Column, Layer, Plot
from astrarium.report.plot.quantities import quantity_of, rounded
from astrarium.report.tables.study import UNDECIDED, short_names, sobol_name
from astrarium.report.tables.study_data import StudyReport, study_report
from astrarium.search import Goal, Space, Study, Trial
from astrarium.search.analysis import most_important, value_of
from astrarium.search.convergence import Convergence
from astrarium.search.studyfile import load_study

__all__ = ["CONVERGENCE", "COORDINATES", "IMPORTANCE", "PARETO", "SOBOL", "TORNADO", "Searched", "convergence",
           "coordinates", "importance", "logarithmic", "pareto", "report_of", "rim", "sobol", "tornado"]

LINES = 100         # designs drawn knob by knob
LABELS = 8          # values of a knob with a label each
WIDE = 5.0          # factor from which on an axis is logarithmic
Path: TypeAlias = "str | os.PathLike[str]"
Searched: TypeAlias = "StudyReport | Path | Sequence[Path]"


def report_of(answer: Searched) -> StudyReport:
    """The report of studies; a `StudyReport` as it is."""
    if isinstance(answer, StudyReport):
        return answer
    paths = [answer] if isinstance(answer, (str, os.PathLike)) else answer
    return study_report([load_study(path) for path in paths])


def pareto(answer: Study | Searched) -> Plot:
    """The Pareto front of the first two objectives; of a study in a file also the other trials. A point of the front
    shows its objectives and the knobs in which the front's designs differ.

    Args:
        answer: a `Study`, a study file or several of one space and goal, or a `StudyReport`.

    Raises:
        InputError: of fewer than two objectives, or where no trial met every requirement.
    """
    cloud: Sequence[Sequence[float]] = ()
    if isinstance(answer, Study):
        goal, space, front = answer.plan.goal, answer.plan.space, answer.front
    else:
        report = report_of(answer)
        goal, space, front, cloud = report.goal, report.space, report.front, report.cloud
    if len(goal.objectives) < 2 or not front:
        raise InputError("pareto", "the search has one objective" if front else "no trial met every requirement",
                         expected="a search with two objectives (search(space, [..., ...]))")
    first, second = (each.name for each in goal.objectives[:2])
    columns = _placed(goal, [trial.verdict.values or () for trial in front])
    columns |= {"trial": Column("trial", [float(trial.number) for trial in front], "count"),
                **_knobs(space, front), "colour": Column("", ["Pareto front"] * len(front))}
    layers = [Layer("point", columns, size=70)]
    if cloud:
        every = _placed(goal, cloud) | {"colour": Column("", ["trials"] * len(cloud))}
        layers.insert(0, Layer("point", every, size=25, opacity=0.45))
    values = [[float(value) for layer in layers for value in layer.columns[name].values] for name in ("x", "y")]
    x, y = (Axis(name, quantity_of(name), log=logarithmic(each), zero=False, low=rim(each, -1), high=rim(each, 1))
            for name, each in zip((first, second), values))
    best = [min(each, key=lambda pair: (-1 if goal.objectives[place].maximize else 1) * pair) for place, each
            in enumerate(values)]
    return Plot("Pareto front", f"{len(front):,} designs that no other beats in every objective"
                + (f", and {len(cloud):,} feasible trials" if cloud else "")
                + f"; best {first} {rounded(best[0], quantity_of(first))}, best {second} "
                f"{rounded(best[1], quantity_of(second))}.",
                tuple(layers), x, y, {"Pareto front": PALETTE[1], **({"trials": PALETTE[0]} if cloud else {})},
                zoom=True, height=360)


def _placed(goal: Goal, rows: Sequence[Sequence[float]]) -> dict[str, Column]:
    names = [each.name for each in goal.objectives]
    keys = ("x", "y", *(f"objective {place}" for place in range(2, len(names))))
    return {key: Column(name, [float(row[place]) for row in rows], quantity_of(name))
            for place, (key, name) in enumerate(zip(keys, names))}


def _knobs(space: Space, trials: Sequence[Trial]) -> dict[str, Column]:
    """A column for each knob in which the trials differ."""
    rows = [space.values(trial.point) for trial in trials]
    found = {axis.name: [str(row.get(axis.name, "-")) for row in rows] for axis in space.axes}
    return {f"knob {place}": Column(name, values) for place, (name, values) in enumerate(found.items())
            if len(set(values)) > 1}


def logarithmic(values: Sequence[float]) -> bool:
    """Whether an axis of these values is logarithmic."""
    return min(values) > 0 and max(values) / min(values) > WIDE


def rim(values: Sequence[float], side: int) -> float:
    """An end of an axis, a little beyond the values."""
    low, high = min(values), max(values)
    if logarithmic(values):
        return float(high * (high / low) ** 0.04 if side > 0 else low / (high / low) ** 0.04)
    margin = 0.04 * (high - low or abs(high) or 1.0)
    return high + margin if side > 0 else low - margin if low < 0 else max(low - margin, 0.0)


def coordinates(answer: Searched) -> Plot:
    """The best designs, knob by knob (parallel coordinates): a row for each knob, a line for each design.

    Args:
        answer: a study file or several of one space and goal, or a `StudyReport`.

    Raises:
        InputError: where no trial met every requirement.
    """
    report = report_of(answer)
    chosen, name = report.top[:LINES], report.goal.objectives[0].name
    if not chosen:
        raise InputError("coordinates", "no trial met every requirement", expected="a study with a feasible design")
    axes = [axis for axis in report.space.axes if axis.size != 1]
    named = short_names([axis.name for axis in axes])
    strong = max(1, len(chosen) // 10)
    groups = {f"best {strong}" if strong > 1 else "best": PALETTE[1], "others": PALETTE[0]}
    best, others = groups
    places = list(range(len(chosen) - 1, -1, -1))       # the best last, so on top
    rows = [(place, axis) for place in places for axis in axes]
    values = {place: report.space.values(chosen[place].point) for place in places}
    columns = {
        "y": Column("knob", [named[axis.name] for _, axis in rows]),
        "value": Column("value", [str(values[place].get(axis.name, "-")) for place, axis in rows]),
        "objective": Column(name, [value_of(chosen[place]) for place, _ in rows], quantity_of(name)),
        "detail": Column("trial", [f"{chosen[place].number:,}" for place, _ in rows]),
        "colour": Column("", [best if place < strong else others for place, _ in rows]),
        "x": Column("", [_share(axis, chosen[place].point[report.space.axes.index(axis)]) for place, axis in rows],
                    "count"),
        "opacity": Column("", [0.9 if place < strong else 0.08 + 0.3 * (1 - place / len(chosen))
                               for place, _ in rows], "share")}
    labels = [(named[axis.name], at, text) for axis in axes for at, text in _labels(axis)]
    held = len(report.space.axes) - len(axes)
    return Plot("Best designs, knob by knob", f"A line for each of the {len(chosen)} best designs, the better the "
                "stronger." + (f" {held} knobs with one value are left out." if held else ""),
                (_uprights(list(named.values())), Layer("line", columns, size=1.5), *_texts(labels)),
                Axis("", "count", low=-0.06, high=1.06, shown=False),
                Axis(order=tuple(named.values()), tall=True, row=58),
                groups if strong < len(chosen) else {best: PALETTE[1]})


def _uprights(names: Sequence[str]) -> Layer:
    """A thin line along each knob."""
    return Layer("rule", {"y": Column("", list(names)), "x": Column("", [0.0] * len(names), "count"),
                          "x2": Column("", [1.0] * len(names), "count")}, colour="muted", size=0.7)


def _texts(labels: Sequence[tuple[str, float, str]]) -> Iterator[Layer]:
    """Values below their places on a knob's line; those at its ends stay within it."""
    aligned: dict[Literal["left", "center", "right"], list[tuple[str, float, str]]] = {}
    for name, at, text in labels:
        aligned.setdefault("left" if at == 0 else "right" if at == 1 else "center", []).append((name, at, text))
    for align, some in aligned.items():
        yield Layer("text", {"y": Column("", [each[0] for each in some]),
                             "x": Column("", [each[1] for each in some], "count"),
                             "text": Column("", [each[2] for each in some])}, colour="muted", align=align, down=13)


def _share(axis: Any, index: float) -> float:
    """Where a knob's value goes, 0 to 1."""
    if not axis.size:
        return float((index - axis.domain.low) / ((axis.domain.high - axis.domain.low) or 1.0))
    return index / (axis.size - 1) if axis.size > 1 and index >= 0 else 0.0


def _labels(axis: Any) -> Iterator[tuple[float, str]]:
    texts = [str(value) for value in axis.values] or [f"{axis.domain.low:g}", f"{axis.domain.high:g}"]
    few = len(texts) <= LABELS and sum(map(len, texts)) <= 40
    for place, text in enumerate(texts):
        if few or place in (0, len(texts) - 1):
            yield place / max(1, len(texts) - 1), text if len(text) <= 18 else text[:17] + "…"


def importance(answer: Searched) -> Plot:
    """Permutation importance of each knob: by how much the error of a model of the trials grows when its values are
    shuffled, over the variance of the objective.

    Args:
        answer: a study file or several of one space and goal, or a `StudyReport`.

    Raises:
        InputError: where there are too few trials for a model.
    """
    report = report_of(answer)
    if report.model is None:
        raise InputError("importance", report.model_problem.removesuffix("."), expected="a study of more trials")
    names, first = [each.knob for each in report.importances], most_important(report.importances)
    columns = {"y": Column("knob", names), "x": Column("", [0.0] * len(names), "share"),
               "x2": Column("importance", [each.share for each in report.importances], "share"),
               "low": Column("from", [each.low for each in report.importances], "share"),
               "high": Column("to", [each.high for each in report.importances], "share")}
    spans = {"y": columns["y"], "x": columns["low"], "x2": columns["high"]}
    said = f"{first} matters most for {report.goal.objectives[0].name}" if first else UNDECIDED.removesuffix(".")
    return Plot("Which knobs matter", f"{said}. Importance: how much a model of the trials errs more if the values of "
                "a knob are shuffled, as a share of the variance (lines: 95 %). The model's R² is "
                f"{report.model.r2:.3f} on trials that it has not seen; agents chose them: no uniform sample.",
                (Layer("bar", columns, colour=PALETTE[0]), Layer("rule", spans, colour="muted", size=2)),
                Axis("importance", "share"), Axis(order=tuple(names)))


def sobol(answer: Searched) -> Plot:
    """Sobol indices of each knob with their 95 % intervals: the share of the variance over uniform feasible designs
    that it explains by itself (first order), and with its interactions (total).

    Args:
        answer: a study of the agent `saltelli` in a file, or a `StudyReport` with one.

    Raises:
        InputError: without a study of the agent `saltelli`.
    """
    found = report_of(answer).sobol
    if found is None:
        raise InputError("sobol", report_of(answer).sobol_problem or "no study is a designed sample",
                         expected="a study of the agent saltelli")
    groups = {"first order": PALETTE[0], "total": PALETTE[1]}
    names = [sobol_name(each, each.total is None) for each in found.indices]
    layers = []
    for group, down in zip(groups, (-4.0, 4.0)):
        pairs = [(name, estimate) for name, each in zip(names, found.indices)
                 if (estimate := each.first if group == "first order" else each.total) is not None]
        columns = {"y": Column("knob", [name for name, _ in pairs]), "colour": Column("index", [group] * len(pairs)),
                   "low": Column("from", [each.low for _, each in pairs], "share"),
                   "high": Column("to", [each.high for _, each in pairs], "share")}
        spans = {"y": columns["y"], "colour": columns["colour"], "x": columns["low"], "x2": columns["high"]}
        layers += [Layer("rule", spans, down=down, size=2), Layer("point", columns | {
            "x": Column("share", [each.value for _, each in pairs], "share")}, down=down, size=45)]
    return Plot("Sobol indices", f"{found.designs:,} designs in {found.blocks:,} blocks; lines: 95 %. Knobs that "
                "constraints tie vary together.", tuple(layers), Axis("share of the variance", "share"),
                Axis(order=tuple(names)), groups)


def convergence(answer: Searched) -> Plot:
    """The best objective after some number of distinct designs, per agent: the median over its seeds, and the
    quartiles; and the designs themselves, down to the best quarter of them.

    Args:
        answer: a study file or several of one space and goal, or a `StudyReport`.

    Raises:
        InputError: where no trial met every requirement.
    """
    report = report_of(answer)
    name = report.goal.objectives[0].name
    quantity = quantity_of(name)
    rows = [(_agent(each), *row) for each in report.convergence
            for row in zip(each.designs.tolist(), each.median.tolist(), each.low.tolist(), each.high.tolist())
            if math.isfinite(row[1])]
    if not rows:
        raise InputError("convergence", "no trial met every requirement", expected="a study with a feasible design")
    values = [value for row in rows for value in row[2:] if math.isfinite(value)]
    columns = {"colour": Column("agent", [row[0] for row in rows]),
               "x": Column("distinct designs", [float(row[1]) for row in rows], "count"),
               "y": Column(f"best {name}", [row[2] for row in rows], quantity)}
    band = {"colour": Column("", [row[0] for row in rows]), "x": Column("", [float(row[1]) for row in rows], "count"),
            "y": Column("", [row[3] for row in rows], quantity), "y2": Column("", [row[4] for row in rows], quantity)}
    dots, left = _dots(report, values)
    values += dots["y"].values
    layers = [Layer("point", dots, size=20, opacity=0.45), Layer("line", columns, step=True)]
    bands = any(each.seeds > 1 for each in report.convergence)
    if bands:
        layers.insert(0, Layer("area", band, opacity=0.2))
    flat = len(report.convergence) == 1 and rows[0][2] == rows[-1][2]
    return Plot("Convergence", f"Best {name} after each number of distinct designs (line)"
                + (f": no design is better than the first, {rounded(rows[-1][2], quantity)}" if flat else
                   "" if report.contest else f"; at the end {rounded(rows[-1][2], quantity)}")
                + ". Dots: designs" + (f"; {left:,} worse ones are left out." if left else ".")
                + (" Bands: the quartiles over seeds." if bands else "")
                + (f" {report.contest.words}" if report.contest else ""), tuple(layers),
                Axis("distinct designs", "count"),
                Axis(f"best {name}", quantity, log=logarithmic(values), zero=False, low=rim(values, -1),
                     high=rim(values, 1)), ranked(row[0] for row in rows), zoom=True)


def _dots(report: StudyReport, line: Sequence[float]) -> tuple[dict[str, Column], int]:
    """The designs that are as good as some value of the line, or among the best quarter, and the number of others."""
    objective, quantity = report.goal.objectives[0], quantity_of(report.goal.objectives[0].name)
    side = -1 if objective.maximize else 1
    every = [(_agent(each), number, value) for each in report.convergence
             for number, value in zip(each.at.tolist(), each.own.tolist())]
    ordered = sorted(side * value for _, _, value in every)
    limit = max([ordered[(len(ordered) - 1) // 4], *(side * value for value in line)])
    shown = [each for each in every if side * each[2] <= limit]
    return {"colour": Column("agent", [each[0] for each in shown]),
            "x": Column("distinct designs", [float(each[1]) for each in shown], "count"),
            "y": Column(objective.name, [each[2] for each in shown], quantity)}, len(every) - len(shown)


def _agent(found: Convergence) -> str:
    return f"{found.agent} ({found.seeds} seed{'s' if found.seeds > 1 else ''})"


def tornado(answer: Searched) -> Plot:
    """One knob at a time around the best design: the objective at each other value of a knob, the knobs with the
    largest range first.

    Args:
        answer: a `StudyReport` with sensitivities (`report --recheck`).

    Raises:
        InputError: of a report without sensitivities.
    """
    report = report_of(answer)
    found = [each for each in report.sensitivities if each.verdict.values]
    if not found:
        raise InputError("tornado", "one knob at a time was not simulated", expected="report --recheck")
    name, best = report.goal.objectives[0].name, value_of(report.best[0][1])
    quantity = quantity_of(name)
    values = {each.knob: list[float]() for each in found}
    for each in found:
        values[each.knob].append((each.verdict.values or (math.nan,))[0])
    knobs = sorted(values, key=lambda knob: -(max(*values[knob], best) - min(*values[knob], best)))
    bars = _span(values, knobs, best, quantity)
    points = {"y": Column("knob", [each.knob for each in found]),
              "value": Column("value", [str(each.value) for each in found]),
              "x": Column(name, [(each.verdict.values or (0.0,))[0] for each in found], quantity),
              "times": Column("times the best", [(each.verdict.values or (0.0,))[0] / best for each in found], "share"),
              "moved": Column("also moved", [", ".join(each.moved) or "none" for each in found])}
    refused = len(report.sensitivities) - len(found)
    every = [value for each in values.values() for value in each] + [best]
    furthest = max(values[knobs[0]], key=lambda value: abs(value - best))
    return Plot("One knob at a time around the best design", f"{knobs[0]} moves {name} most, from "
                f"{rounded(best, quantity)} of the best design (line) to {rounded(furthest, quantity)}."
                + (f" {refused} values were refused." if refused else ""),
                (Layer("bar", bars, colour=PALETTE[0], opacity=0.4), Layer("point", points, colour=PALETTE[0], size=50),
                 Layer("rule", {"x": Column("best design", [best], quantity)}, colour="limit")),
                Axis(name, quantity, log=logarithmic(every), zero=False, low=rim(every, -1), high=rim(every, 1)),
                Axis(order=tuple(knobs)))


def _span(values: Mapping[str, Sequence[float]], knobs: Sequence[str], best: float, quantity: str) -> dict[str, Column]:
    return {"y": Column("knob", list(knobs)),
            "x": Column("from", [min(*values[knob], best) for knob in knobs], quantity),
            "x2": Column("to", [max(*values[knob], best) for knob in knobs], quantity)}


PARETO, COORDINATES, IMPORTANCE, SOBOL, CONVERGENCE, TORNADO = (
    Drawing(("report",), draw) for draw in (pareto, coordinates, importance, sobol, convergence, tornado))
