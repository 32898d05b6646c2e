"""Pages explain their words: on heads of columns, and in a list of those that they have."""

from __future__ import annotations

import html

import pytest

from astrarium.report.pages.html import page, table
from astrarium.report.pages.words import abbreviated, words_section
from astrarium.vocab import TERMS


@pytest.mark.parametrize(("head", "term", "word"), [
    ("tp", "tp", "tp"), ("MFU", "mfu", "MFU"), ("exposed comm", "exposed communication", "exposed comm"),
    ("busbw, GB/s", "busbw", "busbw"), ("TTFT p99", "ttft", "TTFT"), ("micro_batch", "micro-batch", "micro_batch")])
def test_heads_show_their_meaning(head: str, term: str, word: str) -> None:
    abbr = f'<abbr title="{html.escape(TERMS[term])}">{word}</abbr>'
    assert abbreviated(head) == html.escape(head).replace(word, abbr)
    assert abbr in table([head], [["1"]])


@pytest.mark.parametrize("head", ["", "step", "http", "memory", "a<b", "non-tp", "cps"])
def test_other_heads_are_as_they_are(head: str) -> None:
    assert abbreviated(head) == html.escape(head)


def test_the_words_of_a_page() -> None:
    found = words_section('<p title="pp">tp 8, mb 1, ZeRO 3</p><script>cp</script>')
    assert [each.partition("</dt>")[0] for each in found.split("<dt>")[1:]] == [
        "mb, micro-batch", "npu", "tp", "ZeRO"]
    assert "<summary>Words on this page</summary>" in page("a", "b", ["<p>dp 2</p>"])
    assert html.escape(TERMS["dp"]) in page("a", "b", ["<p>dp 2</p>"])
    assert TERMS["busbw"] not in page("a", "b", ["<p>dp 2</p>"])
