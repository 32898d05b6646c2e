"""A study as tables and as plain data."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict

from astrarium.cost import FIGURES
from astrarium.report.plot.quantities import quantity_of
from astrarium.report.tables.study_bandwidth import per_npu
from astrarium.report.tables.study_data import StudyReport
from astrarium.report.tables.study_fit import TOO_LARGE, fits, unfit_sentence
from astrarium.report.tables.study_interval import study_intervals
from astrarium.report.tables.table import Table
from astrarium.search import Goal, Space, Study, Trial
from astrarium.search.analysis import most_important, value_of
from astrarium.search.best import Ranked, differing, ranked, store_memory, stored_memory, thinned
from astrarium.search.fidelity import Correlation
from astrarium.search.sobol import Index, Sobol
from astrarium.search.starts import base_name
from astrarium.search.trial import Nearest
from astrarium.units import Quantity, format_bytes, format_flop_rate, format_rate, format_time

__all__ = ["UNDECIDED", "best_table", "missed", "nearest_table", "report_plain", "report_tables", "short_names",
           "shown", "sobol_name", "study_best", "study_plain", "study_tables"]

SHOWN, LISTED = 10, 50      # designs in detail; trials of a front in a list
UNDECIDED = "Which knob matters most is undecided: the intervals overlap."
LONGEST = 100   # characters of a reason
DOLLARS = 1000  # prices from here on are shown without cents
SECTIONS = ("network.", "collective.", "workload.")    # that names of knobs may lack
PRICES = ("network_cost", "system_cost", "capital_cost")
LATENCY = re.compile("(ttft|tpot|itl|latency)_(mean|p50|p90|p99)")
UNITS = {"time": format_time, "bytes": format_bytes, "rate": format_rate, "flop_rate": format_flop_rate}


def study_plain(study: Study, best: Sequence[Ranked] | None = None) -> dict[str, Any]:
    """What `astrarium search --json` prints. `best` is null where no trial is feasible. `best`: those of `study_best`,
    where they are known."""
    space, base, first = study.plan.space, study.plan.space.base, study.base
    found: dict[str, Any] = {
        "trials": study.trials, "distinct": study.distinct, "refused": study.refused,
        "elapsed_ns": round(study.seconds * 1e9),
        "trials_per_s": round(study.fresh / study.seconds, 3) if study.seconds else 0.0,
        "best": None if study.best is None else _trial(study, study.best),
        "base": None if first is None else {"number": first.number, "objectives": study.objectives(first)},
        "agent": study.plan.agent_name, "seed": study.plan.seed, "feasible_points": space.count,
        "nominal_points": space.nominal, "exhausted": study.exhausted,
        "network_model": None if base is None else base.network.backend, "notes": list(study.notes),
        **({"problem": study.problem, "nearest": _nearest(study)} if study.best is None else {})}
    if study.fidelity:
        found["fidelity"] = [fidelity_plain(each) for each in study.fidelity]
    if study.proof is not None:
        finite = math.isfinite(study.proof.bound)
        found |= {"bound": study.proof.bound if finite else None, "gap": study.proof.gap if finite else None,
                  "proved": study.proof.complete}
    if len(study.plan.goal.objectives) > 1:
        found["front"] = [_trial(study, trial) for trial in study.front]
    ten = study_best(study) if best is None else best
    within = study_intervals(space, study.plan.goal, [each.trial for each in ten])
    found["ten_best"] = [_trial(study, each.trial) | _extras(each) | within.plain(place)
                         for place, each in enumerate(ten)]
    return found


def fidelity_plain(found: Correlation) -> dict[str, Any]:
    """The rank correlation of a cheaper network model with that of a search, as plain data."""
    value, low, high = found.interval or (None, None, None)
    return {"model": found.model, "dear": found.dear, "designs": len(found.drawn), "spearman": value, "low": low,
            "high": high, "verdict": found.verdict, "drawn": found.drawn, "promoted": found.promoted}


def _trial(study: Study, trial: Trial) -> dict[str, Any]:
    values = {name: _value(value) for name, value in study.values(trial).items()}
    return {"number": trial.number, "objectives": study.objectives(trial), "design": values}


def _nearest(study: Study) -> dict[str, Any] | None:
    near = study.nearest
    if near is None:
        return None
    short = [max(0.0, -slack) for slack in near.trial.verdict.slacks]
    return _trial(study, near.trial) | {
        "missed_by": dict(zip(study.plan.goal.requirements, short)),
        "trials_that_miss": dict(zip(study.plan.goal.requirements, near.missed))}


def _extras(each: Ranked) -> dict[str, Any]:
    return {"peak_memory": each.memory, **({each.cost_of: each.cost} if each.cost_of else {})}


def _value(value: Any) -> Any:
    if isinstance(value, Quantity):
        return str(value)
    return [_value(each) for each in value] if isinstance(value, tuple) else value


def shown(name: str, value: float) -> str:
    """An objective for a person: times, sizes, rates and prices with a unit."""
    if name in PRICES and value >= DOLLARS:
        return f"${value:,.0f}"
    figure = FIGURES.get(name)
    if figure is not None and figure.shown is not str:
        text = figure.shown(value)
        return f"${text.removesuffix(' US dollars')}" if text.endswith(" US dollars") else text
    unit = UNITS.get(quantity_of(name))
    return f"{value:.6g}" if unit is None else unit(value)


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Names of knobs without their section (`workload.tp` as `tp`), where that is unique."""
    short = {name: name.partition(".")[2] if name.startswith(SECTIONS) else name for name in names}
    return {name: one if list(short.values()).count(one) == 1 else name for name, one in short.items()}


