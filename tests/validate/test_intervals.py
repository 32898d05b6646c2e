"""Intervals of step times, and what `run` says of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from astrarium import catalog, config
from astrarium.design import Design
from astrarium.validate.intervals import FEWEST, conformal, interval_of

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
            assert row["rows"] < FEWEST or row["low"] < row["high"]


def test_run_prints_the_interval(tmp_path: Path) -> None:
    file = tmp_path / "design.yaml"
    file.write_text(DESIGN.replace("DEVICE", "h100_sxm"))
    command = [sys.executable, "-m", "astrarium", "run", str(file)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "80 % of" in text
    assert "stack nemo on h100_sxm" in text
    found = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    assert found["interval"]["low_ns"] < found["summary"]["makespan_ns"] < found["interval"]["high_ns"]
    file.write_text(DESIGN.replace("DEVICE", "h200_sxm").replace("80 GB", "141 GB"))
    assert "unvalidated" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
