"""Simulate a design."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from astrarium.service.answer import Answer, Number, Progress
from astrarium.service.context import Context
from astrarium.service.numbers import of_figures, of_result
from astrarium.service.operations.fields import Changes, DesignFile, command, sets

__all__ = ["Run", "run", "simulated"]


class Run(Struct, frozen=True, forbid_unknown_fields=True):
    """Simulate one step (or workload) of a design exactly. Returns the makespan, what the time of the rank that
    finishes last goes into (compute, exposed communication, idle), peak memory and whether it fits, MFU and tokens/s
    for training, money and energy if the design has prices; per collective its bus bandwidth; per network dimension
    its use. Times of `numbers` are exact integers in ps."""

    design: DesignFile
    changes: Changes = {}
    save: Annotated[str, Meta(description="Save the design with its changes under this name.",
                              examples=["wider.yaml"])] = ""


def run(request: Run, context: Context) -> Answer:
    """See `Run`."""
    from astrarium.report.tables.figures import figure_table
    from astrarium.report.tables.interval import interval_table
    from astrarium.report.tables.summary import summary_tables

    name = context.file(request.design)
    design = context.design(name, request.changes)
    result, notes = simulated(design, context)
    from astrarium.cost import figures
    from astrarium.cost.interval import interval_of
    from astrarium.cost.training import conditions

    found, about, within = figures(design, result), conditions(design), interval_of(design)
    tables = summary_tables(result, _titled(name, request), figure_table(found, about, within),
                            interval_table(within, result))
    numbers = [*of_result(result), *of_figures(found)]
    if within is not None and (around := within.around(float(result.at_least))) is not None:
        numbers += [Number(f"makespan_{end}", f"makespan, {end} end of the {100 * within.share:.0f} % interval", value,
                           "ns", "") for end, value in zip(("low", "high"), around)]
    files = (context.save(design, request.save),) if request.save else ()
    return Answer(title=name, numbers=tuple(numbers), tables=tuple(tables), notes=tuple(dict.fromkeys(notes)),
                  files=files, command=command("run", name, sets(request.changes)))


def simulated(design: Any, context: Context) -> tuple[Any, list[str]]:
    """The Result of a design, and the notes that a run prints."""
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
