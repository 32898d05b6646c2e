"""Tables as aligned text; on a terminal, and only there, with bold titles and headings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TextIO

from msgspec import Struct

__all__ = ["Table", "count_text", "print_tables", "text_of"]

GAP = "  "


class Table(Struct, frozen=True):
    """`align` has one character per column: < or >. Without `head` there is no line of headings."""

    title: str
    align: str
    rows: Sequence[Sequence[str]]
    head: Sequence[str] = ()


def count_text(value: float) -> str:
    """A rate for a person: four digits, and whole from 10,000 on (141,700, not 1.417e+05)."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.4g}"


def text_of(table: Table, *, bold: bool = False) -> str:
    """The table as lines of text, indented under its title; no trailing spaces. `bold` marks titles and headings."""
    every = [*([table.head] if table.head else []), *table.rows]
    widths = [max((len(row[i]) for row in every), default=0) for i in range(len(table.align))]
    lines = [_strong(table.title, bold)] if table.title else []
    for number, row in enumerate(every):
        cells = (f"{cell:{side}{width}}" for cell, side, width in zip(row, table.align, widths, strict=True))
        line = (GAP if table.title else "") + GAP.join(cells).rstrip()
        lines.append(_strong(line, bold and bool(table.head) and number == 0))
    return "\n".join(lines)


def _strong(text: str, bold: bool) -> str:
    return f"\x1b[1m{text}\x1b[0m" if bold else text


def print_tables(tables: Iterable[Table], stream: TextIO) -> None:
    """Write the tables with an empty line between them. The environment's NO_COLOR forbids bold, as everywhere."""
    bold = stream.isatty() and not os.environ.get("NO_COLOR")
    stream.write("\n\n".join(text_of(table, bold=bold) for table in tables) + "\n")