def study_tables(study: Study, title: str, best: Sequence[Ranked] | None = None) -> Iterator[Table]:
    """How the search went, the best design, and the front where there are several objectives. `best`: as above."""
    ten = [] if study.best is None else study_best(study) if best is None else best
    yield Table(title, "<<", _course(study, ten))
    if study.best is not None:
        rows = [(name, str(_value(value))) for name, value in study.values().items()]
        yield Table(f"{_best(study.plan.goal)} (trial {study.best.number})", "<<", rows)
    elif study.nearest is not None:
        yield nearest_table(study.plan.space, study.nearest)
    if len(study.plan.goal.objectives) > 1 and study.front:
        yield _front_table(study.plan.goal, study.front)
    if study.best is not None:
        yield from best_table(ten, study.plan.space, study.plan.goal)


def _best(goal: Goal) -> str:
    """What the best trial is called: of several objectives it is so in the first one alone."""
    return "best design" if len(goal.objectives) == 1 else f"best by {goal.objectives[0].name} alone"


def _front_table(goal: Goal, front: Sequence[Trial], *, numbered: bool = True) -> Table:
    """Objectives of the Pareto front, spread over it where it is long, and if `numbered` the numbers of its trials."""
    names, listed = [each.name for each in goal.objectives], thinned(front, LISTED)
    rows = [[*([str(trial.number)] if numbered else []),
             *(shown(name, value) for name, value in zip(names, trial.verdict.values or (), strict=True))]
            for trial in listed]
    more = f", {len(listed)} of {len(front)}, evenly" if len(listed) < len(front) else ""
    head = [*(["trial"] if numbered else []), *names]
    return Table(f"Pareto front{more}", ">" * len(head), rows, head)


def study_best(study: Study, path: str | None = None, progress: Callable[[int, int], None] | None = None
               ) -> list[Ranked]:
    """The ten best designs; of several objectives ten of the front. `path`: the study's file, where memory of
    designs that no trial was judged by is looked up and kept."""
    shown = study.top if len(study.plan.goal.objectives) == 1 else thinned(study.front, SHOWN)
    known = {} if path is None else stored_memory(path)
    found = ranked(study.plan.space, study.plan.goal, shown, memory_of=known, progress=progress)
    new = {each.trial.design: each.memory for each in found if each.memory is not None}
    if path is not None and new.keys() - known.keys():
        store_memory(path, new)
    return found


