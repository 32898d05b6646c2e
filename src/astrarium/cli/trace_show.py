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
    from astrarium.trace import read_traces
    from astrarium.trace.link import statistics

    counted = statistics(read_traces([options.file]).classes[0])
    if options.json:
        print(json.dumps(counted.plain(), indent=1))
        return 0
    from astrarium.report.tables import print_tables
    from astrarium.report.trace_statistics import statistics_tables

    print_tables(statistics_tables(counted, options.file), sys.stdout)
    return 0
