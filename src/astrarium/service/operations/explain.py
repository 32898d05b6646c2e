"""Split the difference of two designs by knob."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from astrarium.errors import InputError
from astrarium.service.answer import Answer
from astrarium.service.context import Context
from astrarium.service.numbers import time_ps
from astrarium.service.operations.fields import Changes, DesignFile, command, sets

__all__ = ["Explain", "explain"]

Second = Annotated[DesignFile | None, Meta(description="The design to arrive at; left out: `before` with `changes`.")]


class Explain(Struct, frozen=True, forbid_unknown_fields=True):
    """Why do the makespans of two designs differ? Splits the difference by knob (Shapley values: they sum to the
    difference exactly), and shows compute, exposed communication and idle time of both. Give two designs (such as two
    lines of a plan), or one with changes. Costs up to 2^k runs for k differing knobs, 8 at most (then orders are
    drawn)."""

    before: DesignFile
    after: Second = None
    changes: Changes = {}
    before_changes: Annotated[dict[str, Any], Meta(description="Changes of `before`, as `changes` are those of the "
                                                               "design to arrive at.")] = {}
    orders: Annotated[int, Meta(ge=2, le=1000, description="Orders drawn if more than 8 knobs differ.")] = 64


def explain(request: Explain, context: Context) -> Answer:
    """See `Explain`."""
    from astrarium.report.tables.explain import explanation_plain, explanation_tables
    from astrarium.search.explain import explain as explained

    if request.after is None and not request.changes:
        raise InputError("after", "is missing", expected="a second design, or changes of the first")
    first = context.file(request.before, "before")
    second = first if request.after is None else context.file(request.after, "after")
    before, after = context.design(first, request.before_changes), context.design(second, request.changes)
    found = explained(before, after, orders=request.orders)
    name = second if request.after is not None else f"the same with {', '.join(sets(request.changes, '')[1::2])}"
    numbers = [time_ps("before", "makespan before", found.before), time_ps("after", "makespan after", found.after)]
    words = [first, *([second] if request.after is not None else []), *sets(request.changes)]
    return Answer(title=f"{first} to {name}", numbers=tuple(numbers),
                  tables=tuple(explanation_tables(found, first, name)), found=explanation_plain(found),
                  command="" if request.before_changes else
                  command("explain", words, [] if request.orders == 64 else ["--orders", str(request.orders)]),
                  page="explain", result=found)
