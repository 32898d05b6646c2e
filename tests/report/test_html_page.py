"""The pieces of HTML pages: whatever stands in them is text, and tags match."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser

import pytest

from astrarium.report.pages.about import About
from astrarium.report.pages.html import (
    Download,
    bar,
    key,
    note,
    page,
    row,
    section,
    shell,
    signs,
    table,
    table_of,
    with_command,
)
from astrarium.report.svg.charts import Mark
from astrarium.report.tables.table import Table
from astrarium.units import format_money, format_time

HOSTILE = "</p></title><script>alert('&\"')</script>"
DOT = Mark(0, "dot", "#222222")


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
    (table_of(Table(HOSTILE, "<>", [(HOSTILE, "1")], (HOSTILE, "x"))), 3), (note(HOSTILE), 1),
    (key({"a": HOSTILE}, {"a": "#000000"}), 1), (signs({HOSTILE: DOT}), 1), (row(HOSTILE, HOSTILE, ""), 2),
    (bar(HOSTILE, HOSTILE, {HOSTILE: 1.0}, 1.0, {HOSTILE: "#000000"}), 3),
    (bar("a", "b", {"part": 1.0}, 1.0, {"part": "#000000"}, {"part": HOSTILE}), 1)])
def test_whatever_stands_there_is_text(text: str, times: int) -> None:
    assert Read(text).words.count(HOSTILE) == times


def test_columns_stand_at_their_side() -> None:
    assert re.findall(r'class="([lr])"', table(["a", "b", "c"], [])) == ["r", "l", "r"]
    assert re.findall(r'class="([lr])"', table(["a", "b"], [["c", "d"]], "><")) == ["r", "l"] * 2
    assert "<tr></tr>" not in table([], [["a"]], "<")
    assert "<table" not in table_of(Table("none", "<", []))


def test_parts_of_a_bar_are_their_shares() -> None:
    colours = {"a": "#111111", "b": "#222222", "c": "#333333"}
    text = bar("name", "8", {"a": 2.0, "b": 6.0, "c": 0.0}, 16.0, colours, mark=12.0)
    assert re.findall(r"width:([\d.]+)%;background:(#\d+)", text) == [("12.500", "#111111"), ("37.500", "#222222")]
    assert re.findall(r"left:([\d.]+)%", text) == ["75.000"]
    assert "left:" not in bar("name", "8", {"a": 2.0}, 16.0, colours, mark=17.0)      # beyond the bar's end


def test_a_row_without_a_name_is_its_picture() -> None:
    assert Read(row("", "not shown", "<b>picture</b>")).words == ["picture"]
    assert 'class="strip beside"' in row("a", "b", "", beside=True)


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
