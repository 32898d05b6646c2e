"""Intervals of step times, and what `run` says of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.commands import Run

from astrarium import catalog, config
from astrarium.cost.interval import FEWEST, Interval, interval_of, tied
from astrarium.design import Design
from astrarium.validate.intervals import conformal, interval_score

DESIGN = """\
stack: nemo
workload: {source: transformer, model: llama3-8b, tp: 8, global_batch: 4, micro_batch: 1}
compute: {model: measured, device: DEVICE}
memory: {capacity: 80 GB}
collective: {model: measured}
network:
  dims: [{like: dgx_h100_nvswitch, npus: 8, latency: 1 us}]
"""


def test_conformal_ends_hold_as_much_as_they_say() -> None:
    rng = np.random.default_rng(7)
    inside = []
    for _ in range(400):
        ratios = rng.lognormal(0.0, 0.2, 41)
        low, high = conformal(ratios[:-1].tolist())
        inside.append(low <= ratios[-1] <= high)
    assert 0.76 <= np.mean(inside) <= 0.86


def test_few_rows_end_at_the_largest_errors() -> None:
    assert conformal([0.9, 1.2, 1.0]) == (0.9, 1.2)


@pytest.mark.parametrize(("device", "validated"), [("h100_sxm", True), ("h200_sxm", False)])
def test_a_design_with_a_stack_has_an_interval_or_says_that_it_has_none(device: str, validated: bool) -> None:
    found = interval_of(config.loads(Design, DESIGN.replace("DEVICE", device)))
    assert found is not None
    assert found.validated is validated
    if found.low is not None and found.high is not None:
        assert 0.7 < found.low < found.high < 1.4


def test_every_interval_of_the_catalog_is_of_a_stack() -> None:
    for stack, devices in catalog.load("intervals").items():
        assert stack in catalog.load("stacks")
        for row in devices.values():
            for part in (row, *([row["wide"]] if "wide" in row else [])):
                assert part["rows"] < FEWEST or part["low"] < part["high"]


@pytest.mark.parametrize(("change", "why"), [
    (("stack: nemo\n", ""), "names no software stack"),
    (("{model: measured, device: DEVICE}", "{model: roofline, peak: 989 TFLOP/s}"), "compute.model is roofline"),
    (("collective: {model: measured}", "collective: {}"), "collective.model is simulated")])
def test_what_was_not_measured_has_no_interval(change: tuple[str, str], why: str) -> None:
    text = DESIGN.replace(*change).replace("DEVICE", "h100_sxm").replace("80 GB", "80 GB, bandwidth: 3.35 TB/s")
    found = interval_of(config.loads(Design, text))
    assert found is not None
    assert not found.validated
    assert why in found.words
    assert "%" not in found.words


def test_gradients_over_many_hosts_have_their_own_interval() -> None:
    text = DESIGN.replace("DEVICE", "h100_sxm").replace("nemo", "nanotron")
    hosts = text.replace("tp: 8, global_batch: 4", "tp: 8, dp: 16, global_batch: 16").replace(
        "latency: 1 us}", "latency: 1 us}, {like: infiniband_ndr, npus: 16, latency: 3 us}")
    few, many = (interval_of(config.loads(Design, each)) for each in (text, hosts))
    assert few is not None
    assert many is not None
    assert few.high is not None
    assert many.high is not None
    assert few.high < many.high
    assert "16 hosts or more" in many.words


def test_ties() -> None:
    nemo, none = Interval("nemo", "h100_sxm", 14, 0.9, 1.1), Interval("nemo", "h200_sxm", 0, why="no rows")
    assert tied((1.0, nemo), (1.05, nemo)) is True
    assert tied((1.0, nemo), (1.2, nemo)) is False
    assert tied((1.0, nemo), (1.0, none)) is None
    assert tied((1.0, None), (1.0, None)) is None
    assert tied((0.50, nemo), (0.46, nemo), power=-1) is True
    assert tied((0.50, nemo), (0.40, nemo), power=-1) is False
    assert nemo.around(110.0, -1) == pytest.approx((100.0, 110 / 0.9))


def test_the_interval_score_is_that_of_the_paper() -> None:
    assert interval_score(0.5, 2.0, 1.0) == pytest.approx(np.log(4))
    assert interval_score(0.5, 2.0, 4.0) == pytest.approx(np.log(4) + 10 * np.log(2))


def test_run_prints_the_interval(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "design.yaml"
    file.write_text(DESIGN.replace("DEVICE", "h100_sxm"))
    text = run("run", file).out
    assert "80 % of" in text
    assert "stack nemo on h100_sxm" in text
    found = json.loads(run("run", file, "--json").out)
    assert found["interval"]["low_ns"] < found["summary"]["makespan_ns"] < found["interval"]["high_ns"]
    file.write_text(DESIGN.replace("DEVICE", "h200_sxm").replace("80 GB", "141 GB"))
    assert "unvalidated" in run("run", file).out
