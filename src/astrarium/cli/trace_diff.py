"""`astrarium trace diff A B`: what differs between two traces."""

from __future__ import annotations

import argparse
import sys

from astrarium.cli.arguments import Parser, json_flag
from astrarium.cli.json_output import print_json

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """The two."""
    for name, words in (("before", "prefix of the first traces, or one file"), ("after", "the second ones")):
        parser.add_argument(name, metavar=name.upper(), help=words)
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Print the difference; 0 whether or not there is one."""
    from astrarium.report.tables.table import print_tables
    from astrarium.report.trace.diff import diff_tables
    from astrarium.trace import read_traces
    from astrarium.trace.diff import diff_traces

    sides = [read_traces(path) for path in (options.before, options.after)]
    found = diff_traces(*sides)
    if options.json:
        print_json("trace diff", found.plain())
    else:
        print_tables(diff_tables(found), sys.stdout)
    return 0
