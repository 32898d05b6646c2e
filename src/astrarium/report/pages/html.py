"""What all HTML pages share: one file that loads nothing, with a header that says what ran, and tables that sort and
filter."""

from __future__ import annotations

import base64
import html
import os
import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from astrarium.report.pages.about import About
from astrarium.report.pages.vega import shell
from astrarium.report.pages.words import abbreviated, breakable, words_section
from astrarium.report.tables.table import Table
from astrarium.units import Rounded
from astrarium.version import version

__all__ = ["Download", "bar", "details", "escape", "key", "named", "note", "page", "section", "table", "table_of",
           "wide", "with_command"]

LONG = 24           # letters of a cell from which on it has several lines if the table is too wide
_COMMAND = "<!--the command-->"         # of `page`, where `with_command` puts the command line
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_LOWER = re.compile(r"[a-z]+( |,|:|$)")       # a title of words, not of a file or field
_SECTION = re.compile(r'<section( class="half")?><h2>(.*?)</h2>')


class Download(Struct, frozen=True):
    """A file that a page holds: what to click on, the file's name, its text."""

    shown: str
    name: str
    text: str

    @property
    def html(self) -> str:
        """The link that saves it."""
        return (f'<a download="{escape(self.name)}" href="data:application/octet-stream;base64,'
                f'{base64.b64encode(self.text.encode()).decode()}">{escape(self.shown)}</a>')


def escape(value: object) -> str:
    """Text as HTML shows it."""
    return html.escape(str(value))


def named(title: str) -> str:
    """A printed title (`folder/a.yaml`, `folder/a.yaml: what runs`) without the folder."""
    path, colon, words = title.partition(": ")
    return os.path.basename(path) + colon + words


def page(title: str, lead: str, parts: Iterable[str], about: About | None = None) -> str:
    """The whole file: `title` and `lead` are text, `parts` HTML; `about`: what its header says below them."""
    text, links = _named("\n".join(parts))
    header = _header(about or About())
    words = words_section(f"{escape(lead)} {header} {text}")
    style, script = shell("shell.css"), f"<script>{shell('shell.js')}</script>"
    if '<figure class="plot">' in text:
        from astrarium.report.pages.vega import with_vega
        from astrarium.report.plot.svg import plot_style

        text, vega = with_vega(text)
        style, script = style + plot_style(), script + vega
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width='
            f'device-width,initial-scale=1"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
            f"<title>{escape(title)}</title><style>{style}</style></head><body>\n"
            f'<a class="skip" href="#answer">To the answer</a><header><div class="top"><h1>{breakable(title)}</h1>'
            "</div>\n"
            f'<p class="lead">{escape(lead)}</p>{header}</header>\n{links}'
            f'<main id="answer">\n{text}\n{words}\n</main>\n<footer>Written by astrarium {escape(version())}. This '
            f"file loads nothing from anywhere.</footer>\n{script}</body></html>\n")


def _named(text: str) -> tuple[str, str]:
    """The parts with a name for every section, and links to these."""
    links: list[str] = []

    def name(found: re.Match[str]) -> str:
        links.append(f'<a href="#part{len(links)}">{re.split(r" [(]|, ", found[2])[0]}</a>')
        return f'<section id="part{len(links) - 1}"{found[1] or ""}><h2>{found[2]}</h2>'

    text = _SECTION.sub(name, text)
    return text, f'<nav class="parts" aria-label="Parts">{"".join(links)}</nav>\n' if len(links) > 2 else ""


def _header(about: About) -> str:
    facts = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in about.facts.items())
    files = "".join(Download(f"Download {name}", name, text).html for name, text in about.files.items())
    return (f'<dl class="facts">{facts}</dl>' if facts else "") + _COMMAND + (
        f'<p class="files">{files}</p>' if files else "")


def with_command(text: str, command: str) -> str:
    """A page with the command line that writes it again."""
    shown = (f'<div class="command"><span>To repeat:</span><pre data-copy="">{escape(command)}</pre></div>')
    return text.replace(_COMMAND, shown, 1)


