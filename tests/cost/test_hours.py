"""Hours of NPUs: those of a bill, of a training run and of 10^12 tokens."""

from __future__ import annotations

import pytest
from tests.cost.buildings import cluster, step

import astrarium as ar
from astrarium.config import replace_all
from astrarium.cost import FIGURES, figures

NAMES = ("npu_hours", "npu_hours_per_tera_tokens")
RUN = ar.simulate(step())


def test_hours_times_the_rent_are_the_price() -> None:
    """DeepSeek-V3's bill is of this form: 2.664 M H800 hours at 2 $ are 5.328 M$ (arXiv 2412.19437, table 1)."""
    design = replace_all(step(), {"cost": "deepseek_v3", "cost.tokens": 14.8e12})
    found = figures(design, RUN)
    assert found["npu_hours"] * 2 == pytest.approx(found["training_cost"])
    assert found["npu_hours_per_tera_tokens"] * 2 == pytest.approx(found["cost_per_tera_tokens"])
    assert found["npu_hours"] == pytest.approx(14.8 * found["npu_hours_per_tera_tokens"])
    work = design.workload
    assert isinstance(work, ar.Transformer)
    steps = 1e12 / (work.global_batch * found["tokens_per_second"] / found["samples_per_second"])
    assert found["npu_hours_per_tera_tokens"] == pytest.approx(steps * work.ranks * RUN.makespan_ps / 1e12 / 3600)


def test_a_run_prints_them_where_prices_are() -> None:
    priced, free = step(), ar.replace(step(), "cost", {})
    assert "npu_hours_per_tera_tokens" in figures(priced, RUN)
    assert "npu_hours" not in figures(ar.replace(priced, "cost.tokens", None), RUN)
    assert not set(NAMES) & set(figures(free, RUN))
    asked = figures(free, RUN, ["npu_hours_per_tera_tokens"])
    assert asked["npu_hours_per_tera_tokens"] == figures(priced, RUN)["npu_hours_per_tera_tokens"]
    with pytest.raises(ar.InputError, match=r"npu_hours: is not known without cost\.tokens"):
        figures(free, RUN, ["npu_hours"])


def test_other_workloads_have_none() -> None:
    design = replace_all(cluster(1), {"workload": {"source": "collective", "op": "all_reduce", "payload": "1 MB"}})
    for name in NAMES:
        with pytest.raises(ar.InputError, match="is of training workloads"):
            figures(design, ar.simulate(design), [name])


def test_a_plan_has_them_beside_the_money() -> None:
    """`--cost tokens=...` prices by the catalog; before, it priced nothing."""
    found = ar.plan("llama3-8b", "h200", 8, global_batch=64, top=1, cost={"tokens": 1e12},
                    fixed={"tp": [1], "pp": [1], "cp": [1], "micro_batch": [1], "zero": [1]})
    line = found.best
    assert line.figures["npu_hours"] == pytest.approx(1e12 / line.tokens / 3600)
    assert line.figures["npu_hours_per_tera_tokens"] == pytest.approx(line.figures["npu_hours"])
    assert "  GPU-hours  GPU-hours of 10^12  " in str(found)
    assert "cost: us_h200_2025 (or rents, with --cost NAME: nebius_h200_2025 (3.50 $/h), aws_h200_2025_03 " \
        "(10.60 $/h))" in found.assumed
    assert FIGURES["npu_hours"].shown(line.figures["npu_hours"]) in str(found)
