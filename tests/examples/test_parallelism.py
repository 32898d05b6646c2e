"""The comparison of parallelisations prints what its folder says: one model, and in the exam both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("models", [["megatron-175b"], pytest.param([], marks=pytest.mark.exam)])
def test_what_it_prints(models: list[str], root: Path) -> None:
    folder = root / "examples" / "parallelism"
    found = subprocess.run([sys.executable, folder / "compare.py", *models], capture_output=True, text=True, check=True)
    expected = (folder / "expected.txt").read_text(encoding="utf-8")
    assert found.stdout == expected[expected.index("megatron-175b") if models else 0:]
