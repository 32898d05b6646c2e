"""Serve a stream of requests on a design."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from astrarium.service.answer import Answer, Number, Progress
from astrarium.service.context import Context
from astrarium.service.operations.fields import command, sets
from astrarium.units import format_time

__all__ = ["Serve", "command_of", "serve"]

ServingFile = Annotated[str | dict[str, Any], Meta(
    description="A serving file of the folder, or its content: `design` (a file of the folder), `requests` (arrivals "
                "and lengths), `policy`, `objective`. plan(purpose='serving') writes whole ones.",
    examples=["chat.yaml"])]


class Serve(Struct, frozen=True, forbid_unknown_fields=True):
    """Serve a stream of requests (continuous batching, key-value cache, fleets): TTFT, TPOT and latency percentiles,
    throughput, goodput, queue, cache use. With `slo` instead the highest rate of requests within limits."""

    serving: ServingFile
    changes: Annotated[dict[str, Any], Meta(description="Path -> value, of the file ('requests.rate') or of its design "
                                                        "('workload.tp').", examples=[{"requests.rate": 4}])] = {}
    slo: Annotated[str, Meta(description="Limits within which the highest rate is searched (ttft, tpot, itl, latency; "
                                         "mean, p50, p90, p99).", examples=["ttft_p99=2s,tpot_p99=30ms"])] = ""


def command_of(request: Serve, context: Context) -> str:
    """The command line of a stream. Raises InputError where there is no such file."""
    words = ["--find", "rate", "--slo", request.slo] if request.slo else []
    return command("serve", context.file(request.serving, "serving"), sets(request.changes), words)


def serve(request: Serve, context: Context) -> Answer:
    """See `Serve`."""
    from astrarium.report.notes.imports import import_notes
    from astrarium.report.pages.serving import ShownServing
    from astrarium.report.tables.serving import interval_note, serving_notes, serving_plain, serving_tables
    from astrarium.report.tables.serving_fleet import fleet_plain, fleet_tables
    from astrarium.report.tables.serving_prices import price_notes, price_table
    from astrarium.serving import deployed
    from astrarium.serving.interval import widest_interval
    from astrarium.serving.prices import prices_of

    name = context.file(request.serving, "serving")
    serving, of_design = context.serving(name, request.changes)
    deployment = deployed(serving.members, serving.buckets, serving.changes, serving.failures, of_design)
    served, slower, searched = _served(deployment, serving, request.slo, context)
    prices, within = prices_of(deployment.designs, served), widest_interval(deployment.designs)
    notes = [each for design in deployment.designs for each in import_notes(design)]
    notes += [each for member, design in zip(serving.members, deployment.designs, strict=True)
              for each in serving_notes(served, slower, member.policy, design.stack)]
    notes += [interval_note(served, within), *price_notes(prices, deployment.designs[0].cost)]
    tables = [*([] if searched is None else [searched.table(name)]), *serving_tables(served, serving.objective, name),
              *fleet_tables(served, serving.members), *price_table(prices)]
    found = {**serving_plain(served, slower, serving.objective, notes), **prices.plain,
             "instances": fleet_plain(served, serving.members),
             **({} if searched is None else {"find": searched.plain})}
    notes = list(dict.fromkeys(notes))
    return Answer(title=name, numbers=tuple(_numbers(found)), tables=tuple(tables), notes=tuple(notes), found=found,
                  command=command_of(request, context), page="serve", result=ShownServing(name, served, tables, notes))


def _served(deployment: Any, serving: Any, slo: str, context: Context) -> tuple[Any, Any, Any]:
    """The stream, the one of slower steps if it may saturate, and the search of its rate: as the command line."""
    from astrarium.report.tables.serving_rates import RateSearch
    from astrarium.serving import LONGER, most_requests, serve_deployed, serve_slower, slo_of

    def told(done: int, of: int, now: int) -> None:
        context.tell(Progress(done, of, f"{done:,} of {of:,} requests answered, {format_time(now / 1e3)} simulated"))

    if slo:
        limits = slo_of(slo, "slo")
        search = RateSearch(limits, *(most_requests(deployment, serving.requests, limits, longer=longer, progress=told)
                                      for longer in (1.0, LONGER)))
        return search.served, None, search
    served = serve_deployed(deployment, serving.requests, told)
    slower = serve_slower(deployment, serving.requests, told) if not served.closed and not served.saturated else None
    return served, slower, None


def _numbers(found: Mapping[str, Any]) -> list[Number]:
    """The numbers at the top of the plain data, with the units of their names."""
    numbers = []
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        stem, _, unit = name.rpartition("_")
        timed = unit in ("ns", "ps", "ms", "s")
        numbers.append(Number(name, (stem if timed else name).replace("_", " "), value, unit if timed else "",
                              format_time(float(value)) if unit == "ns" else f"{value:,.6g}"))
    return numbers
