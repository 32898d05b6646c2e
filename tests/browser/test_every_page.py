"""Every page in a real browser: at 1280 and 400 px, light and dark, nothing is loaded, reported, cut off or hard to
reach, and it looks as it did."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.browser.conftest import COMMANDS, Made, Opened
from tests.browser.pictures import difference, signature

pytestmark = pytest.mark.browser

KNOWN = Path(__file__).with_name("pictures.json")
CLOSE = 0.035       # mean difference of brightness, 0 to 1, that other fonts and browsers make
MOST = 1_000_000    # bytes of a page
VIEWS = [(name, width, scheme) for name in COMMANDS for width in (1280, 400) for scheme in ("light", "dark")]
Open = Callable[..., Opened]


@pytest.mark.parametrize(("name", "width", "scheme"), VIEWS)
def test_a_page(name: str, width: int, scheme: str, opened: Open, request: pytest.FixtureRequest) -> None:
    page, wrong = opened(name, width, scheme)
    assert wrong == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert problems(page) == []
    assert cut(page) == [] or width < 1280
    assert page.evaluate(EDGES) == []
    looks_as_before(page, f"{name} {width} {scheme}", request)


EDGES = """[...document.querySelectorAll('.wide')].map((each) => getComputedStyle(each)).filter(
    (each) => !each.backgroundAttachment.includes('local') || !each.backgroundImage.includes('gradient')).length > 0 ?
    ['no edge'] : []"""


def cut(page: Any) -> list[str]:
    """Names of the tables that one must scroll to see whole."""
    found: list[str] = page.evaluate("[...document.querySelectorAll('.wide')].filter((each) => each.scrollWidth > "
                                     "each.clientWidth + 1).map((each) => each.getAttribute('aria-label'))")
    return found


def looks_as_before(page: Any, view: str, request: pytest.FixtureRequest) -> None:
    """Compare a picture of the whole page with the stored one, or store it."""
    found = signature(page.screenshot(full_page=True))
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    if request.config.getoption("--new-pictures"):
        KNOWN.write_text(json.dumps(known | {view: found}, indent=0, sort_keys=True) + "\n")
        return
    assert difference(found, known[view]) < CLOSE, "looks different; if it should, run with --new-pictures"


def problems(page: Any) -> list[str]:
    """What axe-core finds that is serious or critical."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    found = axe.Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]} ({len(each['nodes'])})" for each in found
            if each["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("name", COMMANDS)
def test_numbers_are_those_of_the_command_line(name: str, pages: dict[str, Made], opened: Open) -> None:
    """Every cell of a table that the command prints, if it has a digit, is in the page."""
    text = re.sub(r"\s+", " ", opened(name).page.evaluate("document.body.textContent"))
    cells = [cell for line in pages[name].printed.splitlines() if line.startswith("  ")
             for cell in re.split(r"\s{2,}", line.strip())]
    missing = [cell for cell in cells if re.search(r"\d", cell) and not cell.startswith("[[") and cell not in text]
    assert missing == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_is_whole_without_scripts(name: str, pages: dict[str, Made], opened: Open) -> None:
    page = opened(name, java_script_enabled=False).page
    assert page.locator("h1").count() == 1
    assert page.locator("table").count() >= 1
    assert page.locator("pre").inner_text() == f"astrarium {COMMANDS[name]} --html {name}.html"
    assert pages[name].path.stat().st_size < MOST


def test_a_page_that_looks_different_is_noticed(opened: Open) -> None:
    page = opened("run").page
    before = signature(page.screenshot(full_page=True))
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert difference(before, signature(page.screenshot(full_page=True))) > 10 * CLOSE
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    page.evaluate("document.querySelectorAll('svg, .bar').forEach((each) => { each.style.visibility = 'hidden'; })")
    assert difference(before, signature(page.screenshot(full_page=True))) > CLOSE
