"""The page of differences names cases that exist."""

from __future__ import annotations

import re
from pathlib import Path

from .cases import GOLDEN, MORE, load


def test_every_case_of_the_page_exists(root: Path) -> None:
    """The last column of each table; and each table row has as many columns as its head."""
    page = (root / "docs" / "background" / "astra_sim_compatibility.md").read_text(encoding="utf-8")
    packed = {case.name for case in (*load(GOLDEN), *load(MORE))}
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row.rsplit("|", 2)[1])]
    assert len(named) > 50
    assert [name for name in named if name not in packed] == []
    tables = re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)
    assert len(tables) > 5
    for table in tables:
        assert len({row.count("|") for row in table.splitlines()}) == 1, table.splitlines()[0]
