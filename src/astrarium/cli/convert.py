"""`astrarium convert --to …`: ASTRA-sim's inputs to a design file; a trace to JSON lines and back."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from astrarium.cli.arguments import Parser, idle, note, wrote
from astrarium.cli.astra_flags import astra_defaults, astra_flags, astra_inputs, astra_notes
from astrarium.errors import InputError

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """`--to` says what to make."""
    parser.add_argument("--to", required=True, choices=tuple(_TARGETS),
                        help="design: from ASTRA-sim's files (its flags below); jsonl: from a trace; et: from one "
                             "of another form (`astrarium list reader`)")
    parser.add_argument("path", nargs="?", metavar="FILE", help="the trace to convert (jsonl, et)")
    parser.add_argument("-o", "--out", metavar="FILE", help="where to write; left out, or -: standard output")
    parser.add_argument("--gzip", action="store_true", help="compress the trace (et)")
    astra_flags(parser, required=False)


def run(options: argparse.Namespace) -> int:
    """Convert; 0."""
    idle("--gzip", options.gzip and options.to != "et", "--to et")
    if options.to != "design":
        for flag, default in astra_defaults().items():
            idle(flag, getattr(options, flag[2:].replace("-", "_")) != default, "--to design")
    options.out = None if options.out == "-" else options.out
    return _TARGETS[options.to](options)


def _design(options: argparse.Namespace) -> int:
    if options.path is not None:
        raise InputError("convert", f"a design is not made from {options.path!r}",
                         expected="ASTRA-sim's flags and no FILE")
    for name in ("workload", "system", "network"):
        if getattr(options, f"{name}_configuration") is None:
            raise InputError(f"--{name}-configuration", "is missing", expected="one of ASTRA-sim's input files")
    from astrarium.astra_sim.to_design import design_of
    from astrarium.config import dumps
    from astrarium.design import dump_design

    inputs = astra_inputs(options)
    for text in astra_notes(options, inputs):
        note(text)
    if inputs.memory_trace is not None:
        note("track-local-mem: a design has no such setting; `astrarium astra-sim` writes its files")
    design = design_of(inputs, options.system_configuration, options.comm_group_configuration)
    if options.out is None:
        sys.stdout.write(dumps(design))
    else:
        dump_design(design, options.out)
    return 0


def _file(options: argparse.Namespace) -> str:
    if options.path is None:
        raise InputError("convert", f"--to {options.to} needs a FILE")
    path: str = options.path
    return path


def _jsonl(options: argparse.Namespace) -> int:
    from astrarium.config.whole import write_whole
    from astrarium.report.trace.json_lines import lines_of
    from astrarium.trace import read_traces
    from astrarium.trace.write import node_messages

    lines = lines_of(node_messages(read_traces([_file(options)]).file_bytes(0)))
    if options.out is None:
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return 0
    with write_whole(options.out) as stream:
        stream.writelines(f"{line}\n".encode() for line in lines)
    wrote(options.out)
    return 0


def _et(options: argparse.Namespace) -> int:
    from astrarium.trace.read import convert_file
    from astrarium.trace.write import write_file

    path = _file(options)
    if options.out is None:
        raise InputError("--out", "is missing", expected="the name of the trace to write, such as w.0.et")
    found = convert_file(path)
    for line in found.notes:
        note(line)
    write_file(options.out, found.data, compress=options.gzip)
    wrote(options.out)
    return 0


_TARGETS: dict[str, Callable[[argparse.Namespace], int]] = {"design": _design, "jsonl": _jsonl, "et": _et}
