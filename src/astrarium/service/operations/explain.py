"""Split the difference of two designs by knob."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from astrarium.errors import InputError
from astrarium.service.answer import Answer, Number
from astrarium.service.context import Context
from astrarium.service.operations.fields import Changes, DesignFile, command, sets

__all__ = ["Explain", "explain"]

Second = Annotated[DesignFile | None, Meta(description="The design to arrive at; left out: `before` with `changes`.")]


class Explain(Struct, frozen=True, forbid_unknown_fields=True):
    """Why do the makespans of two designs differ (of two serving files: mean TTFT, TPOT and tokens)? Splits the
    difference by knob (Shapley values: they sum to the difference exactly), and shows compute, exposed communication
    and idle time of both. Give two designs (such as two
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
    from astrarium.report.tables.explain import explanation_plain, explanation_tables, makespans
    from astrarium.search.explain import explain as explained

    if request.after is None and not request.changes:
        raise InputError("after", "is missing", expected="a second design, or changes of the first")
    first = context.file(request.before, "before")
    second = first if request.after is None else context.file(request.after, "after")
    if context.is_serving(first) and context.is_serving(second):
        return _streams(request, first, second)
    before, after = context.design(first, request.before_changes), context.design(second, request.changes)
    found = explained(before, after, orders=request.orders)
    former, name = _named(request, first, second)
    numbers = [Number(when, f"makespan {when}", ps, "ps", text) for when, ps, text in zip(
        ("before", "after"), (found.before, found.after), makespans(found), strict=True)]
    return Answer(title=f"{former} to {name}", numbers=tuple(numbers),
                  tables=tuple(explanation_tables(found, former, name)), found=explanation_plain(found),
                  command=_command(request, first, second), page="explain", result=found)


def _streams(request: Explain, first: str, second: str) -> Answer:
    """Two serving files, of one design each."""
    from astrarium.config import replace_all
    from astrarium.report.tables.explain_serving import serving_explanation_plain, serving_explanation_tables
    from astrarium.search.explain_serving import explain_serving
    from astrarium.serving.design import load_serving_design

    before, after = (replace_all(load_serving_design(name), changes) for name, changes in
                     ((first, request.before_changes), (second, request.changes)))
    found = explain_serving(before, after, orders=request.orders)
    former, name = _named(request, first, second)
    return Answer(title=f"{former} to {name}", tables=tuple(serving_explanation_tables(found, former, name)),
                  found=serving_explanation_plain(found), command=_command(request, first, second), page="explain",
                  result=found)


def _named(request: Explain, first: str, second: str) -> tuple[str, str]:
    """What both designs are called."""
    before, after = (", ".join(sets(changes, "")[1::2]) for changes in (request.before_changes, request.changes))
    same = request.after is None or (first == second and not before)
    return (f"{first} with {before}" if before else first,
            " with ".join(filter(None, ["the same" if same else second, after])))


def _command(request: Explain, first: str, second: str) -> str:
    """The command line; empty with changes of the first design, which it does not have."""
    words = [first, *([second] if request.after is not None else []), *sets(request.changes)]
    return "" if request.before_changes else \
        command("explain", words, [] if request.orders == 64 else ["--orders", str(request.orders)])
