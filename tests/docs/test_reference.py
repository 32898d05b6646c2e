"""docs/reference is what the code says (tools/reference.py), and the table of a page is one that Markdown reads."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from tests.loading import tool


@pytest.fixture(scope="module")
def reference() -> Any:
    """tools/reference.py as a module."""
    return tool("reference")


def test_the_pages_are_current(reference: Any) -> None:
    assert reference.outdated() == [], "run: python tools/reference.py"


def test_an_old_or_missing_page_is_found(reference: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "FOLDER", tmp_path / "reference")
    assert len(reference.outdated()) == len(reference.PAGES)
    assert reference.main(["--check"]) == 1
    assert reference.main([]) == 0
    assert reference.main(["--check"]) == 0
    page = tmp_path / "reference" / "knobs.md"
    page.write_text(page.read_text(encoding="utf-8").replace("Which waiting collective", "What"), encoding="utf-8")
    assert reference.outdated() == ["knobs.md"]


def test_every_field_has_its_row_and_its_help(reference: Any) -> None:
    from astrarium.config import fields
    from astrarium.design import Design

    page = reference.knobs_page()
    for field in fields(Design):
        assert f"`{field.path}`" in page
        assert field.help, field.path


def test_tables_have_as_many_cells_as_columns(reference: Any) -> None:
    for name, make in reference.PAGES.items():
        width = 0
        for line in make().splitlines():
            cells = line.replace("\\|", "").count("|")
            assert not line.startswith("|") or not width or cells == width, f"{name}: {line}"
            width = cells if line.startswith("|") else 0


def test_every_public_name_is_on_the_page(reference: Any) -> None:

    for module in ("astrarium", "astrarium.serving"):
        page = reference.api_page(module)
        for name in importlib.import_module(module).__all__:
            assert f"\n### {name}\n" in page or not callable(getattr(importlib.import_module(module), name))
