"""An answer as HTML: its plots, tables and notes; a plan with links to the designs that it saved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from astrarium.report.pages.html import escape, note, section, table_of
from astrarium.report.plot.find import plots_of
from astrarium.report.plot.plot import Plot
from astrarium.report.plot.svg import svg
from astrarium.report.tables.study_answer import hidden_plots
from astrarium.report.tables.study_data import StudyReport
from astrarium.report.tables.table import Table
from astrarium.service.answer import Answer

if TYPE_CHECKING:
    from astrarium.planner.shortlist import Shortlist

__all__ = ["picture", "shown"]

BROAD, NARROW = 720, 340        # px of the picture, and of the one on a phone
HEADING = 90        # characters of a heading; a longer first line is a note


def shown(answer: Answer) -> str:
    """The answer, without its numbers, files and command."""
    if answer.page == "plan":
        return _layouts(answer.result, answer.files)
    links = "".join(_engines(answer.files)) if answer.page == "plan_serving" else ""
    hidden = hidden_plots(answer.result) if isinstance(answer.result, StudyReport) else ()
    plots = "".join(picture(plot) for name, plot in plots_of(answer.page, answer.result)
                    if name not in hidden) if answer.page else ""
    return links + plots + "".join(map(_table, answer.tables)) + "".join(map(note, answer.notes))


def picture(plot: Plot) -> str:
    """A plot under its title, with its sentence: static SVG, which needs no script."""
    return section(plot.title, f'<figure class="plot"><div class="still broad">{svg(plot, BROAD)}</div>'
                   f'<div class="still narrow">{svg(plot, NARROW)}</div></figure>', note(plot.sentence))


def _layouts(found: Shortlist, files: tuple[str, ...]) -> str:
    """Layouts, each with a link to its design, whose knobs can be turned."""
    from astrarium.report.pages.plan import step_first
    from astrarium.report.tables.shortlist import HEAD, remarks, row_of, shortlist_tables

    lines = [*found.lines, *([found.today] if found.today is not None else [])]
    several = len({line.device for line in lines}) > 1
    places = [str(place) for place in range(1, len(found.lines) + 1)] + ["now"]
    rows = [step_first(row_of(place, line, several, found.factor)) for place, line in zip(places, lines)]
    head = "".join(f'<th class="{"l" if place < 2 else "r"}" scope="col">{escape(each)}</th>'
                   for place, each in enumerate((*step_first(HEAD), "")))
    body = "".join("<tr>" + "".join(f'<td class="{"l" if at < 2 else "r"}">{_cell(at, cell, file)}</td>'
                                    for at, cell in enumerate(row)) + f"<td>{_beside(files[0], file)}</td></tr>"
                   for row, file in zip(rows, files, strict=True))
    plots = "".join(picture(plot) for _, plot in plots_of("plan", found))
    rest = "".join(map(_table, [*shortlist_tables(found)][1:-1]))
    return (f'<h2>Layouts, the {"fastest" if found.objective.name == "time" else "best"} first</h2>'
            '<p class="note">A layout leads to its design, whose knobs can be turned.</p>'
            f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{plots}{rest}'
            f"<details><summary>What was looked at and assumed</summary>{_lines([*remarks(found)])}</details>")


def _cell(at: int, cell: str, file: str) -> str:
    """A cell of the layouts; the layout leads to its knobs."""
    return f'<a href="/design/{escape(file)}">{escape(cell)}</a>' if at == 1 else escape(cell)


def _beside(first: str, file: str) -> str:
    return "" if file == first else f'<a href="/compare?a={escape(first)}&amp;b={escape(file)}">compare with 1</a>'


def _engines(files: tuple[str, ...]) -> Iterator[str]:
    """A link to each engine of a plan of serving: (serving file, its design) in turn."""
    for place, (serving, design) in enumerate(zip(files[::2], files[1::2], strict=True), 1):
        yield (f'<p>Engine {place}: <a href="/file/{escape(serving)}">serve it</a>, '
               f'<a href="/design/{escape(design)}">turn the knobs of its design</a></p>')


def _table(table: Table) -> str:
    """A table. The first line of its title is the heading unless it is long; the others are notes."""
    lines = table.title.splitlines() or [""]
    title = lines.pop(0) if len(lines[0]) <= HEADING else ""
    if not title and lines and lines[0].startswith("interval"):
        title = "Where measured steps lie"
    return (table_of(Table(title, table.align, table.rows, table.head)) if table.rows else "") + _lines(lines)


def _lines(texts: list[str]) -> str:
    """Remarks, a line each."""
    return '<p class="note">' + "<br>".join(map(escape, texts)) + "</p>" if texts else ""
