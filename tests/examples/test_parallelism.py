"""The comparison of parallelisations prints what its folder says: a few rows of one model, and in the exam all."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from tests.loading import module_of


def test_rows_of_one_model(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, model = root / "examples" / "parallelism", "megatron-175b"
    with (folder / "measured.csv").open() as file:
        rows = [(int(row["pp"]), int(row["micro_batch"]), float(row["seconds"])) for row in csv.DictReader(file)
                if row["model"] == model]
    module_of(folder / "compare.py", "example_compare").table(model, rows[::4])
    expected = (folder / "expected.txt").read_text(encoding="utf-8").split(f"{model} ")[1].splitlines()
    printed = capsys.readouterr().out.split(f"{model} ")[1].splitlines()
    assert printed[:-2] == [*expected[:2], *expected[2:-2:4]]
    assert len(printed) == 2 + len(rows[::4]) + 2


@pytest.mark.exam
def test_what_it_prints(root: Path) -> None:
    folder = root / "examples" / "parallelism"
    found = subprocess.run([sys.executable, folder / "compare.py"], capture_output=True, text=True, check=True)
    assert found.stdout == (folder / "expected.txt").read_text(encoding="utf-8")
