"""What an execution trace holds."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, to_builtins

from astrarium.service.answer import Answer
from astrarium.service.context import Context
from astrarium.service.operations.fields import command

__all__ = ["Trace", "trace"]


class Trace(Struct, frozen=True, forbid_unknown_fields=True):
    """Show an execution trace of the folder (Chakra .et, or a file of a profiler): its nodes by kind, operators, bytes
    that are communicated, and, if it has times, how computation and communication overlap as recorded."""

    name: Annotated[str, Meta(description="A trace of the folder.", examples=["train.0.et"])]


def trace(request: Trace, context: Context) -> Answer:
    """See `Trace`."""
    from astrarium.report.pages.page import ShownTrace
    from astrarium.report.trace.statistics import statistics_tables
    from astrarium.report.trace.times import time_tables, times_of
    from astrarium.trace import groups_of, read_traces
    from astrarium.trace.counts import statistics

    context.folder.path(request.name, "name")
    traces = read_traces([request.name])
    counted, times = statistics(traces.classes[0]), times_of(traces.classes[0], traces.texts, groups_of(traces))
    tables = [*statistics_tables(counted, request.name), *time_tables(times)]
    return Answer(title=request.name, tables=tuple(tables), command=command("trace show", request.name), page="trace",
                  found=to_builtins({**counted.plain(), "times": times.plain()}),
                  result=ShownTrace(request.name, tables, times))
