"""Published steps of PyTorch FSDP (benchmarks/data/fsdp.csv): a few that no fit has seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from astrarium.validate.predict import Prediction, predict
from astrarium.validate.record import fitted_on
from astrarium.validate.rows import read_rows

ROWS = Path(__file__).parents[2] / "benchmarks/data/fsdp.csv"


@pytest.mark.parametrize(("case", "most"), [
    ("mpt-7b-4096-8-h100", 0.12), ("mpt-30b-2048-16-h100", 0.08), ("mpt-7b-2048-8-a100-80", 0.12),
    ("mpt-1b-2048-16-a100-40", 0.12), ("llama3-70b-full-1", 0.08), ("llama2-13b-none-2", 0.05)])
def test_unseen_steps_are_near(case: str, most: float) -> None:
    rows = read_rows(ROWS)
    row, known = next((row, known) for row, known in zip(rows, fitted_on(rows), strict=True) if row.case == case)
    found = predict(row)
    assert isinstance(found, Prediction)
    assert found.meant.stated
    assert abs(found.values[0].time_error) < most
    assert not known


def test_an_a100_with_40_gb_is_predicted_from_its_sheet() -> None:
    row = next(row for row in read_rows(ROWS) if row.case == "mpt-1b-2048-16-a100-40")
    found = predict(row)
    assert isinstance(found, Prediction)
    assert found.meant.design.compute.tag == "analytic"
