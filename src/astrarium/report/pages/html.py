"""What the HTML pages of `run`, `plan`, `validate` and searches share: one file that loads nothing, tables, bars,
legends, rows of pictures."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from astrarium.report.svg.charts import Mark, sign
from astrarium.report.tables.table import Table

__all__ = ["bar", "escape", "key", "note", "page", "row", "signs", "table", "table_of", "wide"]

_STYLE = ("body{font:15px/1.45 sans-serif;max-width:1180px;margin:1.5em auto;padding:0 .8em;color:#222;background:#fff}"
          "h1,h2{overflow-wrap:anywhere}h1{font-size:1.4em}h2{font-size:1.15em;margin-top:1.6em}h3{font-size:1em}"
          "table{border-collapse:collapse;white-space:nowrap}td,th{padding:.2em .45em;border-bottom:1px solid #ddd}"
          "th{background:#f4f4f4}.r{text-align:right}.l{text-align:left}"
          ".wide{overflow-x:auto}.row{margin:.45em 0}.wide svg{min-width:560px;max-width:100%;height:auto}"
          ".bar{display:flex;height:1.3em;background:#f4f4f4;position:relative}"
          ".bar i{display:block;height:100%}.bar b{position:absolute;top:-2px;bottom:-2px;width:2px;background:#c00}"
          ".name{display:flex;justify-content:space-between;gap:0 1em;flex-wrap:wrap}"
          ".key span{display:inline-block;margin-right:1.1em}.key i{display:inline-block;width:.8em;height:.8em;"
          "margin-right:.35em}.key svg{vertical-align:-2px;margin-right:.3em}"
          ".gantt svg{width:100%;height:1.6em;display:block;background:#f4f4f4}p.note{color:#555}"
          ".strip{display:grid;grid-template-columns:minmax(0,1fr);gap:.15em 1.2em;margin:.8em 0 .2em;"
          "align-items:center}.strip>svg{display:block}.strip .what{display:block;color:#555}"
          ".strip p{margin:0;overflow-wrap:anywhere}"
          "@media(min-width:800px){.strip.beside{grid-template-columns:minmax(0,22em) minmax(0,1fr)}}"
          ".pair{display:flex;flex-wrap:wrap;gap:0 1.6em}.pair>section{flex:1 1 30em;min-width:0;max-width:100%}"
          ".pair .wide svg{min-width:0;width:100%;max-width:640px}")


def escape(value: object) -> str:
    """Text as HTML shows it."""
    return html.escape(str(value))


def page(title: str, lead: str, parts: Iterable[str]) -> str:
    """The whole file: `title` and `lead` are text, `parts` HTML."""
    text = "\n".join(parts)
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width='
            f'device-width"><title>{escape(title)}</title><style>{_STYLE}</style></head><body>\n'
            f"<h1>{escape(title)}</h1>\n<p>{escape(lead)}</p>\n{text}\n</body></html>\n")


def table(head: Sequence[str], rows: Iterable[Sequence[object]], align: str = "") -> str:
    """A table that scrolls where it is wide; `align` as in `Table`, without it all but the second column are right."""
    names = {"<": "l", ">": "r"}
    sides = [names[side] for side in align] or ["l" if place == 1 else "r" for place in range(len(head))]
    cells = "".join(f'<th class="{side}">{escape(each)}</th>' for side, each in zip(sides, head))
    lines = ["".join(f'<td class="{side}">{escape(cell)}</td>' for side, cell in zip(sides, row)) for row in rows]
    text = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="wide"><table>{f"<tr>{cells}</tr>" if head else ""}{text}</table></div>'


def table_of(printed: Table) -> str:
    """A printed table under its title."""
    rows = table(printed.head, printed.rows, printed.align) if printed.rows else ""
    return f"<h2>{escape(printed.title)}</h2>{rows}"


def wide(chart: str) -> str:
    """A chart that scrolls where the page is too narrow for its letters."""
    return f'<div class="wide">{chart}</div>'


def note(text: str) -> str:
    """A remark in grey."""
    return f'<p class="note">{escape(text)}</p>'


def key(names: Mapping[str, str], colours: Mapping[str, str]) -> str:
    """A legend of colours: name -> words, name -> colour."""
    return '<p class="key">' + "".join(f'<span><i style="background:{colours[name]}"></i>{escape(text)}</span>'
                                       for name, text in names.items()) + "</p>"


def signs(words: Mapping[str, Mark]) -> str:
    """A legend of shapes: words -> mark."""
    return '<p class="key">' + "".join(f"<span>{sign(mark)}{escape(text)}</span>"
                                       for text, mark in words.items()) + "</p>"


def row(name: str, words: str, picture: str, beside: bool = False) -> str:
    """A line of text (`name`, then `words` in grey) with a picture under it. `beside`: on wide pages the picture stands
    right of the text."""
    said = f'<p>{escape(name)}<span class="what">{escape(words)}</span></p>' if name else "<p></p>"
    return f'<div class="strip{" beside" if beside else ""}">{said}{picture}</div>'


def bar(name: str, right: str, parts: Mapping[str, float], whole: float, colours: Mapping[str, str],
        words: Mapping[str, str] | None = None, mark: float | None = None) -> str:
    """Parts beside each other, as wide as their share of `whole`; a red line at `mark`."""
    pieces = "".join(f'<i style="width:{100 * value / whole:.3f}%;background:{colours[part]}" '
                     f'title="{escape((words or {}).get(part, part))}"></i>'
                     for part, value in parts.items() if value > 0)
    line = "" if mark is None or mark > whole else f'<b style="left:{100 * mark / whole:.3f}%"></b>'
    return (f'<div class="row"><div class="name"><span>{escape(name)}</span><span>{escape(right)}</span></div>'
            f'<div class="bar">{pieces}{line}</div></div>')
