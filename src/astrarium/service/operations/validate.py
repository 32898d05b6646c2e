"""Compare what was measured with predictions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from astrarium.errors import InputError
from astrarium.service.answer import Answer, Number, Progress
from astrarium.service.context import Context
from astrarium.service.operations.fields import command

__all__ = ["Measured", "Validate", "command_of", "validate"]

Measured = Annotated[list[str], Meta(description="Files of the folder with what was measured.", examples=[["rows.csv"]],
                                     min_length=1, max_length=64)]


class Validate(Struct, frozen=True, forbid_unknown_fields=True):
    """Compare measured rows with predictions: errors by source and device, every row, and whether it lies in its
    interval. Rows are training steps (source, case, gpu, n_gpus, model, tp, pp, dp, gbs, step_s), collectives,
    figures of serving or kernels (CSV). With `serving`, the files are logs of an engine, a request a line."""

    files: Measured
    stack: Annotated[str, Meta(description="The software of training steps, in place of the rows'.")] = ""
    serving: Annotated[str, Meta(description="A serving file of the folder whose engine wrote the logs.")] = ""


def command_of(request: Validate, context: Context) -> str:
    """The command line of a comparison. Raises InputError for a file that is not there, and for an unknown stack."""
    from astrarium.validate.designs import known_stack

    for name in request.files:
        context.folder.path(name, "files")
    if request.serving:
        context.folder.path(request.serving, "serving")
    if request.serving and request.stack:
        raise InputError("stack", "has no effect on logs", expected="it left out, or rows without serving")
    words = ["--serving", request.serving] if request.serving else []
    return command("validate", request.files, words, ["--stack", known_stack(request.stack)] if request.stack else [])


def validate(request: Validate, context: Context) -> Answer:
    """See `Validate`."""
    said = command_of(request, context)
    title = f"{', '.join(request.files)}: measured and predicted"
    if request.serving:
        return _logs(request, said, title)
    from astrarium.report.tables.validation import validation_plain, validation_tables
    from astrarium.validate.rows import read_rows, with_stack
    from astrarium.validate.verdict import verdict

    rows = with_stack([row for name in request.files for row in read_rows(name)], request.stack or None)
    made = verdict(rows, lambda done: context.tell(Progress(done, len(rows), f"{done:,} of {len(rows):,} rows")))
    numbers = [Number(f"median_error[{each.name}].{each.metric}", f"median error of {each.metric}, {each.name}",
                      each.median, "1", f"{100 * each.median:.1f} %") for each in made.groups["source"]]
    return Answer(title=title, numbers=tuple(numbers), tables=tuple(validation_tables(made)), command=said,
                  found=validation_plain(made), page="validate", result=made)


def _logs(request: Validate, said: str, title: str) -> Answer:
    from astrarium.report.tables.validation import log_table
    from astrarium.serving.serve import load_serving
    from astrarium.validate.serving.compare import compared

    notes = list[str]()
    found = compared(request.files, load_serving(request.serving), notes.append)
    return Answer(title=title, tables=(log_table(found),), notes=tuple(notes), found={"logs": found}, command=said)
