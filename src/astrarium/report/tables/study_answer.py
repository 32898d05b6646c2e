"""What a search found, in a sentence or two: the best design against the base, the trials, what is undecided."""

from __future__ import annotations

from collections.abc import Iterator

from astrarium.report.tables.alike import alike
from astrarium.report.tables.study import missed, shown
from astrarium.report.tables.study_data import StudyReport
from astrarium.report.tables.study_fit import unfit_sentence
from astrarium.search.analysis import most_important
from astrarium.search.starts import base_name

__all__ = ["hidden_plots", "infeasible_words", "study_answer"]


def study_answer(report: StudyReport) -> str:
    """The answer: best of each objective against the base, trials, what is undecided."""
    trials = sum(each.trials for each in report.summaries)
    distinct = f", {report.summaries[0].distinct:,} distinct designs" if len(report.summaries) == 1 else ""
    infeasible = infeasible_words(report)
    tried = f"{trials:,} trials{distinct} of the space's {report.space.count:,}"
    tried += f"; {infeasible}" if infeasible else ""
    if not report.best:
        return "".join(_nothing(report, trials, tried))
    found = "; ".join(_found(report))
    front = f" {len(report.front):,} designs are on the Pareto front." if len(report.goal.objectives) > 1 else ""
    undecided, best = list(_undecided(report)), report.best[0][1]
    unfit = unfit_sentence(report.space, best, report.memory.get(best.design))
    return (f"{found[:1].upper()}{found[1:]} ({tried}).{front}{f' {unfit}' if unfit else ''}"
            + (f" Undecided: {'; '.join(undecided)}." if undecided else ""))


def _nothing(report: StudyReport, trials: int, tried: str) -> Iterator[str]:
    """Why there is no best design, what the trials miss, and which one misses least."""
    yield f"{report.nothing[:1].upper()}{report.nothing[1:]} ({tried})."
    yield from (f" Missed: {text}." for text in missed(report.goal, report.nearest, trials))
    if report.nearest is not None and len(report.goal.requirements) > 1:
        yield f" Trial {report.nearest.trial.number} comes nearest to meeting all."


def infeasible_words(report: StudyReport) -> str:
    """How many trials were refused, how many ran and miss a requirement, how many the cap stopped; empty if none."""
    infeasible, refused, capped = (sum(counts) for counts in zip(*((each.infeasible, each.refused, each.capped)
                                                                   for each in report.summaries)))
    short = infeasible - refused
    parts = [f"{refused:,} refused without a run"] * bool(refused)
    parts += [f"{short:,} miss{'es' * (short == 1)} a requirement"] * bool(short)
    said = [f"{infeasible:,} infeasible: {', '.join(parts)}"] * bool(parts)
    return "; ".join(said + [f"{capped:,} stopped at the cap"] * bool(capped))


def hidden_plots(report: StudyReport) -> tuple[str, ...]:
    """Plots that a page leaves out, as they would only show that nothing is decided."""
    return ("importance",) if report.importances and not most_important(report.importances) else ()


def _found(report: StudyReport) -> Iterator[str]:
    """The best value of each objective, and how far it is from the base's."""
    several = len(report.goal.objectives) > 1
    trials = report.front if several else [report.best[0][1]]
    base = None if report.base is None or not report.base.verdict.feasible else report.base.verdict.values
    name = base_name(report.space)
    for place, objective in enumerate(report.goal.objectives):
        best = min(trials, key=lambda trial: (-1 if objective.maximize else 1) * (trial.verdict.values or ())[place])
        value = (best.verdict.values or ())[place]
        yield f"best {objective.name} {shown(objective.name, value)} in trial {best.number}" + (
            "" if base is None else f", {_against(objective.name, value, base[place], name)}")
    if base is None:
        yield "the base was not tried" if report.base is None else f"the {name} itself does not meet every requirement"


def _against(name: str, value: float, base: float, called: str) -> str:
    if alike(value, base):
        return f"as good as the {called}"
    if base == 0 or value > 2 * base:
        change = f"{value / base:,.3g} times" if base > 0 else "against"
    else:
        change = f"{100 * abs(value / base - 1):.3g} % {'less' if value < base else 'more'} than"
    return f"{change} the {called}'s {shown(name, base)}"


def _undecided(report: StudyReport) -> Iterator[str]:
    ties = report.intervals.ties
    if any(ties):
        yield (f"which design has the best {report.goal.objectives[0].name} ({sum(map(bool, ties))} of the next "
               f"{len(ties) - 1} are undecided against the first)")
    if report.model is not None and not most_important(report.importances):
        yield "which knob matters most (the intervals overlap)"
    if report.contest is not None and report.contest.best is None:
        yield "which agent is best"
