"""`astrarium serve SERVING.yaml`: a stream of requests on a design; latencies, throughput, goodput."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from astrarium.cli.arguments import Parser, apart, idle, json_flag, note, place, set_flag, wrote
from astrarium.cli.imports import say_imports
from astrarium.cli.json_output import print_json
from astrarium.cli.pages import page_flags, page_for, write_page, written
from astrarium.cli.progress import Counted, Line
from astrarium.errors import InputError
from astrarium.units import format_time

if TYPE_CHECKING:
    from astrarium.report.pages.serving import ShownServing
    from astrarium.report.tables.serving_rates import RateSearch
    from astrarium.report.tables.table import Table
    from astrarium.serving import Deployment, Served, Serving, Slo

__all__ = ["arguments", "run"]

EVERY = 32      # answers between two texts of progress


def arguments(parser: Parser) -> None:
    """The serving file and changes to it."""
    parser.add_argument("serving", metavar="SERVING.yaml", help="the serving file: design, requests, policy, objective")
    set_flag(parser, "change a field of the file or its design, such as requests.rate=4 or workload.tp=2")
    parser.add_argument("--find", choices=("rate",),
                        help="search the highest rate of requests within --slo, and serve it")
    parser.add_argument("--slo", metavar="LIMIT[,LIMIT...]",
                        help="limits for --find, such as ttft_p99=2s,tpot_p99=30ms (ttft, tpot, itl, latency; mean, "
                             "p50, p90, p99; good90: 90 %% of requests keep all limits)")
    parser.add_argument("--csv", metavar="FILE", help="write a line for each request")
    page_flags(parser, "tables, distributions of latencies, queue and cache over time, some requests")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Serve and print."""
    from astrarium.cli.paths import read_as
    from astrarium.config import assignments
    from astrarium.config.whole import write_whole
    from astrarium.design import Design
    from astrarium.report.tables.serving import (
        interval_note,
        interval_plain,
        serving_notes,
        serving_plain,
        serving_tables,
        written_requests,
    )
    from astrarium.report.tables.serving_fleet import fleet_plain, fleet_tables
    from astrarium.report.tables.serving_prices import price_notes, price_table
    from astrarium.serving import deployed, load_serving
    from astrarium.serving.interval import widest_interval
    from astrarium.serving.prices import prices_of

    place("--csv", options.csv)
    page = page_for("serve", options)
    slo = _limits(options)
    changes = assignments(options.set)
    of_design = {path: value for path, value in changes.items()
                 if re.split(r"[.\[]", path)[0] in Design.__struct_fields__}
    own = {path: value for path, value in changes.items() if path not in of_design}
    serving = read_as("serving file", lambda path: load_serving(path, own, of_design), options.serving)
    lengths = [getattr(serving.requests, name, None) for name in ("prompt", "output")]
    apart("--csv", options.csv, (options.serving, *(each.design for each in serving.members),
                                 *(getattr(each, "path", None) for each in (serving.requests, *lengths))))
    deployment = deployed(serving.members, serving.buckets, serving.changes, serving.failures, of_design)
    for design in deployment.designs:
        say_imports(design)
    served, slower, search = _served(deployment, serving, slo)
    prices, within = prices_of(deployment.designs, served), widest_interval(deployment.designs)
    notes = list(dict.fromkeys(each for member, design in zip(serving.members, deployment.designs, strict=True)
                               for each in serving_notes(served, slower, member.policy, design.stack)))
    notes += [interval_note(served, within), *price_notes(prices, deployment.designs[0].cost)]
    if options.csv:
        with write_whole(options.csv) as file:
            file.write(written_requests(served).encode())
        wrote(options.csv)
    tables = [*([] if search is None else [search.table(options.serving)]),
              *serving_tables(served, serving.objective, options.serving), *fleet_tables(served, serving.members),
              *price_table(prices)]
    if written(options):
        write_page(page, options, _shown(options, serving, deployment, served, tables, notes))
    if options.json:
        found = {**serving_plain(served, slower, serving.objective, notes), **prices.plain,
                 **interval_plain(served, within), "instances": fleet_plain(served, serving.members),
                 "wasted_tokens": served.wasted}
        print_json("serve", found if search is None else found | {"find": search.plain})
        return 0
    from astrarium.report.tables.table import print_tables

    print_tables(tables, sys.stdout)
    for line in notes:
        note(line)
    return 0


def _shown(options: argparse.Namespace, serving: Serving, deployment: Deployment, served: Served,
           tables: Sequence[Table], notes: Sequence[str]) -> ShownServing:
    """What a page shows, with the serving file and its designs to save."""
    from astrarium.config import dumps
    from astrarium.report.pages.about import about_all
    from astrarium.report.pages.serving import ShownServing

    names = [os.path.splitext(os.path.basename(member.design))[0] for member in serving.members]
    about = about_all(dict(zip(names, deployment.designs, strict=True)), {"serving.yaml": dumps(serving)})
    return ShownServing(options.serving, served, tables, notes, about)


def _served(deployment: Deployment, serving: Serving, slo: Slo | None
            ) -> tuple[Served, Served | None, RateSearch | None]:
    """The stream that was served; with steps 30 % longer, if they may saturate it; and the search of its rate."""
    from astrarium.report.tables.serving_rates import RateSearch
    from astrarium.serving import LONGER, most_requests, serve_deployed, serve_slower

    told, slower = Counted(), None

    def progress(done: int, of: int, now: int) -> None:
        if done % EVERY == 0:
            told.show(done, of, f"requests answered, {format_time(now / 1e3)} simulated")

    with Line(sys.stderr, told):
        if slo is not None:
            search = RateSearch(slo, *(most_requests(deployment, serving.requests, slo, longer=longer,
                                                     progress=progress) for longer in (1.0, LONGER)))
            return search.served, None, search
        served = serve_deployed(deployment, serving.requests, progress)
        if not served.closed and not served.saturated:
            slower = serve_slower(deployment, serving.requests, progress)
    return served, slower, None


def _limits(options: argparse.Namespace) -> Slo | None:
    """The limits of --slo, within which --find searches."""
    from astrarium.serving import slo_of

    idle("--slo", options.slo is not None and not options.find, "--find rate as well")
    if options.find and options.slo is None:
        raise InputError("--slo", "is missing", expected="limits, such as ttft_p99=2s,tpot_p99=30ms")
    return None if options.slo is None else slo_of(options.slo, "--slo")
