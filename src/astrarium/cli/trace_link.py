"""`astrarium trace link FILE [FILE] -o PREFIX`: profiler traces to a Chakra trace."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from astrarium.cli.arguments import Parser, json_flag, note, place, rank
from astrarium.cli.json_output import print_json
from astrarium.cli.paths import file_form
from astrarium.errors import InputError

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """The two traces, where to write, whose they are."""
    parser.add_argument("first", metavar="FILE", help="ExecutionTraceObserver's file or Kineto's (.json, .json.gz), "
                        "known by its content")
    parser.add_argument("second", nargs="?", metavar="FILE", help="the other one of the same run")
    parser.add_argument("-o", "--out", required=True, metavar="PREFIX", help="writes PREFIX.RANK.et")
    parser.add_argument("--rank", type=rank, metavar="R", help="the rank (default: that of the device trace, else 0)")
    parser.add_argument("--unrecorded", action="store_true",
                        help="subtract the profilers' overhead from host operators")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Link, write, say what was joined and what is missing."""
    from astrarium.cli.trace_clock import slower
    from astrarium.profile.link import link, write_linked

    host, device = _sides([path for path in (options.first, options.second) if path is not None])
    place("--out", f"{options.out}.{options.rank or 0}.et")
    linked = link(host, device, rank=options.rank, quiet=options.unrecorded, clock=slower)
    path = write_linked(options.out, linked)
    if options.json:
        for what in linked.report.warnings:
            note(f"WARNING: {what}")
        print_json("trace link", {"path": path, **linked.report.plain()})
        return 0
    for line in linked.report.lines():
        print(line, file=sys.stderr)
    note(f"wrote {path}")
    return 0


def _sides(files: Sequence[str]) -> tuple[str | None, str | None]:
    """(host trace, device trace), in whatever order they are named. A file that no reader knows counts as the host
    trace, or beside one as the device trace, and is refused as such. Raises InputError for two of one form."""
    forms = [file_form(path) for path in files]
    if forms in (["host", "host"], ["kineto", "kineto"]):
        raise InputError(files[1], f"is of form {forms[1]}, as {files[0]} is", expected="one of host, one of kineto")
    device = next((place for place, form in enumerate(forms) if form == "kineto"), 1)
    hosts = [path for place, path in enumerate(files) if place != device]
    return (hosts[0] if hosts else None), (files[device] if device < len(files) else None)
