"""`astrarium mcp`: tools for an assistant, over the Model Context Protocol on standard input and output, or HTTP."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from astrarium.cli.arguments import Parser, idle, note

if TYPE_CHECKING:
    from astrarium.service.workers import Workers

__all__ = ["arguments", "run"]

EPILOG = ("An assistant starts it. Claude Code: `claude mcp add astrarium -- astrarium mcp --folder /path/to/designs`. "
          'Clients with a file: {"mcpServers": {"astrarium": {"command": "astrarium", "args": ["mcp", "--folder", '
          '"/path/to/designs"]}}}. Others: docs/guides/assistants.md.')


def arguments(parser: Parser) -> None:
    """The folder, and what a call may cost."""
    parser.epilog = EPILOG
    parser.add_argument("--folder", metavar="DIR", default=".",
                        help="the folder whose files the client may read and write (the current one)")
    parser.add_argument("--limit", metavar="L", action="append", default=[],
                        help='limit of a call: "60 s" of CPU time (default 120 s), "2 GB" of memory (default 4 GB), '
                             '"500 designs" (default 1000); may be repeated')
    parser.add_argument("--read-only", action="store_true", help="write no file")
    parser.add_argument("--http", metavar="[HOST:]PORT", type=_address, help="listen here, in place of standard input "
                        "and output (streamable HTTP, path /mcp); HOST is 127.0.0.1, which only this machine reaches")
    parser.add_argument("--token", metavar="TEXT", help="with --http: clients must send it (Authorization: Bearer "
                        "TEXT); default: none at 127.0.0.1, a new one elsewhere")


def run(options: argparse.Namespace) -> int:
    """Serve until the client leaves."""
    from astrarium.service.limits import limits_of
    from astrarium.service.mcp import needed, run_stdio
    from astrarium.service.workers import Workers, folder_at

    needed()
    idle("--token", options.http is None and options.token, "with --http")
    limits = limits_of(options.limit)
    folder = folder_at(options.folder, limits, writable=not options.read_only)
    if options.http is None and sys.stdin.isatty():
        note("this is for an assistant, which starts it: docs/guides/assistants.md")
    import anyio

    with Workers(folder, limits, count=2) as workers:
        workers.warm()
        if options.http is None:
            anyio.run(run_stdio, workers)
        else:
            _listen(workers, options)
    return 0


def _listen(workers: Workers, options: argparse.Namespace) -> None:
    """Serve over HTTP until Ctrl-C."""
    import anyio

    from astrarium.service.mcp_http import run_http
    from astrarium.service.web.settings import Settings, token_for

    host, port = options.http
    token = token_for(host, options.token)

    def told(address: str) -> None:
        print(address, flush=True)
        note(f"the tools of {workers.folder.root}" + (f"; clients send Authorization: Bearer {token}" if token else "")
             + "; Ctrl-C ends it")

    anyio.run(run_http, workers, Settings(workers.folder.root, host, port, token), told)


def _address(text: str) -> tuple[str, int]:
    """A host and a port."""
    host, _, port = text.rpartition(":")
    if port.isdecimal() and len(port) < 6 and int(port) < 65536:
        return host.strip("[]") or "127.0.0.1", int(port)
    raise argparse.ArgumentTypeError(f"{text[:40]!r}; expected a port, or HOST:PORT")