def best_table(best: Sequence[Ranked], space: Space, goal: Goal) -> Iterator[Table]:
    """One design a column: trial, objectives with intervals and ties, memory, cost, and the knobs in which they
    differ."""
    if len(best) < 2:
        return
    trials, objectives = [each.trial for each in best], [each.name for each in goal.objectives]
    within = study_intervals(space, goal, trials)
    rows = [["trial", *(str(trial.number) for trial in trials)]]
    for place, name in enumerate(objectives):
        rows.append([name, *(shown(name, (trial.verdict.values or ())[place]) for trial in trials)])
        around = within.spans(place)
        rows += [["  80 %", *around]] if any(around) else []
    if any(within.ties):
        rows.append(["undecided against 1", *("yes" if each else "" for each in within.ties)])
    known = [("peak memory", ["" if each.memory is None else format_bytes(each.memory) for each in best])]
    known += [(figure.replace("_", " "), [f"${each.cost or 0:,.0f}" if each.cost_of == figure else "" for each in best])
              for figure in dict.fromkeys(each.cost_of for each in best) if figure]
    for title, cells in known:
        if any(cells) and title.replace(" ", "_") not in objectives:
            rows.append([title, *cells])
        if title == "peak memory":
            rows += _unfit(space, best)
    rows += [[name, *("" if value is None else str(_value(value)) for value in values)]
             for name, values in differing(space, trials)]
    rows += per_npu(space, trials)
    which = f"the {len(best)} best designs" if len(objectives) == 1 else f"{len(best)} designs of the Pareto front"
    yield Table(f"{which}, and the knobs in which they differ", "<" + ">" * len(best), rows,
                ["", *(str(place + 1) for place in range(len(best)))])


def _unfit(space: Space, best: Sequence[Ranked]) -> list[list[str]]:
    """A row that says which designs do not fit, if some do not."""
    found = fits(space, [each.trial for each in best], [each.memory for each in best])
    return [["  of memory.capacity", *found]] if TOO_LARGE in found else []


def _proof(study: Study) -> str:
    proof, name = study.proof, study.plan.goal.objectives[0].name
    assert proof is not None
    if len(study.plan.goal.objectives) > 1:
        return "the front is exact: no design of the space beats it or adds a value" if proof.complete else "none yet"
    if proof.gap == 0 and proof.complete:
        return "optimal: no design of the space is better"
    if not math.isfinite(proof.bound):
        return "none yet"
    return f"no design is below {shown(name, proof.bound)}, {proof.gap:.2%} under the best"


def _base(study: Study, base: Trial) -> str:
    """The base's first objective beside the best one's."""
    first = study.plan.goal.objectives[0]
    if base.verdict.values is None:
        return "refused: " + base.verdict.problem.partition("\n")[0][:LONGEST]
    value, best = base.verdict.values[0], study.objectives()[first.name]
    if not base.verdict.feasible:
        return f"{shown(first.name, value)} (trial {base.number}), which does not meet every requirement"
    if len(study.plan.goal.objectives) > 1:
        return ", ".join(shown(each.name, one) for each, one in zip(study.plan.goal.objectives, base.verdict.values)
                         ) + f" (trial {base.number})"
    gain = (best / value if first.maximize else value / best) if best > 0 < value else math.nan
    return f"{shown(first.name, value)} (trial {base.number})" + ("" if math.isnan(gain) else
                                                                  f"; the best is {gain:.3g} times as good")


def _ended(study: Study) -> str:
    """What follows the number of trials of an agent that had nothing left to propose."""
    if not study.exhausted:
        return ""
    whole = not study.plan.space.continua and study.distinct >= study.plan.space.count
    return " (there are no more)" if whole else " (the agent ended the search)"


