"""`astrarium trace convert FILE -o PREFIX`: a trace of another form, or a text workload of ASTRA-sim 1.0 (`--npus N`),
as Chakra files."""

from __future__ import annotations

import argparse

from astrarium.cli.arguments import Parser, idle, note, whole
from astrarium.cli.paths import file_form
from astrarium.cli.trace_write import files_flags, how, progress, report
from astrarium.errors import InputError

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """The file, the ranks of a text workload, and how to write."""
    parser.add_argument("file", metavar="FILE", help="a text workload: a keyword such as DATA, then its layers; or one "
                        "rank's trace of another form (`astrarium list reader`), which becomes PREFIX.0.et")
    parser.add_argument("--npus", "--gpus", metavar="N", type=whole,
                        help="ranks of the text workload (default: all_gpus of AICB's files)")
    parser.add_argument("--passes", metavar="P", type=whole, default=1, help="iterations (1)")
    parser.add_argument("--inner", metavar="K", type=whole,
                        help="size of a group of neighbours under HYBRID_* (default: as in the file), dim 0 of the "
                             "network")
    parser.add_argument("--unit", choices=("us", "ns"),
                        help="unit of times in the file: us as in Chakra's converter, ns as in ASTRA-sim 1.0 "
                             "(default: us; of AICB's files ns)")
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
    form = file_form(options.file)
    if form != "text" and (form or options.npus is None):       # with --npus the reader of text says what is wrong
        return _one_rank(options)
    from astrarium.profile.text_generate import generate_text, text_notes, text_unit
    from astrarium.profile.text_workload import read_text
    from astrarium.trace.export import write_generated

    work = read_text(options.file)
    ranks = options.npus or (work.aicb.ranks if work.aicb else None)
    if ranks is None:
        raise InputError("--npus", "is missing", expected="the ranks of the text workload")
    made = generate_text(work, ranks, passes=options.passes, inner=options.inner, unit=options.unit,
                         compute_scale=options.compute_scale, comm_scale=options.comm_scale)
    for line in text_notes(work):
        note(line)
    if (options.unit or text_unit(work)) == "ns":
        note("a trace counts whole microseconds: every time was rounded to the nearest, at least 1")
    report(options, write_generated(made, options.out, jobs=options.jobs, link=how(options), compress=options.gzip,
                                    progress=progress()))
    return 0


def _one_rank(options: argparse.Namespace) -> int:
    """A trace of another form as PREFIX.0.et."""
    from astrarium.trace.read import convert_file
    from astrarium.trace.write import write_file

    usual = {"npus": None, "passes": 1, "inner": None, "unit": None, "compute_scale": 1.0, "comm_scale": 1.0,
             "jobs": None, "link": None, "json": False}
    for name, value in usual.items():
        idle(f"--{name.replace('_', '-')}", getattr(options, name) != value,
             f"a text workload of ASTRA-sim 1.0, and {options.file} is {file_form(options.file)}")
    found = convert_file(options.file)
    for line in found.notes:
        note(line)
    write_file(f"{options.out}.0.et", found.data, compress=options.gzip)
    note(f"wrote {options.out}.0.et")
    return 0
