"""Intervals of serving rows: what they promise of a cell that they have not seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tests.loading import ROOT, module_of

from astrarium.validate.rows import Row
from astrarium.validate.serving.predict import Figures

Rows = module_of(ROOT / "benchmarks" / "_serving_errors.py", "_serving_errors")


def judged(engine: str, cell: int, ratio: float) -> Any:
    """A row of an engine's cell whose TPOT is `ratio` of the predicted one."""
    row = Row("rows.csv", 2, "silicon", {"backend": engine, "model_path": str(cell), "silicon_tpot_ms": 10 * ratio})
    return Rows.Judged(row, cast("Any", object()), Figures(100.0, 10.0, 10.0, 1000.0, 1.0))


def cells_of(rng: np.random.Generator, count: int, width: float) -> list[list[float]]:
    """Cells with 2 to 80 rows, which err together by `width` and apart by as much."""
    return [(np.exp(rng.normal(0, width) + rng.normal(0, width, rng.integers(2, 80)))).tolist()
            for _ in range(count)]


def test_cells_weigh_the_same() -> None:
    many = [1.0] * 90
    assert Rows.of_cells([many, *([1.0 + each / 10] for each in range(1, 10))]) == (1.1, 1.8)


def test_intervals_hold_for_cells_that_they_have_not_seen() -> None:
    rng, inside = np.random.default_rng(5), []
    for _ in range(300):
        *others, mine = cells_of(rng, 16, 0.1)
        low, high = Rows.of_cells(others)
        inside.append(np.mean([low <= ratio <= high for ratio in mine]))
    assert 0.74 <= np.mean(inside) <= 0.84


@pytest.mark.parametrize(("count", "borrowed"), [(3, True), (12, False)])
def test_an_engine_of_few_cells_takes_those_of_all(count: int, borrowed: bool) -> None:
    rows = [judged("few", cell, 1.0 + cell / 10) for cell in range(count)]
    rows += [judged("many", cell, 0.5 + cell / 10) for cell in range(20)]
    found = Rows.covered(rows, lambda each: each.row.text("model_path"), lambda each: each.row.text("backend"))
    assert (found["few"].borrowed, found["many"].borrowed) == (borrowed, False)
    assert (found["few"].rows, found["few"].cells) == (count, count)
    assert found["few"].inside == (3 if borrowed else 8)


def test_equal_predictions_have_equal_ranks() -> None:
    """Three measurements of one design among others: their order cannot be told, and costs the same whatever it is."""
    def row(real: float, made: float) -> Any:
        cells = {"backend": "vllm", "mode": "agg", "silicon_tpot_ms": 10.0, "silicon_ttft_ms": real, "osl": 1}
        return Rows.Judged(Row("rows.csv", 2, "silicon", cells), cast("Any", SimpleNamespace(
            concurrency=1, npus=1, output=SimpleNamespace(mean=1.0))), Figures(100.0, 10.0, 10.0, 1000.0, made))

    for order in ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]):
        found = [*(row(real, 5.0) for real in order), row(4.0, 4.0), row(5.0, 3.0)]
        ranks, groups = Rows.correlation(found, lambda each: "one")
        assert (groups, round(ranks, 3)) == (1, 0.894)
