"""A page by keyboard alone: sort, filter, switch the theme, save the design, scroll a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.browser.conftest import Opened, until

import astrarium as ar

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]


def tab_to(page: Any, what: str) -> None:
    """Press Tab until the focus is on the first element that matches."""
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("(what) => document.activeElement === document.querySelector(what)", what):
            return
    raise AssertionError(f"Tab never gets to {what}")


def column(page: Any, table: str, number: int) -> list[str]:
    found: list[str] = page.locator(f"{table} tbody tr:visible td:nth-child({number})").all_inner_texts()
    return found


FRONT = "[aria-label='Pareto front'] table"


def test_headings_sort(opened: Open) -> None:
    page = opened("report").page
    before = column(page, FRONT, 1)
    tab_to(page, f"{FRONT} th:nth-child(1) button")
    page.keyboard.press("Enter")
    head = page.locator(f"{FRONT} th:nth-child(1)")
    assert head.get_attribute("aria-sort") == "ascending"
    rising = column(page, FRONT, 1)
    values = [float(each.get_attribute("data-v")) for each in page.locator(f"{FRONT} td:nth-child(1)").all()]
    assert values == sorted(values)
    page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "descending"
    assert sorted(before) == sorted(rising)
    values = [float(each.get_attribute("data-v")) for each in page.locator(f"{FRONT} td:nth-child(1)").all()]
    assert values == sorted(values, reverse=True)


def test_a_filter_leaves_rows_with_all_words(opened: Open) -> None:
    page = opened("report").page
    rows = len(column(page, "[aria-label='Best designs'] table", 1))
    tab_to(page, "input[type=search]")
    page.keyboard.type("ring 400")
    left = page.locator("[aria-label='Best designs'] tbody tr:visible").all_inner_texts()
    assert 0 < len(left) < rows
    assert all("ring" in text and "400" in text for text in left)
    assert page.locator(".filter [role=status]").first.inner_text() == f"{len(left)} of {rows}"
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    assert len(column(page, "[aria-label='Best designs'] table", 1)) == rows


@pytest.mark.parametrize(("scheme", "other"), [("light", "dark"), ("dark", "light")])
def test_the_theme_switches_and_stays(scheme: str, other: str, opened: Open) -> None:
    page = opened("run", scheme=scheme).page
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    tab_to(page, "#theme")
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == other
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != paper
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == other


def test_the_design_is_saved(opened: Open, tmp_path: Path) -> None:
    page = opened("run").page
    tab_to(page, "a[download]")
    with page.expect_download() as saving:
        page.keyboard.press("Enter")
    saving.value.save_as(tmp_path / saving.value.suggested_filename)
    assert ar.load_design(tmp_path / "design.yaml").workload.pp == 4       # type: ignore[attr-defined]


def test_a_point_of_the_front_has_its_design(opened: Open, tmp_path: Path) -> None:
    page = opened("report").page
    row = page.locator(f"{FRONT} tbody tr").first
    row.scroll_into_view_if_needed()
    until(page, "!document.documentElement.dataset.waits")
    with page.expect_download() as saving:
        row.locator("a[download]").click()
    saving.value.save_as(tmp_path / "a.yaml")
    made = ar.simulate(ar.load_design(tmp_path / "a.yaml"))
    assert float(row.locator("td").nth(0).get_attribute("data-v")) == pytest.approx(float(made.makespan), rel=1e-9)


def test_wide_tables_scroll_by_keyboard(opened: Open) -> None:
    page = opened("run", width=400).page
    table = "[aria-label^=Collectives]"
    tab_to(page, table)
    page.keyboard.press("ArrowRight")
    until(page, "document.querySelector(\"[aria-label^=Collectives]\").scrollLeft > 0")


def test_the_command_is_copied(opened: Open) -> None:
    page = opened("run", permissions=["clipboard-read", "clipboard-write"]).page
    tab_to(page, ".command button")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.command button').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == "astrarium run pipeline.yaml --html run.html"
