"""`astrarium trace write DESIGN.yaml -o PREFIX`: what a workload generator makes, as Chakra files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from astrarium.cli.arguments import Parser, json_flag, set_flag, whole
from astrarium.cli.imports import say_imports
from astrarium.cli.json_output import print_json

if TYPE_CHECKING:
    from astrarium.trace.export import Link, Written

__all__ = ["arguments", "files_flags", "how", "progress", "report", "run"]


def arguments(parser: Parser) -> None:
    """The design, and how to write."""
    parser.add_argument("design", metavar="DESIGN.yaml", help="the design file, with a generated workload")
    set_flag(parser, "change a field of the design first")
    parser.add_argument("--tensors", action="store_true",
                        help="also write what every node reads and writes, for memory over time")
    files_flags(parser)


def files_flags(parser: Parser) -> None:
    """Where files go, and how equal ones are written."""
    parser.add_argument("-o", "--out", metavar="PREFIX", required=True,
                        help="writes PREFIX.RANK.et and PREFIX.groups.json")
    parser.add_argument("--jobs", metavar="N", type=whole, help="number of writing threads (all cores)")
    parser.add_argument("--gzip", action="store_true", help="compress the traces")
    equal = parser.add_mutually_exclusive_group()
    for flag, word in (("--link", "hard links (default)"), ("--symlink", "symbolic links"), ("--copy", "copies")):
        equal.add_argument(flag, dest="link", action="store_const", const={"--link": "hard"}.get(flag, flag[2:]),
                           help=f"ranks with equal traces are {word}")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Generate and write."""
    from astrarium.cli.paths import read_design
    from astrarium.config import assignments
    from astrarium.lower.placement import generated
    from astrarium.trace.export import write_generated

    design = read_design(options.design, assignments(options.set))
    say_imports(design)
    made = generated(design)
    report(options, write_generated(made, options.out, jobs=options.jobs, link=how(options), compress=options.gzip,
                                    tensors=options.tensors, progress=progress()))
    return 0


def how(options: argparse.Namespace) -> Link:
    """What equal ranks share."""
    chosen: Link = options.link or "hard"
    return chosen


def progress() -> Callable[[int, int], None] | None:
    """A line that counts, on a terminal and only there."""
    if not sys.stderr.isatty():
        return None

    def told(done: int, ranks: int) -> None:
        if done == ranks or done * 100 // ranks != (done - 1) * 100 // ranks:
            print(f"\r{done:,} of {ranks:,} traces", end="\n" if done == ranks else "", file=sys.stderr, flush=True)

    return told


def report(options: argparse.Namespace, written: Written) -> None:
    """What was written."""
    if options.json:
        print_json("trace write", {"prefix": options.out, **asdict(written)})
        return
    from astrarium.units import format_bytes

    linked = f", {written.linked:,} links to equal ones" if written.linked else ""
    print(f"{written.files:,} traces, {format_bytes(written.bytes)}{linked}: "
          f"{options.out}.0.et to {options.out}.{written.ranks - 1}.et")
    print(f"groups: {written.groups}")
