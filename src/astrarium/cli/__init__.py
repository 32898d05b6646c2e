"""The command line: one file per verb. Data goes to stdout, talk to stderr.

Exit codes: 0 ok, 1 your input (one clear message), 2 usage, 3 our bug, 130 interrupted, 141 the reader of stdout left,
143 terminated.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run `argv` (without the program's name; None: this process's arguments) and return the exit code."""
    try:
        from astrarium.cli.dispatch import dispatch

        return dispatch(argv)
    except KeyboardInterrupt:      # before dispatch could see it
        print("astrarium: interrupted", file=sys.stderr)
        return 130
