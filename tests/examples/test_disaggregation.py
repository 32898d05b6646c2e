"""The studies of disaggregated memory and of wafers print what their folders say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

LINES = 8       # without the sensitivities


def printed(forks: Any, folder: Path, *words: str) -> str:
    found = forks([sys.executable, str(folder / "study.py"), *words], folder)
    assert found.returncode == 0, found.stderr
    said: str = found.stdout
    return said


@pytest.mark.parametrize("words", [("short",), pytest.param((), marks=pytest.mark.exam)])
def test_disaggregation(words: tuple[str, ...], root: Path, forks: Any) -> None:
    folder = root / "examples" / "disaggregation"
    expected = (folder / "expected.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    assert printed(forks, folder, *words) == "".join(expected[:LINES] if words else expected)


def test_wafer(root: Path, forks: Any) -> None:
    folder = root / "examples" / "wafer"
    assert printed(forks, folder) == (folder / "expected.txt").read_text(encoding="utf-8")


def test_published_ratios(root: Path) -> None:
    """Within 5 % of ASTRA-sim 2.0's section V-B: HierMem / ZeRO-Infinity 1.001, HierMem / optimised 4.6."""
    row = (root / "examples" / "disaggregation" / "expected.txt").read_text(encoding="utf-8").splitlines()[LINES - 1]
    near, faster = map(float, row.removeprefix("this reconstruction").split())
    assert near == pytest.approx(1.001, rel=0.05)
    assert faster == pytest.approx(4.6, rel=0.05)
