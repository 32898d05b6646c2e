"""`astrarium trace collect -o FOLDER SCRIPT …`: a whole Python script under PyTorch's profilers."""

from __future__ import annotations

import argparse
import os
import runpy
import sys

from astrarium.cli.arguments import Parser, note
from astrarium.errors import InputError

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """Where to write, and the script with its arguments."""
    parser.add_argument("-o", "--out", required=True, metavar="FOLDER",
                        help="writes host.RANK.json, device.RANK.json and trace.RANK.et")
    parser.add_argument("--no-link", action="store_true", help="write the profilers' files only")
    parser.add_argument("script", metavar="SCRIPT", help="a Python file; several ranks: torchrun -m astrarium trace …")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="…", help="its arguments")


def run(options: argparse.Namespace) -> int:
    """Run the script inside `collect`; say what was linked."""
    from astrarium.trace import collect

    if not os.path.isfile(options.script):
        raise InputError(options.script, "is not a file", expected="a Python script")
    with collect(options.out, linked=not options.no_link) as recording:
        _run(options.script, options.arguments)
    for line in (*recording.notes, *(recording.report.lines() if recording.report else ())):
        print(line, file=sys.stderr)
    note(f"wrote {recording.trace or recording.device}")
    return 0


def _run(script: str, arguments: list[str]) -> None:
    before = sys.argv
    sys.argv = [script, *arguments]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        if error.code not in (None, 0):
            raise InputError(script, f"ended with {error.code!r:.200}", expected="a script that succeeds") from None
    finally:
        sys.argv = before
