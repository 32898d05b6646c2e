"""Simulate a design."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from astrarium.service.answer import Answer, Number, Progress
from astrarium.service.context import Context
from astrarium.service.numbers import of_figures, of_result
from astrarium.service.operations.fields import Changes, DesignFile, command, sets

if TYPE_CHECKING:
    from astrarium.design import Design
    from astrarium.result import Result

__all__ = ["Run", "run"]


class Run(Struct, frozen=True, forbid_unknown_fields=True):
    """Simulate one step (or workload) of a design exactly. Returns the makespan, what the time of the rank that
    finishes last goes into (compute, exposed communication, idle), peak memory and whether it fits, MFU and tokens/s
    for training, money and energy if the design has prices; per collective its bus bandwidth; per network dimension
    its use. Times of `numbers` are exact integers in ps."""

    design: DesignFile
    changes: Changes = {}
    brief: Annotated[bool, Meta(description="Only the numbers, without tables: quicker.")] = False
    save: Annotated[str, Meta(description="Save the design with its changes under this name.",
                              examples=["wider.yaml"])] = ""


def run(request: Run, context: Context) -> Answer:
    """See `Run`."""
    from astrarium.cost import figures
    from astrarium.cost.interval import interval_of
    from astrarium.cost.known import prices_assumed
    from astrarium.cost.training import conditions
    from astrarium.report.pages.page import ShownRun
    from astrarium.report.tables.figures import figure_table
    from astrarium.report.tables.interval import interval_table
    from astrarium.report.tables.summary import summary_tables

    name = context.file(request.design)
    design = context.design(name, request.changes)
    result, notes = simulated(design, context)
    found, about, within = figures(design, result), conditions(design), interval_of(design)
    more = () if request.brief else (figure_table(found, about, within), interval_table(within, result))
    tables = () if request.brief else summary_tables(result, _titled(name, request), *more)
    notes = [*notes, *(f"money and energy: {text}" for text in prices_assumed(design, found))]
    numbers = [*of_result(result), *of_figures(found)]
    if within is not None and (around := within.around(float(result.at_least))) is not None:
        numbers += [Number(f"makespan_{end}", f"makespan, {end} end of the {100 * within.share:.0f} % interval", value,
                           "ns", "") for end, value in zip(("low", "high"), around)]
    files = (context.save(design, request.save),) if request.save else ()
    return Answer(title=name, numbers=tuple(numbers), tables=tuple(tables), notes=tuple(dict.fromkeys(notes)),
                  files=files, command=command("run", name, sets(request.changes)), page="run",
                  result=ShownRun(design, result, name, more))


def simulated(design: Design, context: Context) -> tuple[Result, Sequence[str]]:
    """The Result of a design, and the notes that a run prints; those of the last designs are cached."""
    from astrarium.search.inputs import file_fields

    if any(file_fields(design)):        # they may change
        return _simulated(design, context)
    return context.cached("runs", design, lambda: _simulated(design, context))


def _simulated(design: Design, context: Context) -> tuple[Result, Sequence[str]]:
    from astrarium.report.notes.design import design_notes
    from astrarium.report.notes.imports import import_notes
    from astrarium.report.notes.kernels import kernel_notes
    from astrarium.report.notes.ports import port_notes
    from astrarium.simulate import simulate

    notes = list(import_notes(design))
    context.tell(Progress(0, None, "simulating"))
    result = simulate(design, kept=context.kept, note=notes.append)
    return result, [*notes, *design_notes(design), *kernel_notes(design, result),
                    *port_notes(design, result)]


def _titled(name: str, request: Run) -> str:
    return f"{name} with {', '.join(sets(request.changes, '')[1::2])}" if request.changes else name
