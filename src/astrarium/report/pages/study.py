"""Studies as one HTML page that needs nothing else: best designs, why, Pareto front, convergence, coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from astrarium.config import dumps
from astrarium.design import Design
from astrarium.report.pages.about import about_base, subject
from astrarium.report.pages.figures import figures
from astrarium.report.pages.html import Download, details, escape, note, page, section, table
from astrarium.report.pages.page import Page
from astrarium.report.tables.study import UNDECIDED, nearest_table, short_names, shown
from astrarium.report.tables.study_answer import hidden_plots, infeasible_words, study_answer
from astrarium.report.tables.study_data import LISTED, StudyReport
from astrarium.report.tables.study_fit import TOO_LARGE, fits
from astrarium.search import Trial
from astrarium.search.analysis import most_important, value_of
from astrarium.search.best import thinned
from astrarium.search.studyfile import StoredStudy
from astrarium.units import format_bytes

__all__ = ["PAGE", "study_page"]

LONGEST = 200   # letters of a refusal


def study_page(report: StudyReport) -> str:
    """The page."""
    space = report.space
    facts = {"space": f"{space.count:,} feasible designs of {space.nominal:,} in {len(space.axes)} knobs"}
    best = space.design(report.best[0][1].point) if report.best else space.base
    about = about_base(best, "best.yaml" if report.best else "base.yaml", **facts)
    names = _short(report, [each.name for each in report.goal.objectives])
    title = f"{subject(best) or 'Search'}: {' against '.join(names)}"
    return page(title, study_answer(report), (*_best(report), *figures("report", report, hidden_plots(report)),
                                              *_front(report), *_why(report), _summary(report)), about)


def _summary(report: StudyReport) -> str:
    objective, infeasible = report.goal.objectives[0].name, infeasible_words(report)
    source = "Figures are those that the search simulated and stored" + (
        "; the re-checks and sensitivities were simulated for this page." if report.rechecks else
        "; --recheck simulates the best designs on another network model, and one knob at a time around the best.")
    return section("Studies", table(
        ["study", "agent", "seed", "trials", "distinct", "infeasible", objective],
        [(each.path, each.agent, each.seed, f"{each.trials:,}", f"{each.distinct:,}", f"{each.infeasible:,}",
          "" if each.best is None else shown(objective, each.best)) for each in report.summaries],
        "<<" + ">" * 5, "Studies"), note(" ".join(filter(None, [infeasible and f"{infeasible}.", source]))))


def _best(report: StudyReport) -> Iterator[str]:
    names = [each.name for each in report.goal.objectives]
    if not report.best:
        if report.nearest is not None:
            near = nearest_table(report.space, report.nearest)
            rows = [*near.rows, ("design", _design(report, report.nearest.trial))]
            yield section(f"Nearest to all requirements (trial {report.nearest.trial.number})",
                          table((), rows, near.align, "Nearest"))
        return
    varying = _varying(report, [trial for _, trial in report.best])
    knobs, memory = [name for name in varying if name not in names], _memory(report, [one for _, one in report.best])
    rechecked = ["contention", "ratio"] if report.rechecks else []
    rows = [_row(report, place, study, trial, knobs, memory) for place, (study, trial) in enumerate(report.best)]
    around = ["80 % expected", "undecided against 1"] if any(report.intervals.spans()) else []
    agent = ["agent", "seed"] if len(report.summaries) > 1 else []
    head = ["", *_short(report, [*names, *knobs]), *(["peak memory"] if memory else []), *around, *rechecked, *agent,
            "trial", "design"]
    parts = [table(head, rows, ">" * len(head), "Best designs")]
    if report.intervals.words:
        parts.append(details("How the intervals were taken", note(f"{report.intervals.words}.")))
    same = [axis.name for axis in report.space.axes if axis.name not in varying]
    if same:
        values = report.space.values(report.best[0][1].point)
        parts.append(note("All of them: " + "; ".join(f"{name} = {values.get(name, 'not chosen')}" for name in same)))
    if report.rechecks:
        parts.append(note("contention: the same designs with messages that queue for every link of their route. A "
                          "ratio far from 1 means that the search found a fault of its network model rather than a "
                          "design."))
    yield section(f"The {len(report.best)} best designs", *parts)


def _varying(report: StudyReport, trials: Sequence[Trial]) -> list[str]:
    """Names of the knobs in which trials differ."""
    rows = [report.space.values(trial.point) for trial in trials]
    return [axis.name for axis in report.space.axes if len({str(row.get(axis.name)) for row in rows}) > 1]


def _memory(report: StudyReport, trials: Sequence[Trial]) -> list[str]:
    """The peak memory of each trial, and whether it does not fit; nothing if it is unknown of all, or an objective and
    all fit."""
    known = [report.memory.get(trial.design) for trial in trials]
    fit = fits(report.space, trials, known)
    if not any(known) or (TOO_LARGE not in fit and any(each.name == "peak_memory" for each in report.goal.objectives)):
        return []
    return ["" if peak is None else format_bytes(peak) + f": {TOO_LARGE}" * (said == TOO_LARGE)
            for peak, said in zip(known, fit)]


def _design(report: StudyReport, trial: Trial) -> Download | str:
    """The design of a trial, to save."""
    design = report.space.design(trial.point)
    return Download("save", f"trial{trial.number}.yaml", dumps(design)) if type(design) is Design else ""


def _row(report: StudyReport, place: int, study: StoredStudy, trial: Trial, knobs: Sequence[str],
         memory: Sequence[str]) -> list[Any]:
    values = report.space.values(trial.point)
    found: list[Any] = [place + 1]
    found += [shown(each.name, value) for each, value in zip(report.goal.objectives, trial.verdict.values or ())]
    found += [values.get(name, "-") for name in knobs] + list(memory[place:place + 1])
    around = report.intervals.spans()
    found += [around[place], "yes" if report.intervals.ties[place] else ""] if any(around) else []
    if report.rechecks:
        again = report.rechecks[place]
        if again.other is None:
            found += ["refused", _cut(again.problem)]
        else:
            found += [shown(report.goal.objectives[0].name, again.other), f"{again.other / value_of(trial):.3f}"]
    found += [study.plan.agent_name, study.plan.seed] if len(report.summaries) > 1 else []
    return [*found, trial.number, _design(report, trial)]


def _cut(problem: str) -> str:
    return problem if len(problem) <= LONGEST else f"{problem[:LONGEST - 1]}…"


def _why(report: StudyReport) -> Iterator[str]:
    """What the plots do not say of the knobs."""
    if report.model is None:
        yield section("Which knobs matter", note(report.model_problem), half=True)
    else:
        shares = [(each.knob, f"{each.share:.3f}", f"{each.low:.3f} to {each.high:.3f}") for each in report.importances]
        parts = (table(("knob", "importance", "95 %"), shares, "<>>", "Importances"),
                 note("Importance: how much a model of the trials errs more if the values of a knob are shuffled, as a "
                      f"share of the variance. R² of the model {report.model.r2:.3f}, relative error "
                      f"{report.model.relative_error:.1%}. The trials are those that agents chose, not a uniform "
                      "sample."))
        if most_important(report.importances):
            yield section("Importance of knobs", *parts, half=True)
        else:
            yield section("Which knobs matter", f"<p>{escape(UNDECIDED)}</p>", details("The estimates", *parts),
                          half=True)
    if report.sobol is None and report.sobol_problem:
        yield section("Sobol indices", note(report.sobol_problem), half=True)
    if report.sensitivities:
        best = value_of(report.best[0][1])
        moved = [(each.knob, each.value, f"{each.verdict.values[0] / best:.3f}" if each.verdict.values
                 else f"refused: {_cut(each.verdict.problem)}", ", ".join(each.moved)) for each in report.sensitivities]
        yield section("One knob at a time around the best design", table(
            ["knob", "value", f"{report.goal.objectives[0].name}, times the best", "also moved"], moved, "<>><",
            "One knob at a time"))


def _front(report: StudyReport) -> Iterator[str]:
    objectives = report.goal.objectives
    if len(objectives) < 2:
        return
    names = [each.name for each in objectives]
    listed = thinned(report.front, LISTED)
    knobs, memory = [name for name in _varying(report, listed) if name not in names], _memory(report, listed)
    rows = [(*map(shown, names, trial.verdict.values or ()), *(values.get(name, "-") for name in knobs),
             *memory[place:place + 1], trial.number, _design(report, trial))
            for place, trial in enumerate(listed) for values in [report.space.values(trial.point)]]
    more = note(f"{LISTED} of {len(report.front):,} are listed, evenly.") if len(report.front) > LISTED else ""
    head = [*_short(report, [*names, *knobs]), *(["peak memory"] if memory else []), "trial", "design"]
    yield section(f"Designs of the Pareto front ({len(report.front)})",
                  table(head, rows, ">" * len(head), "Pareto front"), more)


def _short(report: StudyReport, names: Sequence[str]) -> list[str]:
    """Knobs, and objectives that are knobs, as heads of columns."""
    short = short_names([*(axis.name for axis in report.space.axes), *(each.name for each in report.goal.objectives)])
    return [short[name] for name in names]


PAGE = Page("report", study_page)
