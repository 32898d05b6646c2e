"""`astrarium trace show FILE`: what is in one trace file."""

from __future__ import annotations

import argparse
import json
import sys

from astrarium.cli.arguments import Parser, json_flag

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """The file."""
    parser.add_argument("file", metavar="FILE", help="one trace (.et, plain or gzip)")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Print the counts."""
    from astrarium.report.trace_times import time_tables, times_of
    from astrarium.trace import groups_of, read_traces
    from astrarium.trace.link import statistics

    traces = read_traces([options.file])
    counted = statistics(traces.classes[0])
    times = times_of(traces.classes[0], traces.texts, groups_of(traces))
    if options.json:
        print(json.dumps({**counted.plain(), "times": times.plain()}, indent=1))
        return 0
    from astrarium.report.tables import print_tables
    from astrarium.report.trace_statistics import statistics_tables

    print_tables([*statistics_tables(counted, options.file), *time_tables(times)], sys.stdout)
    return 0
