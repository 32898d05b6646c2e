"""The pieces of HTML pages: whatever stands in them is text, and tags match."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser

import pytest

from astrarium.report.pages.about import About
from astrarium.report.pages.html import (
    Download,
    note,
    page,
    section,
    shell,
    table,
    table_of,
    with_command,
)
from astrarium.report.tables.table import Table
from astrarium.units import format_money, format_time

HOSTILE = "</p></title><script>alert('&\"')</script>"


class Read(HTMLParser):
    """The text of a page, its titles, and the tags that are open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag != "script"
        self.words += [value or "" for name, value in attrs if name == "title"]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag != "script"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def without_script(text: str) -> str:
    """A page without its own script, the one that it may have."""
    return text.replace(f"<script>{shell('shell.js')}</script>", "", 1)


PLAIN = without_script(page("a", "b", []))


@pytest.mark.parametrize(("text", "times"), [
    (without_script(page(HOSTILE, HOSTILE, [], About({HOSTILE: HOSTILE}))), 5), (with_command(PLAIN, HOSTILE), 1),
    (table([HOSTILE, "b"], [[HOSTILE, 1], [2, HOSTILE]]), 3),
    (table_of(Table(HOSTILE, "<>", [(HOSTILE, "1")], (HOSTILE, "x"))), 3), (note(HOSTILE), 1), (section(HOSTILE), 1)])
def test_whatever_stands_there_is_text(text: str, times: int) -> None:
    assert Read(text).words.count(HOSTILE) == times


def test_columns_stand_at_their_side() -> None:
    assert re.findall(r'class="([lr])"', table(["a", "b", "c"], [])) == ["r", "l", "r"]
    assert re.findall(r'class="([lr])"', table(["a", "b"], [["c", "d"]], "><")) == ["r", "l"] * 2
    assert "<tr></tr>" not in table([], [["a"]], "<")
    assert "<table" not in table_of(Table("none", "<", []))


def test_cells_know_their_exact_value() -> None:
    text = table(["", "time", "price"], [["a", format_time(1234567.25), format_money(55e6)]] * 2)
    assert '<td class="l" data-v="1234567.25" title="1,234,567.25 ns">1.235 ms</td>' in text
    assert '<td class="r" data-v="55000000" title="$55,000,000">$55M</td>' in text
    assert "data-sort" in text
    assert "data-sort" not in table(["a"], [["b"], ["c"]], sort=False)


def test_a_cell_that_is_a_file() -> None:
    text = table(["a"], [[Download("save", "<a>", "b: 1")]])
    cell = re.search('href="data:application/octet-stream;base64,(.*?)">save<', text)
    assert cell is not None
    assert base64.b64decode(cell[1]) == b"b: 1"


def test_sections_are_linked_and_named_apart() -> None:
    text = page("t", "l", [section("Same (so)", "x"), section("Same (so)", "y", half=True), section("Other: z")])
    assert re.findall(r'<a href="#(part\d)">(.*?)</a>', text) == [
        ("part0", "Same"), ("part1", "Same"), ("part2", "Other")]
    assert re.findall(r'<section id="(part\d)"', text) == ["part0", "part1", "part2"]
    assert "<nav" not in page("t", "l", [section("one")])
