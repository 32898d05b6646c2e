"""`astrarium validate FILE...`: compare measured rows with predictions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from astrarium.cli.arguments import Parser, apart, idle, json_flag, note
from astrarium.cli.json_output import print_json
from astrarium.cli.pages import page_flags, page_for, write_page

if TYPE_CHECKING:
    from astrarium.validate.rows import Row

__all__ = ["arguments", "run"]

MS = 1e6        # ns


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
    from astrarium.design import load_design
    from astrarium.report.tables.table import Table, print_tables
    from astrarium.serving.serve import load_serving
    from astrarium.units import format_time
    from astrarium.validate.serving.calibrate import means_of, replayed
    from astrarium.validate.serving.log import log_notes, read_log

    serving = read_as("serving file", load_serving, options.serving)
    design, known, plain = load_design(serving.alone), dict[tuple[object, ...], object](), list[dict[str, Any]]()
    for path in options.files:
        log = read_log(path)
        for line in log_notes(path, log):
            note(line)
        real, made = means_of(log), replayed(log, design, serving.policy, known)
        plain += [{"file": path, "metric": f"{name}_mean_ns", "requests": log.count(name),
                   "measured": getattr(real, name) * MS, "predicted": getattr(made, name) * MS,
                   "error": getattr(made, name) / getattr(real, name) - 1} for name in ("ttft", "tpot",
                  "latency") if getattr(real, name)]
    for row in plain:
        if not 0.01 < row["measured"] / row["predicted"] < 100:
            note(f"{row['file']}: {row['metric']} is far from the prediction: times are seconds, or ms in columns that "
                 "say so (ttft_ms)")
    if options.json:
        print_json("validate serving", {"logs": plain})
        return 0
    rows = [[row["file"], row["metric"].split("_")[0] + " mean", str(row["requests"]),
             *(format_time(row[name]) for name in ("measured", "predicted")), f"{100 * row['error']:+.1f} %"]
            for row in plain]
    print_tables([Table("logs compared with predictions", "<<>>>>", rows,
                        ("file", "metric", "requests", "measured", "predicted", "error"))], sys.stdout)
    return 0


def _progress(rows: list[Row]) -> Callable[[int], None] | None:
    """How many rows are done, on a terminal only."""
    if not sys.stderr.isatty():
        return None
    return lambda done: print(f"\r{done} of {len(rows)} rows", end="\n" if done == len(rows) else "", file=sys.stderr)
