"""`astrarium trace convert FILE.txt -o PREFIX --npus N`: a text workload of ASTRA-sim 1.0 as Chakra files."""

from __future__ import annotations

import argparse

from astrarium.cli.arguments import Parser, note, whole
from astrarium.cli.trace_write import files_flags, how, progress, report

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """The text workload, the ranks, and how to write."""
    parser.add_argument("file", metavar="FILE.txt", help="the text workload: a keyword such as DATA, then its layers")
    parser.add_argument("--npus", metavar="N", type=whole, required=True, help="ranks")
    parser.add_argument("--passes", metavar="P", type=whole, default=1, help="iterations (1)")
    parser.add_argument("--inner", metavar="K", type=whole,
                        help="neighbours that form a group under HYBRID_* (what the file says): dim 0 of the network")
    parser.add_argument("--unit", choices=("us", "ns"), default="us",
                        help="of times in the file: us as Chakra's converter reads them, ns as ASTRA-sim 1.0 did")
    for name in ("compute", "comm"):
        parser.add_argument(f"--{name}-scale", metavar="X", type=_scale, default=1.0,
                            help=f"multiplies {'times' if name == 'compute' else 'bytes'} (1)")
    files_flags(parser)


def _scale(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if 0 < value < 1e6:
        return value
    raise argparse.ArgumentTypeError(f"{text[:40]!r}; expected a number above 0")


def run(options: argparse.Namespace) -> int:
    """Convert and write."""
    from astrarium.profile.text_generate import generate_text
    from astrarium.profile.text_workload import read_text
    from astrarium.trace.export import write_generated

    made = generate_text(read_text(options.file), options.npus, passes=options.passes, inner=options.inner,
                         unit=options.unit, compute_scale=options.compute_scale, comm_scale=options.comm_scale)
    if options.unit == "ns":
        note("a trace counts whole microseconds: every time was rounded to the nearest, at least 1")
    report(options, write_generated(made, options.out, jobs=options.jobs, link=how(options), compress=options.gzip,
                                    progress=progress()))
    return 0
