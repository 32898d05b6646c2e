"""`astrarium trace show FILE`: what is in one trace file."""

from __future__ import annotations

import argparse
import sys

from astrarium.cli.arguments import Parser, json_flag, note
from astrarium.cli.json_output import print_json
from astrarium.cli.pages import page_flags, page_for, write_page
from astrarium.cli.paths import is_design
from astrarium.errors import InputError

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """The file."""
    parser.add_argument("file", metavar="FILE", help="one trace (.et, plain or gzip)")
    page_flags(parser, "the same tables, and bars")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Print the counts."""
    from astrarium.report.trace.times import time_tables, times_of
    from astrarium.trace import groups_of, read_traces
    from astrarium.trace.counts import statistics

    page = page_for("trace", options)
    if is_design(options.file):
        raise InputError(options.file, "is YAML, and no trace",
                         expected=f"a trace (.et), or for a design file astrarium show {options.file}")
    traces = read_traces([options.file])
    counted = statistics(traces.classes[0])
    times = times_of(traces.classes[0], traces.texts, groups_of(traces))
    from astrarium.report.pages.page import ShownTrace
    from astrarium.report.tables.table import print_tables
    from astrarium.report.trace.statistics import statistics_tables

    tables = [*statistics_tables(counted, options.file), *time_tables(times)]
    write_page(page, options, ShownTrace(options.file, tables, times, traces.classes[0]))
    if options.html:
        note(f"wrote {options.html}")
    if options.json:
        print_json("trace show", {**counted.plain(), "times": times.plain()})
    elif not options.html:
        print_tables(tables, sys.stdout)
    return 0
