"""`astrarium mcp`: tools for an assistant, over the Model Context Protocol on standard input and output."""

from __future__ import annotations

import argparse
import sys

from astrarium.cli.arguments import Parser, note

__all__ = ["arguments", "run"]


def arguments(parser: Parser) -> None:
    """The folder, and what a call may cost."""
    parser.add_argument("--folder", metavar="DIR", default=".",
                        help="the folder whose files the client may read and write (the current one)")
    parser.add_argument("--limit", metavar="L", action="append", default=[],
                        help='limit of a call: "60 s" of CPU time (default 120 s), "2 GB" of memory (default 4 GB), '
                             '"500 designs" (default 1000); may be repeated')
    parser.add_argument("--read-only", action="store_true", help="write no file")


def run(options: argparse.Namespace) -> int:
    """Serve until the client leaves."""
    from astrarium.service.limits import limits_of
    from astrarium.service.mcp import needed, run_stdio
    from astrarium.service.workers import Workers, folder_at

    needed()
    limits = limits_of(options.limit)
    folder = folder_at(options.folder, limits, writable=not options.read_only)
    if sys.stdin.isatty():
        note("this is for an assistant, which starts it: docs/guides/assistants.md")
    import anyio

    with Workers(folder, limits, count=2) as workers:
        workers.warm()
        anyio.run(run_stdio, workers)
    return 0
