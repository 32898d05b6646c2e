"""Published memory of training: figures of Korthikanti et al. and measurements of SimuMax, and rows that ran."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from _memory_rows import Cell, korthikanti, simumax

from astrarium.errors import AstrariumError
from astrarium.validate.designs import candidates
from astrarium.validate.room import fits
from astrarium.validate.rows import read_rows


def median(cells: Sequence[Cell]) -> float:
    return statistics.median([abs(cell.error) for cell in cells for _ in range(cell.times)])


def test_korthikanti() -> None:
    cells = list(korthikanti())
    assert len(cells) == 12
    assert median(cells) < 0.005
    assert max(abs(cell.error) for cell in cells) < 0.03, cells


def test_simumax() -> None:
    """43 rows, of which those with several stages count per stage."""
    cells = list(simumax())
    assert sum(cell.times for cell in cells) == 55
    assert median(cells) < 0.005
    assert max(abs(cell.error) for cell in cells) < 0.02, cells


@pytest.mark.parametrize(("change", "least"), [
    ({"weight_gradients": "in_place"}, 0.01), ({"precision": {"gradients": "bf16"}}, 0.10)])
def test_simumax_without_one_of_its_settings(change: dict[str, Any], least: float) -> None:
    """What each setting of the software explains: without it the rows are missed."""
    assert median(list(simumax(**change))) > least


@pytest.mark.shared
@pytest.mark.parametrize(("first", "every", "least"), [(1, 12, 32), pytest.param(0, 1, 390, marks=pytest.mark.exam)])
def test_no_false_out_of_memory(first: int, every: int, least: int, shared: Path) -> None:
    """Rows that ran fit into their device by our footprint; those that do not state recomputation with the least of it
    that fits, which one needs."""
    ran, again, missed = 0, 0, []
    for row in read_rows(shared / "reference" / "validation_training.csv")[first::every]:
        try:
            meant = candidates(row)
        except AstrariumError:
            continue
        ran += 1
        if not any(fits(each.design) for each in meant):
            missed.append(row.case)
        again += any("the least that fits" in text and "none" not in text for text in meant[0].assumed)
    assert ran >= least
    assert not missed
    assert again <= 1