def _course(study: Study, ten: Sequence[Ranked]) -> list[tuple[str, str]]:
    space, rate = study.plan.space, study.fresh / study.seconds if study.seconds else 0.0
    rows = [("space", f"{space.count:,} feasible designs of {space.nominal:,} in {len(space.axes)} knobs"),
            ("agent", f"{study.plan.agent_name}, seed {study.plan.seed}"),
            ("trials", f"{study.trials:,}, of which {study.distinct:,} distinct designs"
                       + _ended(study))]
    if study.fresh:
        rows.append(("this run", f"{study.fresh:,} trials in {study.seconds:.2f} s, {rate:,.0f} trials/s"))
    within = study_intervals(space, study.plan.goal, [] if study.best is None else [study.best])
    for place, (name, value) in enumerate(study.objectives().items()):
        around = "".join(f" (80 %: {text})" for text in within.spans(place) if text)
        rows.append((name, shown(name, value) + around))
    rows += [("interval", within.words)] if within.words else []
    rows += [("memory", text) for each in ten if study.best is not None and each.trial.number == study.best.number
             and (text := unfit_sentence(space, each.trial, each.memory))]
    if study.base is not None and study.best is not None:
        rows.append(("base" if base_name(space) == "base" else "near base", _base(study, study.base)))
    if study.refused and study.best is not None:
        why = study.problem.partition("\n")[0][:LONGEST]
        rows.append(("refused", f"{study.refused:,} trials; the first: {why}"))
    if study.proof is not None:
        rows.append(("proof", _proof(study)))
    if study.best is None:
        rows.append(("best", f"none: {study.nothing}"))
        rows += [("missed", text) for text in missed(study.plan.goal, study.nearest, study.trials)]
        rows += [("first problem", study.problem)] if study.problem else []
    base = space.base
    if base is not None:
        rows.append(("network model", base.network.backend))
    rows += [("fidelity", str(each)) for each in study.fidelity]
    return rows


def nearest_table(space: Space, near: Nearest) -> Table:
    """The knobs of the trial that comes nearest to meeting all requirements."""
    rows = [(name, str(_value(value))) for name, value in space.values(near.trial.point).items()]
    return Table(f"nearest to all requirements (trial {near.trial.number})", "<<", rows)


def missed(goal: Goal, near: Nearest | None, trials: int) -> Iterator[str]:
    """Of a study without a feasible trial: each requirement that trials miss, how many do, and by how much the trial
    does that comes nearest to meeting all."""
    if near is None:
        return
    for text, count, slack in zip(goal.requirements, near.missed, near.trial.verdict.slacks):
        name = next((word for word in re.findall(r"[a-z]\w*", text) if word in FIGURES or LATENCY.fullmatch(word)), "")
        if count:
            yield (f"{text}: by {count:,} of {trials:,} trials, trial {near.trial.number} "
                   + (f"by {shown(name, -slack)}" if slack < 0 else "meets it"))


def report_tables(report: StudyReport) -> Iterator[Table]:
    """What `astrarium report` prints: studies, best designs, which knobs matter."""
    first, space = report.goal.objectives[0].name, report.space
    rows = [(each.path, each.agent, str(each.seed), f"{each.trials:,}", f"{each.distinct:,}", f"{each.infeasible:,}",
             "" if each.best is None else shown(first, each.best)) for each in report.summaries]
    yield Table(f"studies ({space.count:,} feasible designs, network model {report.network_model})", "<<>>>>>", rows,
                ["study", "agent", "seed", "trials", "distinct", "infeasible", f"best {first}"])
    if report.contest is not None:
        yield Table("", "<", [(report.contest.words,)])
    if report.fidelity:
        yield Table("cheaper network models", "<<",
                    [(path, str(each)) for path, each in report.fidelity])
    if report.best:
        yield _best_table(report, first)
        yield from best_table(report.ranked, space, report.goal)
        values = [(name, str(_value(value))) for name, value in space.values(report.best[0][1].point).items()]
        yield Table(f"the {_best(report.goal)}", "<<", values)
    else:
        yield Table(f"no best design: {report.nothing}", "<<", [("missed", text) for text in missed(
            report.goal, report.nearest, sum(each.trials for each in report.summaries))])
        yield from [] if report.nearest is None else [nearest_table(space, report.nearest)]
    if len(report.goal.objectives) > 1 and report.front:
        yield _front_table(report.goal, report.front, numbered=len(report.summaries) == 1)
    if report.model is not None:
        title = f"importance of knobs (proxy model: R2 {report.model.r2:.3f}, error {report.model.relative_error:.1%})"
        yield Table(title, "<>>", [(each.knob, f"{each.share:.3f}", f"{each.low:.3f} to {each.high:.3f}")
                                   for each in report.importances], ["", "", "95 %"])
        yield from [] if most_important(report.importances) else [Table("", "<", [(UNDECIDED,)])]
    if report.sobol is not None:
        yield _sobol_table(report.sobol, first)
    if report.sobol_problem:
        yield Table("", "<", [(report.sobol_problem,)])


