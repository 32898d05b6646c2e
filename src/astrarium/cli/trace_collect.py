"""`astrarium trace collect -o FOLDER SCRIPT …`: a whole Python script under PyTorch's profilers."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback

from astrarium.cli.arguments import Parser, note
from astrarium.errors import AstrariumError, InputError

__all__ = ["arguments", "run"]

INTERRUPTED = 130
OURS = (__file__, runpy.__file__, "<frozen runpy>")      # frames that a script's traceback leaves out


def arguments(parser: Parser) -> None:
    """Where to write, and the script with its arguments."""
    parser.add_argument("-o", "--out", required=True, metavar="FOLDER",
                        help="writes host.RANK.json, device.RANK.json and trace.RANK.et")
    parser.add_argument("--no-link", action="store_true", help="write only the profilers' files")
    parser.add_argument("script", metavar="SCRIPT", help="a Python file; several ranks: torchrun -m astrarium trace …")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="…", help="its arguments")


def run(options: argparse.Namespace) -> int:
    """Run the script inside `collect`; say what was linked. The exit code is the script's, 1 after an exception."""
    from astrarium.cli.trace_clock import slower
    from astrarium.profile import collect

    if not os.path.isfile(options.script):
        raise InputError(options.script, "is not a file", expected="a Python script")
    code = 0
    try:
        with collect(os.path.abspath(options.out), linked=not options.no_link, clock=slower) as recording:
            code = _run(options.script, options.arguments)
    except AstrariumError as error:
        if not code:
            raise
        print(f"astrarium: {error}", file=sys.stderr)      # what failed first is the script
        return code
    for line in (*recording.notes, *(recording.report.lines() if recording.report else ())):
        print(line, file=sys.stderr)
    if code:
        note(f"{options.script} ended with {code}; the recording ends there")
    note(f"wrote {recording.trace or recording.device}")
    return code


def _run(script: str, arguments: list[str]) -> int:
    """Run the script as Python does, with its own traceback; its exit code."""
    before = sys.argv, list(sys.path)
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        return _exit_code(stop.code)
    except KeyboardInterrupt:
        print(f"{script}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BaseException as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename not in OURS]
        found = traceback.TracebackException.from_exception(error)
        found.stack = traceback.StackSummary.from_list(frames)
        print("".join(found.format()), end="", file=sys.stderr)
        return 1
    finally:
        sys.argv, sys.path[:] = before
    return 0


def _exit_code(code: object) -> int:
    """What Python makes of SystemExit's argument: a text goes to stderr."""
    if code is None or isinstance(code, int):
        return (code or 0) & 255
    print(code, file=sys.stderr)
    return 1
