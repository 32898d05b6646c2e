"""The figure of queues over time is drawn from the run as it is (tools/queue_figure.py)."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from tests.loading import tool


@pytest.fixture(scope="module")
def figure() -> Any:
    """tools/queue_figure.py as a module."""
    return tool("queue_figure")


def test_the_figure_is_current_and_on_its_page(figure: Any, root: Path) -> None:
    assert figure.main(["--check"]) == 0, "run: python tools/queue_figure.py"
    assert "figures/packets_queues.svg" in (root / "docs" / "background" / "packets.md").read_text(encoding="utf-8")


def test_it_shows_queues_thresholds_and_pauses(figure: Any) -> None:
    drawn = ET.fromstring(figure.draw(pure=True))
    groups = list(drawn.iter("{http://www.w3.org/2000/svg}g"))
    words = {(each.text or "").strip() for each in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {"marks begin", "all are marked", "leaf.0.asic.0 -> host.0.xpu.0"} <= words
    lines = [each for each in groups if each.get("stroke-width") == "1.5" and each.get("stroke-linejoin")]
    assert sum(map(len, lines)) == 6
    assert sum(len(each) for each in groups if each.get("stroke-width") == "4") > 10      # pauses
    assert figure.draw() == figure.draw(pure=True)


def test_an_old_figure_is_found_and_written_again(figure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                  capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(figure, "FIGURE", tmp_path / "packets_queues.svg")
    assert figure.main(["--check"]) == 1
    assert "packets_queues.svg" in capsys.readouterr().out
    assert figure.main([]) == 0
    assert figure.main(["--check"]) == 0
