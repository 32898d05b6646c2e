"""`astrarium validate FILE...`: compare measured rows with predictions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from astrarium.cli.arguments import Parser, apart, idle, json_flag, note
from astrarium.cli.json_output import print_json
from astrarium.cli.pages import page_flags, page_for, write_page

if TYPE_CHECKING:
    from astrarium.validate.rows import Row

__all__ = ["arguments", "run"]

def arguments(parser: Parser) -> None:
    """The files of rows."""
    parser.add_argument("files", nargs="+", metavar="FILE",
                        help="measured rows: training steps (source, case, gpu, n_gpus, model, tp, pp, dp, gbs, "
                             "step_s...), collectives, serving figures or kernels (CSV); steps of one GPU (JSON)")
    parser.add_argument("--stack", metavar="NAME", help="the software stack of "
                        "training steps (`astrarium list stack`), in place of the one that a row or its source names; "
                        "none: without one")
    parser.add_argument("--serving", metavar="FILE.yaml", help="FILEs are logs of one engine, a request a line "
                        "(arrival, prompt, output, and at least one of ttft, tpot and latency, in seconds, or as "
                        "ttft_ms and so on): compare them with this serving file, whose requests are those of the log; "
                        "the files of `serve --csv` are such logs")
    json_flag(parser)
    page_flags(parser, "measured against predicted, and the tables")


def run(options: argparse.Namespace) -> int:
    """Read, predict, print."""
    from astrarium.report.tables.table import print_tables
    from astrarium.report.tables.validation import validation_plain, validation_tables
    from astrarium.validate.designs import known_stack
    from astrarium.validate.rows import read_rows, with_stack
    from astrarium.validate.verdict import verdict

    stack = options.stack and known_stack(options.stack)
    page = page_for("validate", options)
    apart("--html", options.html, options.files)
    if options.serving is not None:
        idle("--html", options.html, "without --serving")
        idle("--plot", options.plot, "without --serving")
        idle("--stack", options.stack, "without --serving")
        return _logs(options)
    rows = with_stack([row for file in options.files for row in read_rows(file)], stack)
    made = verdict(rows, _progress(rows))
    write_page(page, options, made)
    if options.json:
        print_json("validate", validation_plain(made))
        return 0
    print_tables(validation_tables(made), sys.stdout)
    return 0


def _logs(options: argparse.Namespace) -> int:
    """Means of logs, and those of a serving file."""
    from astrarium.cli.paths import read_as
    from astrarium.report.tables.table import print_tables
    from astrarium.report.tables.validation import log_table
    from astrarium.serving.serve import load_serving
    from astrarium.validate.serving.compare import compared

    found = compared(options.files, read_as("serving file", load_serving, options.serving), note)
    if options.json:
        print_json("validate serving", {"logs": found})
        return 0
    print_tables([log_table(found)], sys.stdout)
    return 0


def _progress(rows: list[Row]) -> Callable[[int], None] | None:
    """How many rows are done, on a terminal only."""
    if not sys.stderr.isatty():
        return None
    return lambda done: print(f"\r{done} of {len(rows)} rows", end="\n" if done == len(rows) else "", file=sys.stderr)
