"""A stream of requests that was served as one HTML page that needs nothing else: tables, distributions of latencies,
queue and cache over time, and some requests from arrival to answer."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from astrarium.report.pages.about import About
from astrarium.report.pages.figures import figures
from astrarium.report.pages.html import named, note, page, section, table_of
from astrarium.report.pages.page import Page
from astrarium.report.tables.table import Table
from astrarium.serving import Served

__all__ = ["PAGE", "ShownServing", "serving_page"]


class ShownServing(Struct, frozen=True):
    """A stream, the tables that `astrarium serve` prints of it, and its notes."""

    title: str
    served: Served
    tables: Sequence[Table]
    notes: Sequence[str]
    about: About = About()


def serving_page(shown: ShownServing) -> str:
    """The page."""
    served = shown.served
    servers = "1 server" if served.servers == 1 else f"{served.servers:,} servers"
    lead = (f"{len(served.finish):,} requests on {served.npus:,} NPUs, {servers}; {served.how}. "
            "All figures are simulated.")
    notes = [section("Notes", *map(note, shown.notes))] if shown.notes else []
    return page(named(shown.title), lead, [
        *map(table_of, [replace(shown.tables[0], title="times of requests"), *shown.tables[1:]]),
        *figures("serve", shown), *notes],
        shown.about)


PAGE = Page("serve", serving_page)
