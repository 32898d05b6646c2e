"""Steps of MLPerf Training (benchmarks/data/mlperf.csv), which no fit has seen."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest
from msgspec.structs import replace

from astrarium.validate.designs import candidates
from astrarium.validate.predict import NotPredictable, Prediction, predict
from astrarium.validate.record import fitted_on
from astrarium.validate.rows import Row, read_rows

ROWS = read_rows(Path(__file__).parents[2] / "benchmarks/data/mlperf.csv")


def row_of(version: str, case: str) -> Row:
    return next(row for row in ROWS if row.case == case and f"v{version} " in row.source)


def test_every_row_says_where_it_is_from_and_is_in_no_fit() -> None:
    assert len(ROWS) == 36
    assert all(row.text("logs").startswith("mlcommons/training_results_v") and row.text("config") for row in ROWS)
    assert not any(fitted_on(ROWS))


@pytest.mark.parametrize(("version", "case", "most"), [
    ("3.1", "gpt3-nvidia-h100-512", 0.03), ("3.1", "gpt3-nvidia-h100-10752", 0.03),
    ("4.1", "gpt3-oracle-h100-1536", 0.05), ("5.0", "405b-nvidia-h100-8192", 0.06),
    ("5.0", "405b-ibm-coreweave-gb200-1024", 0.04)])
def test_steps_are_near(version: str, case: str, most: float) -> None:
    found = predict(row_of(version, case))
    assert isinstance(found, Prediction)
    assert found.meant.stated
    assert abs(found.values[0].time_error) < most


def test_a_row_states_its_rank_order() -> None:
    """39 replicas share hosts of 64 unevenly in Megatron's order, and have a host each in the row's."""
    row = row_of("5.0", "405b-ibm-coreweave-gb200-2496")
    assert candidates(row)[0].design.workload.order == "tp-cp-sp-pp-ep-dp"
    assert isinstance(predict(row), Prediction)
    left = replace(row, values=MappingProxyType({key: value for key, value in row.values.items() if key != "order"}))
    assert candidates(left)[0].design.workload.order == "megatron"
    wrong = predict(replace(row, values=MappingProxyType({**row.values, "order": "tp-pp"})))
    assert isinstance(wrong, NotPredictable)
    assert "not an order of the axes" in wrong.reason
