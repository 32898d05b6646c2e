"""The statistics of one trace as one HTML page that needs nothing else: tables of `trace show`, and plots."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from astrarium.report.pages.figures import figures
from astrarium.report.pages.html import named, note, page, section, table_of, wide
from astrarium.report.pages.page import Page, ShownTrace
from astrarium.report.trace.graph import own_svg, picture

__all__ = ["PAGE"]

BOXES = (60, 24)    # of the graph's picture: at most, and of one that would be too large
HEAVY = 200_000     # letters of the graph's picture that a page holds


def _shown(found: ShownTrace) -> str:
    first, *rest = found.tables
    said = first.title.removeprefix(f"{found.title}: ")
    return page(named(found.title), f"{said[:1].upper()}{said[1:]}. Times are those that the trace recorded.",
                (table_of(replace(first, title="nodes")), *map(table_of, rest), *figures("trace", found),
                 *_graph(found)))


def _graph(found: ShownTrace) -> Iterator[str]:
    """The picture of `astrarium trace graph`, of fewer boxes where it is large; none of a trace without nodes."""
    if found.columns is None or not found.columns.nodes:
        return
    for most in BOXES:
        drawn = picture(found.columns, limit=most)
        text = own_svg(drawn)
        if len(text) <= HEAVY or most == BOXES[-1]:
            break
    said = "" if drawn.depth is None else (
        f"{len(drawn.boxes):,} scopes in place of {found.columns.nodes:,} nodes; astrarium trace graph FILE -o OUT.svg "
        "--most N draws more.")
    if len(text) <= HEAVY:
        yield section("What waits for what", wide(text), note(said) if said else "")


PAGE = Page("trace", _shown)
