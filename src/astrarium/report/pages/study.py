"""Studies as one HTML page that needs nothing else: best designs, why, Pareto front, convergence, coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from astrarium.report.pages.html import escape, note, page, table, wide
from astrarium.report.pages.page import Page
from astrarium.report.svg.charts import Band, Span, bars, lines, parallel, points, ranges
from astrarium.report.tables.study import shown, sobol_name
from astrarium.report.tables.study_data import StudyReport
from astrarium.search import Trial
from astrarium.search.analysis import value_of
from astrarium.search.sobol import Estimate
from astrarium.search.studyfile import StoredStudy

__all__ = ["PAGE", "study_page"]

COORDINATES = 100      # designs drawn


def study_page(report: StudyReport) -> str:
    """The page."""
    space = report.space
    title = f"Search: {', '.join(each.name for each in report.goal.objectives)}"
    lead = (f"{space.count:,} feasible designs of {space.nominal:,} in {len(space.axes)} knobs. Network model: "
            f"{report.network_model}. Figures are those that the search simulated and stored"
            + ("; the re-checks and sensitivities were simulated for this page." if report.rechecks else "; --recheck "
               "simulates the best designs on another network model, and one knob at a time around the best."))
    return page(title, lead, (*_summary(report), *_best(report), *_why(report), *_front(report),
                              *_convergence(report), *_coordinates(report)))


def _summary(report: StudyReport) -> Iterator[str]:
    yield table(["study", "agent", "seed", "trials", "distinct", "infeasible", report.goal.objectives[0].name],
                [(each.path, each.agent, each.seed, f"{each.trials:,}", f"{each.distinct:,}", f"{each.infeasible:,}",
                  "" if each.best is None else shown(report.goal.objectives[0].name, each.best))
                 for each in report.summaries], "<<" + ">" * 5)


def _best(report: StudyReport) -> Iterator[str]:
    names = [each.name for each in report.goal.objectives]
    yield f"<h2>The {len(report.best)} best designs</h2>"
    if not report.best:
        yield "<p>No trial met every requirement.</p>"
        return
    knobs = [axis.name for axis in report.space.axes if _varies(report, axis.name)]
    rechecked = ["contention", "ratio"] if report.rechecks else []
    rows = [_row(report, place, study, trial, knobs) for place, (study, trial) in enumerate(report.best)]
    around = ["80 %", "ties with 1"] if any(report.intervals.spans()) else []
    yield table(["", "agent", "seed", "trial", *names, *around, *rechecked, *knobs], rows)
    if report.intervals.words:
        yield note(f"Interval: {report.intervals.words}.")
    same = [axis.name for axis in report.space.axes if axis.name not in knobs]
    if same:
        values = report.space.values(report.best[0][1].point)
        held = "; ".join(f"{escape(name)} = {escape(values.get(name, 'not chosen'))}" for name in same)
        yield f"<p>All of them: {held}.</p>"
    if report.rechecks:
        yield note("contention: the same designs with messages that queue for every link of their route. A ratio far "
                   "from 1 means that the search found a fault of its network model rather than a design.")


def _varies(report: StudyReport, name: str) -> bool:
    return len({str(report.space.values(trial.point).get(name)) for _, trial in report.best}) > 1


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
    return found + [values.get(name, "-") for name in knobs]


def _why(report: StudyReport) -> Iterator[str]:
    yield "<h2>Which knobs matter</h2>"
    if report.model is None:
        yield note(report.model_problem)
    else:
        yield wide(bars(report.importances))
        yield note("Permutation importance: by how much the error of a proxy model (extremely randomised trees) grows "
                   "on trials that it has not seen when a knob's values are shuffled, over the objective's variance. "
                   f"R² of the model {report.model.r2:.3f}, relative error {report.model.relative_error:.1%}. The "
                   "trials are those that agents chose, not a uniform sample.")
    yield from _sobol(report)
    if report.sensitivities:
        yield "<h3>One knob at a time around the best design</h3>"
        best = value_of(report.best[0][1])
        rows = [(each.knob, each.value, f"{each.verdict.values[0] / best:.3f}" if each.verdict.values
                 else f"refused: {each.verdict.problem[:80]}", ", ".join(each.moved)) for each in report.sensitivities]
        yield table(["knob", "value", f"{report.goal.objectives[0].name}, times the best", "also moved"], rows, "<>><")


def _sobol(report: StudyReport) -> Iterator[str]:
    if report.sobol is None:
        if report.sobol_problem:
            yield note(report.sobol_problem)
        return
    found = report.sobol
    what = ("the logarithm of " if found.logarithm else "") + escape(report.goal.objectives[0].name)
    yield f"<h3>Sobol indices of {what}</h3>"
    rows = [(sobol_name(each, each.total is None), [_span(each.first), _span(each.total)]) for each in found.indices]
    yield wide(ranges(["first order", "total"], rows, "share of the variance", 0.0))
    yield note("First order: the share of the variance over uniform feasible designs that a knob explains by itself; "
               "total: with its interactions. Bars: 95 %. Knobs that constraints tie vary together; one of them has a "
               f"first order only. {found.designs:,} designs in {found.blocks:,} blocks"
               + (f", of which {found.refused:,} were refused and are left out: the indices are of designs that run."
                  if found.refused else "."))


def _span(estimate: Estimate | None) -> Span | None:
    return None if estimate is None else (estimate.value, estimate.low, estimate.high)


def _front(report: StudyReport) -> Iterator[str]:
    objectives = report.goal.objectives
    if len(objectives) < 2:
        return
    yield f"<h2>Pareto front ({len(report.front)} designs)</h2>"
    every = [(each[0], each[1]) for each in report.cloud]
    best = [(trial.verdict.values[0], trial.verdict.values[1]) for trial in report.front if trial.verdict.values]
    names = [each.name for each in objectives]
    yield wide(points([("trials", every), ("front", best)], names[0], names[1], partial(shown, names[0]),
                      partial(shown, names[1])))
    yield table(["trial", *names],
                [(trial.number, *map(shown, names, trial.verdict.values or ()))
                 for trial in report.front[:50]], ">" * (1 + len(objectives)))


def _convergence(report: StudyReport) -> Iterator[str]:
    yield "<h2>Convergence</h2>"
    bands = [Band(f"{each.agent} ({each.seeds} seed{'s' if each.seeds > 1 else ''})", each.designs.tolist(),
                  each.median.tolist(), each.low.tolist(), each.high.tolist()) for each in report.convergence]
    if bands:
        name = report.goal.objectives[0].name
        yield wide(lines(bands, "distinct designs", f"best {name}", partial(shown, name)))
        yield note("Median over seeds; the band is the inter-quartile range.")


def _coordinates(report: StudyReport) -> Iterator[str]:
    if not report.best:
        return
    axes = report.space.axes
    labels = [[str(value) for value in axis.values] or [f"{axis.domain.low:g}", f"{axis.domain.high:g}"]
              for axis in axes]
    chosen = report.top[:COORDINATES]
    ways = [[_share(axis, index) for axis, index in zip(axes, trial.point)] for trial in chosen]
    worth = [1.0 - place / max(1, len(chosen)) for place in range(len(chosen))]
    yield f"<h2>The {len(chosen)} best designs, knob by knob</h2>"
    yield wide(parallel([_short(axis.name) for axis in axes], labels, ways, worth))
    yield note("A line per design, the better the stronger; red: the best tenth.")


def _share(axis: Any, index: float) -> float:
    if not axis.size:
        return float((index - axis.domain.low) / ((axis.domain.high - axis.domain.low) or 1.0))
    return index / (axis.size - 1) if axis.size > 1 and index >= 0 else 0.5 if axis.size == 1 else 0.0


def _short(name: str) -> str:
    return name.removeprefix("network.").removeprefix("collective.").removeprefix("workload.")



PAGE = Page("report", study_page)
