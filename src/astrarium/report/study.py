"""A study as tables and as plain data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from astrarium.report.study_data import StudyReport
from astrarium.report.tables import Table
from astrarium.search import Study, Trial
from astrarium.search.analysis import value_of
from astrarium.units import Quantity, format_bytes, format_time

__all__ = ["report_plain", "report_tables", "shown", "study_plain", "study_tables"]

SHOWN = 10      # trials of a front
TIMES, SIZES = ("makespan", "exposed_comm", "compute_time"), ("peak_memory",)


def study_plain(study: Study) -> dict[str, Any]:
    """What `astrarium search --json` prints. `best` is null where no trial is feasible."""
    space, base = study.plan.space, study.plan.space.base
    found: dict[str, Any] = {
        "trials": study.trials, "distinct": study.distinct, "seconds": round(study.seconds, 6),
        "trials_per_s": round(study.fresh / study.seconds, 3) if study.seconds else 0.0,
        "best": None if study.best is None else _trial(study, study.best),
        "agent": study.plan.agent_name, "seed": study.plan.seed, "feasible_points": space.count,
        "nominal_points": space.nominal, "exhausted": study.exhausted,
        "network_model": None if base is None else base.network.backend, "notes": list(study.notes),
        **({"problem": study.problem} if study.best is None else {})}
    if study.proof is not None:
        finite = math.isfinite(study.proof.bound)
        found |= {"bound": study.proof.bound if finite else None, "gap": study.proof.gap if finite else None,
                  "proved": study.proof.complete}
    if len(study.plan.goal.objectives) > 1:
        found["front"] = [_trial(study, trial) for trial in study.front]
    return found


def _trial(study: Study, trial: Trial) -> dict[str, Any]:
    values = {name: _value(value) for name, value in study.values(trial).items()}
    return {"number": trial.number, "objectives": study.objectives(trial), "design": values}


def _value(value: Any) -> Any:
    if isinstance(value, Quantity):
        return str(value)
    return [_value(each) for each in value] if isinstance(value, tuple) else value


def shown(name: str, value: float) -> str:
    """An objective for a person: times and sizes with a unit."""
    if name in TIMES:
        return format_time(value)
    return format_bytes(value) if name in SIZES else f"{value:.6g}"


def study_tables(study: Study, title: str) -> Iterator[Table]:
    """How the search went, the best design, and the front where there are several objectives."""
    yield Table(title, "<<", _course(study))
    if study.best is not None:
        rows = [(name, str(_value(value))) for name, value in study.values().items()]
        yield Table(f"best design (trial {study.best.number})", "<<", rows)
    if len(study.plan.goal.objectives) > 1 and study.front:
        names = [each.name for each in study.plan.goal.objectives]
        found = [[str(trial.number), *(shown(name, value) for name, value in study.objectives(trial).items())]
                 for trial in study.front[:SHOWN]]
        more = f", the first {SHOWN} of {len(study.front)}" if len(study.front) > SHOWN else ""
        yield Table(f"Pareto front{more}", ">" * (len(names) + 1), found, ["trial", *names])


def _proof(study: Study) -> str:
    proof, name = study.proof, study.plan.goal.objectives[0].name
    assert proof is not None
    if proof.gap == 0 and proof.complete:
        return "optimal: no design of the space is better"
    if not math.isfinite(proof.bound):
        return "none yet"
    return f"no design is below {shown(name, proof.bound)}, {proof.gap:.2%} under the best"


def _course(study: Study) -> list[tuple[str, str]]:
    space, rate = study.plan.space, study.fresh / study.seconds if study.seconds else 0.0
    rows = [("space", f"{space.count:,} feasible designs of {space.nominal:,} in {len(space.axes)} knobs"),
            ("agent", f"{study.plan.agent_name}, seed {study.plan.seed}"),
            ("trials", f"{study.trials:,}, of which {study.distinct:,} distinct designs"
                       + (" (there are no more)" if study.exhausted else ""))]
    if study.fresh:
        rows.append(("this run", f"{study.fresh:,} trials in {study.seconds:.2f} s, {rate:,.0f} trials/s"))
    for name, value in study.objectives().items():
        rows.append((name, shown(name, value)))
    if study.proof is not None:
        rows.append(("proof", _proof(study)))
    if study.best is None:
        rows.append(("best", f"none: {study.nothing}"))
        rows += [("first problem", study.problem)] if study.problem else []
    base = space.base
    if base is not None:
        rows.append(("network model", base.network.backend))
    return rows


def report_tables(report: StudyReport) -> Iterator[Table]:
    """What `astrarium report` prints: studies, best designs, which knobs matter."""
    first, space = report.goal.objectives[0].name, report.space
    rows = [(each.path, each.agent, str(each.seed), f"{each.trials:,}", f"{each.distinct:,}", f"{each.infeasible:,}",
             "" if each.best is None else shown(first, each.best)) for each in report.summaries]
    yield Table(f"studies ({space.count:,} feasible designs, network model {report.network_model})", "<<>>>>>", rows,
                ["study", "agent", "seed", "trials", "distinct", "infeasible", f"best {first}"])
    if report.best:
        yield _best_table(report, first)
        values = [(name, str(_value(value))) for name, value in space.values(report.best[0][1].point).items()]
        yield Table("the best design", "<<", values)
    if report.model is not None:
        title = f"importance of knobs (proxy model: R2 {report.model.r2:.3f}, error {report.model.relative_error:.1%})"
        yield Table(title, "<>", [(name, f"{share:.3f}") for name, share in report.importances])


def _best_table(report: StudyReport, first: str) -> Table:
    head, rows = ["", "agent", "seed", "trial", first], []
    if report.rechecks:
        head += ["contention", "ratio"]
    for place, (study, trial) in enumerate(report.best):
        row = [str(place + 1), study.plan.agent_name, str(study.plan.seed), str(trial.number),
               shown(first, value_of(trial))]
        if report.rechecks:
            other = report.rechecks[place].other
            row += ["refused", ""] if other is None else [shown(first, other), f"{other / value_of(trial):.3f}"]
        rows.append(row)
    return Table("best designs", "><" + ">" * (len(head) - 2), rows, head)


def report_plain(report: StudyReport) -> dict[str, Any]:
    """What `astrarium report --json` prints."""
    best = []
    for place, (study, trial) in enumerate(report.best):
        again = report.rechecks[place].other if report.rechecks else None
        design = {name: _value(value) for name, value in report.space.values(trial.point).items()}
        best.append({"agent": study.plan.agent_name, "seed": study.plan.seed, "trial": trial.number,
                     "objectives": dict(zip([each.name for each in report.goal.objectives],
                                            trial.verdict.values or ())), "contention": again, "design": design})
    model = report.model
    return {"network_model": report.network_model, "studies": [asdict(each) for each in report.summaries],
            "best": best, "front": [list(trial.verdict.values or ()) for trial in report.front],
            "proxy": None if model is None else {"r2": model.r2, "relative_error": model.relative_error},
            "importances": dict(report.importances),
            "sensitivities": [{"knob": each.knob, "value": _value(each.value), "also_moved": list(each.moved),
                               "objective": None if each.verdict.values is None else each.verdict.values[0]}
                              for each in report.sensitivities]}
