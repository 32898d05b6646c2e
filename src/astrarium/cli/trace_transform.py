"""`astrarium trace transform IN ... -o OUT --step ...`: traces cut, merged, renamed, scaled, retargeted."""

from __future__ import annotations

import argparse

from msgspec.structs import asdict

from astrarium.cli.arguments import Parser, json_flag
from astrarium.cli.json_output import print_json

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """The traces, the steps, where to write."""
    from astrarium.trace.transform import STEPS

    steps = "; ".join(f"{name}: {kind.sentence}" for name, kind in STEPS.items())
    parser.add_argument("inputs", metavar="IN", nargs="+", help="prefix of the traces (IN.RANK.et), or one file")
    parser.add_argument("-o", "--out", metavar="OUT", required=True, help="writes OUT.RANK.et and OUT.groups.json")
    parser.add_argument("--step", action="append", default=[], metavar="NAME:KEY=VALUE,...",
                        help=f"a step; may be repeated, in order. {steps}".replace("%", "%%"))
    parser.add_argument("--merge", choices=("ranks", "time"), default="ranks",
                        help="several IN: at the same time on separate ranks (default), or one after the other")
    parser.add_argument("--groups", metavar="FILE", action="append", default=[],
                        help="groups of each IN in turn (default: IN.groups.json if it exists)")
    parser.add_argument("--gzip", action="store_true", help="compress the traces")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Transform and write."""
    from astrarium.trace.transform import load_job, parse_step, transform, write_job
    from astrarium.units import format_bytes

    steps = [parse_step(text) for text in options.step]
    given = [*options.groups, *[None] * len(options.inputs)]
    jobs = [load_job(path, groups) for path, groups in zip(options.inputs, given, strict=False)]
    written = write_job(transform(jobs, steps, along=options.merge), options.out, compress=options.gzip)
    if options.json:
        print_json("trace transform", {"prefix": options.out, **asdict(written)})
        return 0
    print(f"{written.ranks:,} traces, {format_bytes(written.bytes)}: {options.out}.0.et to "
          f"{options.out}.{written.ranks - 1}.et")
    if written.groups:
        print(f"groups: {written.groups}")
    return 0
