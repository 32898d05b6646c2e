"""`astrarium web`: the workbench in a browser, over one folder."""

from __future__ import annotations

import argparse
import os
import shlex
import sys

from astrarium.cli.arguments import Parser, note
from astrarium.errors import InputError, install_line

__all__ = ["arguments", "run"]

PORT = 8765


def arguments(parser: Parser) -> None:
    """The folder, the address, and who may do what."""
    parser.add_argument("--folder", metavar="DIR", default=".", help="the folder of designs, studies and jobs: nothing "
                        "outside it is read or written (default: the current one)")
    parser.add_argument("--port", metavar="P", type=_port, default=PORT,
                        help=f"the port; 0: a free one; default {PORT}")
    parser.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="the address to listen at; default "
                        "127.0.0.1, which only this machine reaches. Another one needs a token")
    parser.add_argument("--token", metavar="TEXT", help="a visitor must have it (the link brings it); default: none at "
                        "127.0.0.1, a new one elsewhere")
    parser.add_argument("--read-only", action="store_true",
                        help="refuse whatever changes the folder or starts work, to share what is there")


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    if not os.path.isdir(options.folder):
        new = "" if os.path.exists(options.folder) else f" (to make it: mkdir {shlex.quote(options.folder)})"
        raise InputError(f"--folder {options.folder}", "is not a folder", expected=f"one that exists{new}")
    try:
        from astrarium.service.web.server import serve
    except ImportError as error:
        raise InputError("web", f"needs {error.name}", expected=install_line("web")) from None
    from astrarium.service.web.settings import Settings, token_for

    token = token_for(options.host, options.token)

    def told(link: str) -> None:
        print(link, flush=True)
        note(f"the workbench of {os.path.realpath(options.folder)}" + (", read-only" if options.read_only else "")
             + "; Ctrl-C ends it, jobs go on")

    serve(Settings(folder=os.path.realpath(options.folder), host=options.host, port=options.port, token=token,
                   read_only=options.read_only, processes=max(1, min(4, os.cpu_count() or 1))), told)
    print("astrarium: the workbench has ended", file=sys.stderr)
    return 0


def _port(text: str) -> int:
    """A number of a port."""
    if text.isdecimal() and len(text) < 6 and int(text) < 65536:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text[:40]!r}; expected a port, 0 to 65535")
