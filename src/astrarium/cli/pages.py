"""`--html FILE` and `--page NAME`: what a verb found as one HTML file that needs nothing else."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from astrarium.cli.arguments import Parser, idle, place

if TYPE_CHECKING:
    from astrarium.report.pages.page import Page

__all__ = ["page_flags", "page_for", "write_page"]


def page_flags(parser: Parser, what: str) -> None:
    """`--html FILE`, which writes `what`, and `--page NAME`."""
    parser.add_argument("--html", metavar="FILE", help=f"write one page: {what}")
    parser.add_argument("--page", metavar="NAME", help="the kind of page for --html; default: the usual one "
                        "(`astrarium list page`)")


def page_for(verb: str, options: argparse.Namespace) -> Page | None:
    """The page to write; None without `--html`. Raises InputError before any work where it cannot be written."""
    idle("--page", options.page is not None and not options.html, "--html FILE as well")
    place("--html", options.html)
    if not options.html:
        return None
    from astrarium.report.pages.page import page_of

    return page_of(options.page or verb, verb)


def write_page(page: Page | None, options: argparse.Namespace, found: Any) -> None:
    """Write what a verb found as the page, where there is one."""
    if page is None:
        return
    import shlex

    from astrarium.config.whole import write_whole
    from astrarium.report.pages.html import with_command

    text = with_command(page.write(found), shlex.join(options.command))
    with write_whole(options.html) as stream:
        stream.write(text.encode())
