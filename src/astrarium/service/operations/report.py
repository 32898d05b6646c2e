"""What a study has found."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from astrarium.errors import InputError
from astrarium.service.answer import Answer
from astrarium.service.context import Context
from astrarium.service.operations.fields import command
from astrarium.service.operations.study import StudyName, _study

__all__ = ["Report", "report"]

Number = Annotated[int, Meta(ge=0)]


class Report(Struct, frozen=True, forbid_unknown_fields=True):
    """Report a study: best designs with their knobs, which knobs matter (importance), Pareto front of several
    objectives, convergence. Works while the study runs. `save` writes the design of a trial (default: the best)."""

    study: StudyName
    trial: Annotated[Number | None, Meta(description="The trial to save; left out: the best.")] = None
    save: Annotated[str, Meta(description="Save the design of the trial under this name.", examples=["best.yaml"])] = ""


def report(request: Report, context: Context) -> Answer:
    """See `Report`."""
    from astrarium.report.tables.study import report_plain, report_tables
    from astrarium.report.tables.study_data import study_report
    from astrarium.search.studyfile import load_study

    path = _study(request.study, context, new=False)
    stored = load_study(path)
    found = study_report([stored])
    files = []
    if request.save:
        files = [_saved(request, stored, found, context)]
    elif request.trial is not None:
        raise InputError("trial", "has no effect alone", expected="save: a name, as well")
    return Answer(title=request.study, tables=tuple(report_tables(found)), files=tuple(files),
                  found=report_plain(found), command=command("report", request.study), page="report", result=found)


def _saved(request: Report, stored: object, found: object, context: Context) -> str:
    """Write the design of a trial; the file's name."""
    from astrarium.report.tables.study_data import StudyReport
    from astrarium.search.studyfile import StoredStudy
    from astrarium.search.subject import dump_base

    assert isinstance(stored, StoredStudy)
    assert isinstance(found, StudyReport)
    context.folder.new(request.save)
    if request.trial is None and not found.best:
        raise InputError("save", "there is no feasible trial", expected="a trial")
    number = found.best[0][1].number if request.trial is None else request.trial
    trial = next((each for each in stored.trials() if each.number == number), None)
    if trial is None:
        raise InputError("trial", f"there is no trial {number}", expected="a number of a trial")
    dump_base(stored.plan.space.design(trial.point), request.save)
    return request.save
