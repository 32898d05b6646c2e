"""Tables as aligned text; on a terminal, and only there, drawn by rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

__all__ = ["Table", "print_tables", "text_of"]

GAP = "  "


@dataclass(frozen=True)
class Table:
    """`align` has one character per column: < or >. Without `head` there is no line of headings."""

    title: str
    align: str
    rows: Sequence[Sequence[str]]
    head: Sequence[str] = ()


def text_of(table: Table) -> str:
    """The table as lines of text, indented under its title; no trailing spaces."""
    every = [*([table.head] if table.head else []), *table.rows]
    widths = [max((len(row[i]) for row in every), default=0) for i in range(len(table.align))]
    lines = [table.title] if table.title else []
    for row in every:
        cells = (f"{cell:{side}{width}}" for cell, side, width in zip(row, table.align, widths, strict=True))
        lines.append((GAP if table.title else "") + GAP.join(cells).rstrip())
    return "\n".join(lines)


def print_tables(tables: Iterable[Table], stream: TextIO) -> None:
    """Write the tables with an empty line between them."""
    if stream.isatty():
        _with_rich(tables, stream)
        return
    stream.write("\n\n".join(text_of(table) for table in tables) + "\n")


def _with_rich(tables: Iterable[Table], stream: TextIO) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(file=stream, highlight=False)
    for table in tables:
        drawn = RichTable(title=Text(table.title, style="bold") if table.title else None, title_justify="left",
                          box=SIMPLE_HEAD, show_header=bool(table.head))
        for number, side in enumerate(table.align):
            drawn.add_column(Text(table.head[number]) if table.head else "", justify="left" if side == "<" else "right",
                             overflow="fold")
        for row in table.rows:
            drawn.add_row(*(Text(cell) for cell in row))
        console.print(drawn)
