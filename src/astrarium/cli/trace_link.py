"""`astrarium trace link FILE [FILE] -o PREFIX`: profiler traces to Chakra traces, of one rank or of many."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from astrarium.cli.arguments import Parser, idle, json_flag, note, place
from astrarium.cli.arguments import rank as rank_number
from astrarium.cli.json_output import print_json
from astrarium.cli.paths import file_form
from astrarium.errors import InputError

if TYPE_CHECKING:
    from astrarium.profile.link import LinkReport

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """The two traces, where to write, whose they are."""
    parser.add_argument("first", metavar="FILE", help="ExecutionTraceObserver's file or Kineto's (.json, .json.gz), "
                        "known by its content; of several ranks a pattern in quotes: * for their numbers "
                        "('host.*.json'), or some of them with [...] or ? ('host.[01].json')")
    parser.add_argument("second", nargs="?", metavar="FILE", help="the other one of the same run (or ranks)")
    parser.add_argument("-o", "--out", required=True, metavar="PREFIX", help="writes PREFIX.RANK.et")
    parser.add_argument("--rank", type=rank_number, metavar="R",
                        help="the rank (default: that of the device trace, else 0)")
    parser.add_argument("--unrecorded", action="store_true",
                        help="subtract the profilers' overhead from host operators")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Link, write, say what was joined and what is missing."""
    from astrarium.cli.trace_clock import slower
    from astrarium.profile.link import link, write_linked
    from astrarium.trace.rank_files import is_pattern
    from astrarium.trace.read import trace_of_rank

    named = [path for path in (options.first, options.second) if path is not None]
    many = any(map(is_pattern, named))
    idle("--rank", many and options.rank is not None, "files of one rank")
    rows = []
    for rank in _ranks(named) if many else [options.rank]:
        host, device = _sides([trace_of_rank(path, rank) for path in named] if many else named)
        place("--out", f"{options.out}.{rank or 0}.et")
        linked = link(host, device, rank=rank, quiet=options.unrecorded, clock=slower)
        path = write_linked(options.out, linked)
        rows.append({"path": path, **linked.report.plain()})
        _say(linked.report, path, options.json, many)
    if options.json:
        print_json("trace link", rows)
    elif many:
        note("the whole report of each rank: --json, or link one rank alone")
    return 0


def _say(report: LinkReport, path: str, json: bool, many: bool) -> None:
    """The report (of `many` ranks in a line each), and what makes a trace doubtful as a warning."""
    if json or many:
        for what in report.warnings:
            note(f"WARNING: {what}")
        if not json:
            print(f"{report.line()}; wrote {path}", file=sys.stderr)
        return
    for line in report.lines():
        print(line, file=sys.stderr)
    note(f"wrote {path}")


def _ranks(patterns: Sequence[str]) -> list[int]:
    """The ranks of patterns, each of which has a file of every rank. Raises InputError."""
    from astrarium.trace.rank_files import EXAMPLE, is_pattern, ranks_of

    every = [set(ranks_of(pattern)) for pattern in patterns]
    for pattern, ranks in zip(patterns, every, strict=True):
        if not is_pattern(pattern):
            raise InputError(pattern, "is one file", expected=f"a pattern {EXAMPLE}, as the other one")
        missing = sorted(set().union(*every) - ranks)
        if missing or not ranks:
            raise InputError(pattern, f"names no file of rank {missing[0]}" if missing else "names no file",
                             expected=f"a file of each rank: a pattern {EXAMPLE}")
    return sorted(every[0])


def _sides(files: Sequence[str]) -> tuple[str | None, str | None]:
    """(host trace, device trace), in whatever order they are named. A file that no reader knows counts as the host
    trace, or beside one as the device trace, and is refused as such. Raises InputError for two of one form."""
    forms = [file_form(path) for path in files]
    if forms in (["host", "host"], ["kineto", "kineto"]):
        raise InputError(files[1], f"is of form {forms[1]}, as {files[0]} is", expected="one of host, one of kineto")
    device = next((place for place, form in enumerate(forms) if form == "kineto"), 1)
    hosts = [path for place, path in enumerate(files) if place != device]
    return (hosts[0] if hosts else None), (files[device] if device < len(files) else None)
