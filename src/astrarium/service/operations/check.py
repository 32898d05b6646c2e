"""Find the faults of a design before it runs."""

from __future__ import annotations

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.report.tables.table import Table
from astrarium.service.answer import Answer, Refusal, refusal
from astrarium.service.context import Context
from astrarium.service.operations.fields import Changes, DesignFile, command, sets

__all__ = ["Check", "check"]


class Check(Struct, frozen=True, forbid_unknown_fields=True):
    """Check a design without running it: every fault with its path, what was expected and the nearest name. No fault
    means that `run` accepts it. Cheap; use it after writing a design by hand."""

    design: DesignFile
    changes: Changes = {}


def check(request: Check, context: Context) -> Answer:
    """See `Check`."""
    from astrarium.report.notes.imports import import_notes
    from astrarium.simulate import prepare

    name, notes, found = context.file(request.design), list[str](), tuple[Refusal, ...]()
    try:
        design = context.design(name, request.changes)
        notes = list(import_notes(design))
        prepare(design, record=False, kept=context.kept)
    except InputError as error:
        said = refusal(error)
        found = said.problems or (said,)
    rows = [(each.path, each.message, each.expected or "", each.nearest or "") for each in found]
    table = Table(f"{name}: no fault", "", ())
    if found:
        table = Table(f"{name}: {len(found)} faults", "<<<<", rows, ("path", "fault", "expected", "nearest"))
    return Answer(title=table.title, tables=(table,), notes=tuple(notes), found={"faults": len(found)},
                  command=command("check", name, sets(request.changes)))
