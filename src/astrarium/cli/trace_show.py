"""`astrarium trace show FILE...`: what is in a trace file, and what collectives took over several ranks."""

from __future__ import annotations

import argparse
import sys

from astrarium.cli.arguments import Parser, json_flag
from astrarium.cli.json_output import print_json
from astrarium.cli.pages import page_flags, page_for, write_page
from astrarium.cli.paths import is_design
from astrarium.errors import InputError

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """The files."""
    parser.add_argument("file", metavar="FILE", nargs="+",
                        help="a trace (.et, plain or gzip); traces of several ranks, or a pattern ('step.*.et'), also "
                             "show their collectives without waiting for other ranks")
    page_flags(parser, "the same tables, and bars")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Print the counts."""
    from astrarium.report.trace.times import collectives_from_last_arrival, last_arrival_tables, time_tables, times_of
    from astrarium.trace import groups_of, read_traces
    from astrarium.trace.counts import statistics
    from astrarium.trace.micros import in_ns
    from astrarium.trace.rank_files import is_pattern

    page = page_for("trace", options)
    for path in options.file:
        if is_design(path):
            raise InputError(path, "is YAML, and no trace",
                             expected=f"a trace (.et), or for a design file astrarium show {path}")
    first = options.file[0]
    traces = read_traces(first if len(options.file) == 1 and is_pattern(first) else options.file)
    arrived = collectives_from_last_arrival(traces) if traces.ranks > 1 else ()
    counted = statistics(traces.classes[0])
    times = times_of(traces.classes[0], traces.texts, groups_of(traces))
    from astrarium.report.pages.page import ShownTrace
    from astrarium.report.tables.table import print_tables
    from astrarium.report.trace.statistics import statistics_tables

    title = traces.sources[0]
    if traces.ranks > 1:
        others = "the last table alone has" if arrived else "no table has"
        title += f", rank 0 of {traces.ranks} ({others} the other ranks)"
    tables = [*statistics_tables(counted, title), *time_tables(times), *last_arrival_tables(arrived, traces.ranks)]
    write_page(page, options, ShownTrace(traces.sources[0], tables, times, traces.classes[0]))
    if options.json:
        plain = {**counted.plain(), "times": times.plain()}
        print_json("trace show", plain if traces.ranks == 1 else plain | {
            "from_last_arrival": [in_ns(each.plain()) for each in arrived]})
    elif not options.html:
        print_tables(tables, sys.stdout)
    return 0
