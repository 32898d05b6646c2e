"""The statistics of one trace as one HTML page that needs nothing else: the tables of `trace show`, and bars."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from astrarium.report.svg import bars
from astrarium.report.tables import Table
from astrarium.report.trace_times import Times

__all__ = ["trace_page"]

_STYLE = ("body{font:14px/1.45 sans-serif;max-width:1080px;margin:2em auto;padding:0 1em;color:#222}"
          "table{border-collapse:collapse;margin:.6em 0}td,th{padding:.15em .7em;border-bottom:1px solid #ddd;"
          "text-align:left}th{background:#f4f4f4}.n{text-align:right}svg{max-width:100%;height:auto}"
          ".wide{overflow-x:auto}")
LONGEST = 34        # letters of a name beside a bar


def trace_page(title: str, tables: Sequence[Table], times: Times) -> str:
    """The page."""
    body = "\n".join((*map(_table, tables), *_charts(times)))
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
            f"<style>{_STYLE}</style></head><body>\n<h1>{html.escape(title)}</h1>\n{body}\n</body></html>\n")


def _table(table: Table) -> str:
    sides = ["" if side == "<" else ' class="n"' for side in table.align]
    head = "".join(f"<th{side}>{html.escape(each)}</th>" for side, each in zip(sides, table.head, strict=False))
    rows = "".join("<tr>" + "".join(f"<td{side}>{html.escape(cell)}</td>" for side, cell in
                                    zip(sides, row, strict=True)) + "</tr>" for row in table.rows)
    return f'<h2>{html.escape(table.title)}</h2>\n<div class="wide"><table><tr>{head}</tr>{rows}</table></div>'


def _charts(times: Times) -> Iterator[str]:
    parts = [("GPU computes", times.compute), ("GPU communicates", times.communication),
             ("both at once", times.overlap), ("GPU idle", times.idle)]
    if times.span:
        yield "<h2>ms over time, as recorded</h2>\n" + bars([(name, value / 1000) for name, value in parts
                                                           if value is not None])
    if times.longest:
        yield "<h2>ms of the longest GPU operations</h2>\n" + bars(
            [(name if len(name) <= LONGEST else f"{name[:LONGEST - 3]}...", time / 1000)
             for name, _, time in times.longest])
