"""Figures that differ by less than they print are called equal; a plan says at its table what is not proved."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

import astrarium as ar
from astrarium.cost.interval import Interval
from astrarium.report.tables.alike import alike
from astrarium.report.tables.explain import explanation_sentence, explanation_tables
from astrarium.report.tables.interval import interval_remarks
from astrarium.report.tables.several import Run, several_sentence, several_tables
from astrarium.report.tables.shortlist import caution
from astrarium.report.tables.table import text_of
from astrarium.search.explain import explain
from astrarium.service.answer import Number
from astrarium.service.web.answers.tiles import tile


def design(bandwidth: str) -> ar.Design:
    return ar.decode(ar.Design, {
        "workload": {"source": "collective", "op": "all_reduce", "payload": "100 MB"},
        "network": {"dims": [{"shape": "ring", "npus": 4, "bandwidth": bandwidth, "latency": "1 us"}]}})


def runs(*bandwidths: str) -> list[Run]:
    return [Run(name, each, ar.simulate(each)) for name, each in zip("abc", map(design, bandwidths))]


@pytest.mark.parametrize(("one", "other", "equal"), [(1.0, 1.0004, True), (1.0, 1.0006, False), (0.0, 0.0, True),
                                                     (0.0, 1.0, False), (-1.0, 1.0, False)])
def test_equal_as_printed(one: float, other: float, equal: bool) -> None:
    assert alike(one, other) == alike(other, one) == equal


def test_runs_that_tie_are_equal() -> None:
    found = runs("100 GB/s", "100.01 GB/s", "50 GB/s")
    assert found[0].result.makespan_ps != found[1].result.makespan_ps
    table = next(iter(several_tables(found)))
    row = next(line.split() for line in text_of(table).splitlines() if "of the first" in line)
    assert row[:5] == ["of", "the", "first", "1.000x", "equal"]
    assert float(row[5].rstrip("x")) == pytest.approx(2, rel=0.02)
    assert several_sentence(found).startswith("The fastest are b and a: ")
    assert "equal within rounding; the slowest, c, takes 9" in several_sentence(found)
    assert several_sentence(found[:2]).endswith("equal within rounding.")
    assert several_sentence(found[1:]).startswith("The fastest is b: ")
    slow, fast = runs("10 GB/s", "100 GB/s")
    ratio = slow.result.makespan_ps / fast.result.makespan_ps
    assert several_sentence([slow, fast]).endswith(f"the slowest, a, takes {ratio:.3g} times as long.")


@pytest.mark.parametrize(("other", "equal"), [("100.01 GB/s", True), ("101 GB/s", False)])
def test_an_explanation_of_a_tie(other: str, equal: bool) -> None:
    found = explain(design("100 GB/s"), design(other))
    text = "\n".join(map(text_of, explanation_tables(found, "a", "b")))
    assert ("equal within rounding" in explanation_sentence(found)) == equal
    assert ("equal within rounding" in text) == equal
    assert ("-0.9" in text.partition("orders")[0]) != equal


@pytest.mark.parametrize(("now", "text"), [(100.0, "unchanged"), (100.02, "equal within rounding"), (101.0, "worse")])
def test_a_tile_of_a_tie(now: float, text: str) -> None:
    before = Number("makespan", "makespan", 100.0, "ns", "100 ns")
    assert text in tile("makespan", "1 s", replace(before, value=now), before, False, "")


def test_rows_of_several_intervals_are_named_once() -> None:
    first = Interval("nemo", device="h100_sxm", rows=19, share=0.8, low=0.9, high=1.1, beyond=0.08,
                     extrapolated=("ZeRO 2, rows have ZeRO 1",))
    said = interval_remarks([first, None, replace(first, extrapolated=("ZeRO 3, rows have ZeRO 1",)), first,
                             replace(first, rows=20)])
    assert [each.count("unseen measured rows") for each in said] == [1, 0, 1]
    assert said[1] == ("interval: extrapolated (ZeRO 3, rows have ZeRO 1): each end 8 % further out than that of the "
                       "same rows")
    named = interval_remarks([first, replace(first, rows=20), first], ("1", "2", "now"))
    assert [each.partition(":")[0] for each in named] == ["interval of 1, now", "interval of 2"]


@pytest.mark.parametrize(("sure", "beyond", "expected"), [
    (3, 9.0, ""),
    (1, 2.0, "Line 1 is proved to be the best: of 60 layouts that were not simulated, and 0 that were not to the end, "
             "some may come before line 2 (--exact simulates these)."),
    (2, 2.0, "Lines 1 to 2 are proved to be the best: of 60 layouts")])
def test_a_plan_says_which_lines_are_proved(sure: int, beyond: float, expected: str) -> None:
    plan: Any = SimpleNamespace(sure=sure, beyond=beyond, lines=[SimpleNamespace(value=value) for value in (1, 2, 3)],
                                layouts=100, too_large=30, simulated=10, unknown=())
    assert caution(plan).startswith(expected)
    assert bool(caution(plan)) == bool(expected)
