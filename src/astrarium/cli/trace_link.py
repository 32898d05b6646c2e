"""`astrarium trace link HOST DEVICE -o PREFIX`: profiler traces to a Chakra trace."""

from __future__ import annotations

import argparse
import json
import sys

from astrarium.cli.arguments import Parser, json_flag, note, place, rank
from astrarium.cli.paths import file_form
from astrarium.errors import InputError

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """The two traces, where to write, whose they are."""
    parser.add_argument("host", nargs="?", metavar="HOST", help="ExecutionTraceObserver's file (.json, .json.gz), or -")
    parser.add_argument("device", nargs="?", metavar="DEVICE", help="Kineto's file (.json, .json.gz), or -")
    parser.add_argument("--host", dest="host_only", metavar="FILE", help="only a host trace")
    parser.add_argument("--device", dest="device_only", metavar="FILE", help="only a device trace")
    parser.add_argument("-o", "--out", required=True, metavar="PREFIX", help="writes PREFIX.RANK.et")
    parser.add_argument("--rank", type=rank, metavar="R", help="the rank (default: that of the device trace, else 0)")
    parser.add_argument("--unrecorded", action="store_true",
                        help="subtract the profilers' overhead from host operators")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Link, write, say what was joined and what is missing."""
    from astrarium.cli.trace_clock import slower
    from astrarium.profile.link import link, write_linked

    host, device = _sides(options)
    place("--out", f"{options.out}.{options.rank or 0}.et")
    linked = link(host, device, rank=options.rank, quiet=options.unrecorded, clock=slower)
    path = write_linked(options.out, linked)
    if options.json:
        for what in linked.report.warnings:
            note(f"WARNING: {what}")
        print(json.dumps({"path": path, **linked.report.plain()}, indent=1))
        return 0
    for line in linked.report.lines():
        print(line, file=sys.stderr)
    note(f"wrote {path}")
    return 0


def _sides(options: argparse.Namespace) -> tuple[str | None, str | None]:
    """(host trace, device trace); two names, or one, in any order: their content tells which is which."""
    first, second = options.host, options.device
    if first not in (None, "-") and file_form(first) == "kineto" and (
            second in (None, "-") or file_form(second) == "host"):
        first, second = second, first
    return _one("host", first, options.host_only), _one("device", second, options.device_only)


def _one(word: str, first: str | None, second: str | None) -> str | None:
    """The file given in either way; `-` is none."""
    first = None if first == "-" else first
    if first is not None and second is not None:
        raise InputError(f"--{word}", f"there are two {word} traces", expected="one")
    return first if first is not None else second
