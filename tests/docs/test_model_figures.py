"""The figures of the models' pages are drawn from the graph as it is (tools/model_figures.py)."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from tests.loading import tool


@pytest.fixture(scope="module")
def figures() -> Any:
    """tools/model_figures.py as a module."""
    return tool("model_figures")


def test_the_figures_are_current(figures: Any) -> None:
    assert figures.main(["--check"]) == 0, "run: python tools/model_figures.py"


def test_every_figure_is_on_a_page_and_has_a_row_per_step(figures: Any, root: Path) -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (root / "docs" / "background").glob("models_*.md"))
    for figure in figures.FIGURES:
        assert f"figures/model_{figure.name}.svg" in pages
        boxes = [each for each in ET.fromstring(figures.draw(figure)) if each.get("width") == str(figures.BOX)]
        assert len(boxes) == len(figures.steps(figure)) > 5


def test_an_old_figure_is_found_and_written_again(figures: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                  capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    assert figures.main(["--check"]) == 1
    assert "model_decoder.svg" in capsys.readouterr().out
    assert figures.main([]) == 0
    assert figures.main(["--check"]) == 0