def sobol_name(index: Index, tied: bool) -> str:
    """The name of a factor, or of a knob of a tied factor. `tied`: whether the index has no total."""
    name = index.knobs[0] if len(index.knobs) == 1 else f"{len(index.knobs)} knobs, tied by constraints"
    return f"  {name}" if tied else name


def _sobol_table(found: Sobol, objective: str) -> Table:
    """First order and total with intervals; `runs` if some designs are refused."""
    head = ["", "first order", "95 %", "total", "95 %"] + (["total, runs", "95 %"] if found.refused else [])
    rows = []
    for index in found.indices:
        row = [sobol_name(index, index.total is None)]
        for each in (index.first, index.total, index.runs)[:len(head) // 2]:
            row += ["", ""] if each is None else [f"{each.value:.3f}", f"{each.low:.3f} to {each.high:.3f}"]
        rows.append(row)
    what = f"log({objective})" if found.logarithm else objective
    refused = f", {found.refused:,} refused and left out" if found.refused else ""
    return Table(f"Sobol indices of {what} ({found.designs:,} designs in {found.blocks:,} blocks{refused})",
                 "<" + ">" * (len(head) - 1), rows, head)


def _best_table(report: StudyReport, first: str) -> Table:
    head, rows = ["", "agent", "seed", "trial", first], []
    within = report.intervals
    around, ties = within.spans(), within.ties
    head += ["80 %", "undecided against 1"] if any(around) else []
    if report.rechecks:
        head += ["contention", "ratio"]
    for place, (study, trial) in enumerate(report.best):
        row = [str(place + 1), study.plan.agent_name, str(study.plan.seed), str(trial.number),
               shown(first, value_of(trial))]
        row += [around[place], "yes" if ties[place] else ""] if any(around) else []
        if report.rechecks:
            other = report.rechecks[place].other
            row += ["refused", ""] if other is None else [shown(first, other), f"{other / value_of(trial):.3f}"]
        rows.append(row)
    title = "best designs" if len(report.goal.objectives) == 1 else f"best designs by {first} alone"
    title += f" (interval: {within.words})" if within.words else ""
    return Table(title, "><" + ">" * (len(head) - 2), rows, head)


def report_plain(report: StudyReport) -> dict[str, Any]:
    """What `astrarium report --json` prints."""
    best = []
    for place, (study, trial) in enumerate(report.best):
        again = report.rechecks[place].other if report.rechecks else None
        design = {name: _value(value) for name, value in report.space.values(trial.point).items()}
        best.append({**_extras(report.ranked[place]), **report.intervals.plain(place),
                     "agent": study.plan.agent_name, "seed": study.plan.seed, "trial": trial.number,
                     "objectives": dict(zip([one.name for one in report.goal.objectives], trial.verdict.values or ())),
                     "contention": again, "design": design})
    model = report.model
    return {"network_model": report.network_model, "studies": [asdict(each) for each in report.summaries],
            "best": best, "best_agent": None if report.contest is None else report.contest.best,
            "front": [list(trial.verdict.values or ()) for trial in report.front],
            "proxy": None if model is None else {"r2": model.r2, "relative_error": model.relative_error},
            "importances": {each.knob: {"share": each.share, "low": each.low, "high": each.high}
                            for each in report.importances},
            "most_important": most_important(report.importances) if report.importances else None,
            "fidelity": [{"study": path, **fidelity_plain(each)} for path, each in report.fidelity],
            "sobol": None if report.sobol is None else msgspec.to_builtins(report.sobol),
            "sensitivities": [{"knob": each.knob, "value": _value(each.value), "also_moved": list(each.moved),
                               "objective": None if each.verdict.values is None else each.verdict.values[0]}
                              for each in report.sensitivities]}