def section(title: str, *parts: str, half: bool = False) -> str:
    """Parts under a heading that the page links to. `half`: two of them share the width of a large screen."""
    kind = ' class="half"' if half else ""
    return f"<section{kind}><h2>{breakable(title)}</h2>\n" + "\n".join(parts) + "</section>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]], align: str = "", title: str = "",
          sort: bool = True) -> str:
    """A table that scrolls where it is wide; `align` as in `Table`, without it all but the second column are right.

    Args:
        head: names of the columns; may be empty.
        rows: cells. A `Rounded` shows its exact value when it is pointed at; a `Download` is a link.
        title: the name of the table for those who do not see it.
        sort: whether rows may be sorted and filtered.
    """
    names = {"<": "l", ">": "r"}
    sides = [names[side] for side in align] or ["l" if place == 1 else "r" for place in range(len(head))]
    cells = "".join(f'<th scope="col" class="{side}">{abbreviated(str(each))}</th>' if str(each) else "<td></td>"
                    for side, each in zip(sides, head))
    lines = ["".join(map(_cell, sides, row)) for row in rows]
    text = "".join(f"<tr>{line}</tr>" for line in lines)
    sorts = ' data-sort=""' if sort and head and len(lines) > 1 else ""
    return (f'<div class="wide" role="region" tabindex="0" aria-label="{escape(title or "table")}"><table{sorts}>'
            + (f"<thead><tr>{cells}</tr></thead>" if head else "") + f"<tbody>{text}</tbody></table></div>")


def _cell(side: str, cell: object) -> str:
    if isinstance(cell, Download):
        return f'<td class="{side}">{cell.html}</td>'
    more, side = "", f"{side} t" if len(str(cell)) > LONG else side
    if isinstance(cell, Rounded):
        more = f' data-v="{cell.value:.12g}"' + (f' title="{escape(cell.exact)}"' if cell.exact != cell else "")
    return f'<td class="{side}"{more}>{escape(cell)}</td>'


def table_of(printed: Table, sort: bool = True, half: bool = False) -> str:
    """A printed table under its title; lines of the title after the first are a remark."""
    title, _, more = printed.title.partition("\n")
    title = title[:1].upper() + title[1:] if _LOWER.match(title) else title
    rows = table(printed.head, printed.rows, printed.align, title, sort) if printed.rows else ""
    return section(title, note(more) if more else "", rows, half=half) if title else f"<section>{rows}</section>"


def wide(chart: str) -> str:
    """A chart that scrolls where the page is too narrow for its letters."""
    return f'<div class="wide">{chart}</div>'


def note(text: str) -> str:
    """A remark in grey."""
    return f'<p class="note">{escape(text)}</p>'


def details(title: str, *parts: str) -> str:
    """Parts that are shown when one asks for them; print has them."""
    return f'<details><summary>{escape(title)}</summary>{"".join(parts)}</details>'


def key(names: Mapping[str, str], colours: Mapping[str, str]) -> str:
    """A legend of colours: name -> words, name -> colour."""
    return '<p class="key">' + "".join(f'<span><i style="background:{colours[name]}"></i>{escape(text)}</span>'
                                       for name, text in names.items()) + "</p>"


def bar(name: str, right: str, parts: Mapping[str, float], whole: float, colours: Mapping[str, str],
        words: Mapping[str, str] | None = None) -> str:
    """Parts in a line, as wide as their share of `whole`."""
    pieces = "".join(f'<i style="width:{100 * value / whole:.3f}%;background:{colours[part]}" '
                     f'title="{escape((words or {}).get(part, part))}"></i>'
                     for part, value in parts.items() if value > 0)
    return (f'<div class="row"><div class="name"><span>{escape(name)}</span><span>{escape(right)}</span></div>'
            f'<div class="bar">{pieces}</div></div>')
