"""The figure of README.md is drawn from the runs that README shows (tools/readme_figure.py)."""

from __future__ import annotations

from pathlib import Path

from tests.loading import tool


def test_the_figure_is_current_and_its_design_is_that_of_the_readme(root: Path) -> None:
    figure, readme = tool("readme_figure"), (root / "README.md").read_text(encoding="utf-8")
    assert figure.main(["--check"]) == 0, "run: python tools/readme_figure.py"
    assert "docs/background/figures/readme_layouts.svg" in readme
    assert f"for tp, pp in {str(figure.LAYOUTS)[1:-1]}:" in readme
