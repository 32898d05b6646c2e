"""Studies as one HTML page that needs nothing else: best designs, why, Pareto front, convergence, coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from astrarium.config import dumps
from astrarium.design import Design
from astrarium.report.pages.about import about_base
from astrarium.report.pages.html import Download, note, page, section, table, wide
from astrarium.report.pages.page import Page
from astrarium.report.svg.charts import Band, Span, bars, lines, parallel, points, ranges
from astrarium.report.tables.study import shown, sobol_name
from astrarium.report.tables.study_data import StudyReport
from astrarium.search import Trial
from astrarium.search.analysis import value_of
from astrarium.search.sobol import Estimate
from astrarium.search.studyfile import StoredStudy

__all__ = ["PAGE", "study_page"]

COORDINATES, FRONT = 100, 50      # designs drawn, and listed


def study_page(report: StudyReport) -> str:
    """The page."""
    space = report.space
    title = f"Search: {', '.join(each.name for each in report.goal.objectives)}"
    lead = ("Figures are those that the search simulated and stored" + (
        "; the re-checks and sensitivities were simulated for this page." if report.rechecks else
        "; --recheck simulates the best designs on another network model, and one knob at a time around the best."))
    facts = {"space": f"{space.count:,} feasible designs of {space.nominal:,} in {len(space.axes)} knobs"}
    best = space.design(report.best[0][1].point) if report.best else space.base
    return page(title, lead, (*_best(report), *_front(report), *_why(report), *_convergence(report),
                              *_coordinates(report), _summary(report)), about_base(best, "best.yaml", **facts))


def _summary(report: StudyReport) -> str:
    objective = report.goal.objectives[0].name
    return section("Studies", table(
        ["study", "agent", "seed", "trials", "distinct", "infeasible", objective],
        [(each.path, each.agent, each.seed, f"{each.trials:,}", f"{each.distinct:,}", f"{each.infeasible:,}",
          "" if each.best is None else shown(objective, each.best)) for each in report.summaries],
        "<<" + ">" * 5, "Studies"))


def _best(report: StudyReport) -> Iterator[str]:
    names = [each.name for each in report.goal.objectives]
    if not report.best:
        yield section("The best designs", "<p>No trial met every requirement.</p>")
        return
    knobs = [axis.name for axis in report.space.axes if _varies(report, [trial for _, trial in report.best], axis.name)]
    rechecked = ["contention", "ratio"] if report.rechecks else []
    rows = [_row(report, place, study, trial, knobs) for place, (study, trial) in enumerate(report.best)]
    around = ["80 %", "ties with 1"] if any(report.intervals.spans()) else []
    parts = [table(["", "agent", "seed", "trial", *names, *around, *rechecked, *map(_short, knobs), "design"], rows,
                   title="Best designs")]
    parts += [note(f"Interval: {report.intervals.words}.")] if report.intervals.words else []
    same = [axis.name for axis in report.space.axes if axis.name not in knobs]
    if same:
        values = report.space.values(report.best[0][1].point)
        parts.append(note("All of them: " + "; ".join(f"{name} = {values.get(name, 'not chosen')}" for name in same)))
    if report.rechecks:
        parts.append(note("contention: the same designs with messages that queue for every link of their route. A "
                          "ratio far from 1 means that the search found a fault of its network model rather than a "
                          "design."))
    yield section(f"The {len(report.best)} best designs", *parts)


def _varies(report: StudyReport, trials: Sequence[Trial], name: str) -> bool:
    return len({str(report.space.values(trial.point).get(name)) for trial in trials}) > 1


def _design(report: StudyReport, trial: Trial) -> Download | str:
    """The design of a trial, to save."""
    design = report.space.design(trial.point)
    return Download("save", f"trial{trial.number}.yaml", dumps(design)) if type(design) is Design else ""


def _row(report: StudyReport, place: int, study: StoredStudy, trial: Trial, knobs: Sequence[str]) -> list[Any]:
    values = report.space.values(trial.point)
    found: list[Any] = [place + 1, study.plan.agent_name, study.plan.seed, trial.number]
    found += [shown(each.name, value) for each, value in zip(report.goal.objectives, trial.verdict.values or ())]
    around = report.intervals.spans()
    found += [around[place], "yes" if report.intervals.ties[place] else ""] if any(around) else []
    if report.rechecks:
        again = report.rechecks[place]
        if again.other is None:
            found += ["refused", again.problem[:80]]
        else:
            found += [shown(report.goal.objectives[0].name, again.other), f"{again.other / value_of(trial):.3f}"]
    return [*found, *(values.get(name, "-") for name in knobs), _design(report, trial)]


def _why(report: StudyReport) -> Iterator[str]:
    if report.model is None:
        parts = [note(report.model_problem)]
    else:
        parts = [wide(bars(report.importances)), note(
            "Permutation importance: by how much the error of a proxy model (extremely randomised trees) grows "
            "on trials that it has not seen when a knob's values are shuffled, over the objective's variance. "
            f"R² of the model {report.model.r2:.3f}, relative error {report.model.relative_error:.1%}. The "
            "trials are those that agents chose, not a uniform sample.")]
    yield section("Which knobs matter", *parts, half=True)
    yield from _sobol(report)
    if report.sensitivities:
        best = value_of(report.best[0][1])
        rows = [(each.knob, each.value, f"{each.verdict.values[0] / best:.3f}" if each.verdict.values
                 else f"refused: {each.verdict.problem[:80]}", ", ".join(each.moved)) for each in report.sensitivities]
        yield section("One knob at a time around the best design", table(
            ["knob", "value", f"{report.goal.objectives[0].name}, times the best", "also moved"], rows, "<>><",
            "One knob at a time"))


def _sobol(report: StudyReport) -> Iterator[str]:
    if report.sobol is None:
        if report.sobol_problem:
            yield section("Sobol indices", note(report.sobol_problem), half=True)
        return
    found = report.sobol
    what = ("the logarithm of " if found.logarithm else "") + report.goal.objectives[0].name
    rows = [(sobol_name(each, each.total is None), [_span(each.first), _span(each.total)]) for each in found.indices]
    said = note("First order: the share of the variance over uniform feasible designs that a knob explains by itself; "
                "total: with its interactions. Bars: 95 %. Knobs that constraints tie vary together; one of them has a "
                f"first order only. {found.designs:,} designs in {found.blocks:,} blocks"
                + (f", of which {found.refused:,} were refused and are left out: the indices are of designs that run."
                   if found.refused else "."))
    yield section(f"Sobol indices of {what}",
                  wide(ranges(["first order", "total"], rows, "share of the variance", 0.0)), said, half=True)


def _span(estimate: Estimate | None) -> Span | None:
    return None if estimate is None else (estimate.value, estimate.low, estimate.high)


def _front(report: StudyReport) -> Iterator[str]:
    objectives = report.goal.objectives
    if len(objectives) < 2:
        return
    every = [(each[0], each[1]) for each in report.cloud]
    best = [(trial.verdict.values[0], trial.verdict.values[1]) for trial in report.front if trial.verdict.values]
    names = [each.name for each in objectives]
    listed = report.front[:FRONT]
    knobs = [axis.name for axis in report.space.axes if _varies(report, listed, axis.name)]
    rows = [(trial.number, *map(shown, names, trial.verdict.values or ()),
             *(values.get(name, "-") for name in knobs), _design(report, trial))
            for trial in listed for values in [report.space.values(trial.point)]]
    more = note(f"The first {FRONT} of {len(report.front):,} are listed.") if len(report.front) > FRONT else ""
    yield section(f"Pareto front ({len(report.front)} designs)",
                  wide(points([("trials", every), ("front", best)], names[0], names[1], partial(shown, names[0]),
                              partial(shown, names[1]))),
                  table(["trial", *names, *map(_short, knobs), "design"], rows, ">" * (2 + len(names) + len(knobs)),
                        "Pareto front"), more)


def _convergence(report: StudyReport) -> Iterator[str]:
    bands = [Band(f"{each.agent} ({each.seeds} seed{'s' if each.seeds > 1 else ''})", each.designs.tolist(),
                  each.median.tolist(), each.low.tolist(), each.high.tolist()) for each in report.convergence]
    if bands:
        name = report.goal.objectives[0].name
        yield section("Convergence", wide(lines(bands, "distinct designs", f"best {name}", partial(shown, name))),
                      note("Median over seeds; the band is the inter-quartile range."), half=True)


def _coordinates(report: StudyReport) -> Iterator[str]:
    if not report.best:
        return
    axes = report.space.axes
    labels = [[str(value) for value in axis.values] or [f"{axis.domain.low:g}", f"{axis.domain.high:g}"]
              for axis in axes]
    chosen = report.top[:COORDINATES]
    ways = [[_share(axis, index) for axis, index in zip(axes, trial.point)] for trial in chosen]
    worth = [1.0 - place / max(1, len(chosen)) for place in range(len(chosen))]
    yield section(f"The {len(chosen)} best designs, knob by knob",
                  wide(parallel([_short(axis.name) for axis in axes], labels, ways, worth)),
                  note("A line per design, the better the stronger; red: the best tenth."))


def _share(axis: Any, index: float) -> float:
    if not axis.size:
        return float((index - axis.domain.low) / ((axis.domain.high - axis.domain.low) or 1.0))
    return index / (axis.size - 1) if axis.size > 1 and index >= 0 else 0.5 if axis.size == 1 else 0.0


def _short(name: str) -> str:
    return name.removeprefix("network.").removeprefix("collective.").removeprefix("workload.")


PAGE = Page("report", study_page)
