"""What a page is: text of an HTML file that shows what a verb found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from astrarium.errors import InputError, PluginError, asked
from astrarium.registry import Kind, built_ins
from astrarium.report.pages.about import About

if TYPE_CHECKING:
    from astrarium.design import Design
    from astrarium.report.tables.table import Table
    from astrarium.report.trace.times import Times
    from astrarium.result import Result
    from astrarium.trace import Columns

__all__ = ["Page", "ShownRun", "ShownTables", "ShownTrace", "page_of"]

KIND = Kind("page")


class Page(Struct, frozen=True):
    """One page: what `page.NAME` of the registry loads.

    Args:
        verb: whose findings it shows: run, runs (several designs), plan, report, serve, explain, validate, calibrate or
            trace (`astrarium trace show`).
        write: the text of the file, from a `ShownRun`, `Shortlist`, `StudyReport`, `ShownServing`, `Validation`,
            `ShownTrace` or, of the other verbs, `ShownTables`.
    """

    verb: str
    write: Callable[[Any], str]


class ShownRun(Struct, frozen=True):
    """A design, its run, and the tables that `astrarium run` prints after the times."""

    design: Design
    result: Result
    title: str
    tables: Sequence[Table | None] = ()


class ShownTables(Struct, frozen=True):
    """An answer that is tables.

    Args:
        title: of the page.
        lead: the sentence below the title.
        tables: as printed.
        found: the answer itself, of which plots are made.
        notes: as printed.
        about: what the header says.
    """

    title: str
    lead: str
    tables: Sequence[Table]
    found: object
    notes: Sequence[str] = ()
    about: About = About()


class ShownTrace(Struct, frozen=True):
    """A trace's tables and times, and its nodes, of which the graph is drawn (None: it is not)."""

    title: str
    tables: Sequence[Table]
    times: Times
    columns: Columns | None = None


def page_of(name: str, verb: str) -> Page:
    """The page of this name. Raises InputError where there is none, or where it shows what another verb finds."""
    page = KIND.load(name)
    if not isinstance(page, Page) or page.verb != verb:
        what = (f"shows what {page.verb} finds" if isinstance(page, Page) else
                f"is an object of {type(page).__name__}, not a Page")
        raise InputError(f"--page {name}", what, expected=f"a page of {verb} (`astrarium list page`)")
    return page if name in built_ins("page") else replace(page, write=partial(_written, f"page plug-in {name}", page))


def _written(who: str, page: Page, found: object) -> str:
    text: object = asked(who, page.write, found)
    if not isinstance(text, str):
        raise PluginError(who, f"gave an object of {type(text).__name__}, not a text")
    return text
