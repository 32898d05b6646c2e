"""`--html FILE`, `--page NAME` and `--plot NAME=FILE`: what a verb found as one HTML file that needs nothing else, and
as pictures."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from astrarium.cli.arguments import Parser, idle, place, wrote
from astrarium.errors import InputError

if TYPE_CHECKING:
    from astrarium.report.pages.page import Page

__all__ = ["page_flags", "page_for", "write_page", "written"]


def page_flags(parser: Parser, what: str) -> None:
    """`--html FILE`, which writes `what`, `--page NAME` and `--plot NAME=FILE`."""
    parser.add_argument("--html", metavar="FILE", help=f"write one page: {what}")
    parser.add_argument("--page", metavar="NAME", help="the kind of page for --html; default: the usual one "
                        "(`astrarium list page`)")
    parser.add_argument("--plot", metavar="NAME=FILE", action="append", default=[],
                        help="write a picture (`astrarium list plot`) to FILE: .svg, .png (extra: pages) or .json (a "
                             "Vega-Lite specification); may be repeated")


def page_for(verb: str, options: argparse.Namespace) -> Page | None:
    """The page to write; None without `--html`. Raises InputError before any work where it, or a picture, cannot be
    written."""
    idle("--page", options.page is not None and not options.html, "--html FILE as well")
    place("--html", options.html)
    for name, path in _plots(options):
        from astrarium.report.plot.find import drawing_of
        from astrarium.report.plot.save import need_renderer

        drawing_of(name, verb)
        place("--plot", path)
        need_renderer(path, f"--plot {name}")
    options.plots_of = verb
    if not options.html:
        return None
    from astrarium.report.pages.page import page_of

    return page_of(options.page or verb, verb)


def _plots(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """(name, path) of each picture."""
    for text in options.plot:
        name, _, path = text.partition("=")
        if not path:
            raise InputError(f"--plot {text}", "has no file", expected="NAME=FILE, such as breakdown=breakdown.svg")
        yield name, path


def written(options: argparse.Namespace) -> bool:
    """Whether a page or a picture is to be written."""
    return bool(options.html or options.plot)


def write_page(page: Page | None, options: argparse.Namespace, found: Any) -> None:
    """Write what a verb found as the page and as the pictures that were asked for."""
    if options.plot:
        from astrarium.report.pages.page import ShownTables
        from astrarium.report.plot.find import drawn

        answer = found.found if isinstance(found, ShownTables) else found
        for name, path in _plots(options):
            drawn(name, options.plots_of, answer).save(path)
            wrote(path)
    if page is None:
        return
    import shlex

    from astrarium.config.whole import write_whole
    from astrarium.report.pages.html import with_command

    text = with_command(page.write(found), shlex.join(options.command))
    with write_whole(options.html) as stream:
        stream.write(text.encode())
    wrote(options.html)
