"""The studies of disaggregated memory and of wafers print what their folders say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LINES = 8       # without the sensitivities


def printed(folder: Path, *words: str) -> str:
    command = [sys.executable, str(folder / "study.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("words", [("short",), pytest.param((), marks=pytest.mark.exam)])
def test_disaggregation(words: tuple[str, ...], root: Path) -> None:
    folder = root / "examples" / "disaggregation"
    expected = (folder / "expected.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    assert printed(folder, *words) == "".join(expected[:LINES] if words else expected)


def test_wafer(root: Path) -> None:
    folder = root / "examples" / "wafer"
    assert printed(folder) == (folder / "expected.txt").read_text(encoding="utf-8")


def test_published_ratios(root: Path) -> None:
    """Within 5 % of ASTRA-sim 2.0's section V-B: HierMem / ZeRO-Infinity 1.001, HierMem / optimised 4.6."""
    row = (root / "examples" / "disaggregation" / "expected.txt").read_text(encoding="utf-8").splitlines()[LINES - 1]
    near, faster = map(float, row.removeprefix("this reconstruction").split())
    assert near == pytest.approx(1.001, rel=0.05)
    assert faster == pytest.approx(4.6, rel=0.05)
