"""Designs outside the measured rows of a stack: which axes, how much wider, what is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.commands import Run

from astrarium import catalog, config
from astrarium.cost.interval import Interval, further, interval_of
from astrarium.cost.support import Support, support_of, united
from astrarium.design import Design

DESIGN = """\
stack: nemo
workload: {source: transformer, model: MODEL, tp: 8, dp: 2, zero: 1, global_batch: 64, micro_batch: 1}
compute: {model: measured, device: h100_sxm}
memory: {capacity: 80 GB}
collective: {model: measured}
network:
  dims: [{like: dgx_h100_nvswitch, npus: 8, latency: 1 us}, {like: infiniband_ndr, npus: 2, latency: 3 us}]
"""


def found(change: tuple[str, str] = ("", ""), model: str = "llama3-8b") -> Interval:
    within = interval_of(config.loads(Design, DESIGN.replace(*change, 1).replace("MODEL", model)))
    assert within is not None
    return within


def test_inside_the_rows_it_is_theirs() -> None:
    row, within = catalog.load("intervals")["nemo"]["h100_sxm"], found()
    assert within.validated
    assert (within.low, within.high, within.extrapolated) == (row["low"], row["high"], ())
    assert within.words == f"80 % of {row['rows']} unseen measured rows of stack nemo on h100_sxm"


@pytest.mark.parametrize(("change", "model", "said"), [
    (("zero: 1", "zero: 3"), "llama3-8b", ["ZeRO 3, rows have ZeRO 1"]),
    (("", ""), "mixtral-8x7b", ["MoE, rows have dense"]),
    (("zero: 1", "zero: 1, recompute: full"), "llama3-8b", ["recompute full, rows have recompute none"]),
    (("global_batch: 64", "global_batch: 640"), "llama3-8b",
     ["327,680 tokens per step and NPU, rows have 1,024 to 131,072"]),
    (("stack: nemo", "stack: fsdp"), "llama3-8b", ["ZeRO 1, rows have ZeRO 3", "tp, rows have none"])])
def test_outside_the_rows_both_ends_go_further_out(change: tuple[str, str], model: str, said: list[str]) -> None:
    within = found(change, model)
    row = catalog.load("intervals")[within.stack or ""]["h100_sxm"]
    beyond = further(["tokens"] if "tokens" in said[0] else ["zero"])
    assert list(within.extrapolated) == said
    assert not within.validated
    assert beyond
    assert within.low == pytest.approx(row["low"] / (1 + beyond))
    assert within.high == pytest.approx(row["high"] * (1 + beyond))
    assert within.words.startswith(f"extrapolated ({'; '.join(said)}): each end {100 * beyond:.0f} % further out")


def test_selective_recomputation_counts_only_where_it_changes_a_block() -> None:
    assert found(("zero: 1", "zero: 1, recompute: selective")) == found()
    for some in ("recompute_modules: [norms]", "attention: unfused"):
        within = found(("zero: 1", f"zero: 1, recompute: selective, {some}"))
        assert within.extrapolated == ("recompute selective, rows have recompute none",)


def test_a_device_without_rows_takes_those_of_the_others() -> None:
    within, row = found(("h100_sxm", "b300_sxm")), catalog.load("intervals")["nemo"]["anywhere"]
    assert within.homes == row["devices"]
    assert within.extrapolated == ("0 unseen measured rows of stack nemo on b300_sxm",)
    assert within.high == pytest.approx(row["high"] * (1 + (further(["device"]) or 0)))
    assert within.words.startswith("unvalidated: 0 unseen measured rows of stack nemo on b300_sxm; extrapolated: each")
    assert f"{row['rows']} unseen measured rows of stack nemo on b200_sxm, gb200" in within.words


def test_further_out_than_any_row_that_judged_there_is_no_interval() -> None:
    assert further(["device", "hosts", "tokens"]) is not None
    assert further(["device", "hosts", "tokens", "zero"]) is None
    within = found(("zero: 1", "zero: 3, recompute: full"), "mixtral-8x7b")
    assert within.known
    far = interval_of(config.loads(Design, DESIGN.replace("MODEL", "mixtral-8x7b").replace(
        "zero: 1", "zero: 3, recompute: full").replace("h100_sxm", "b300_sxm")))
    assert far is not None
    assert not far.known
    assert far.words.startswith("unvalidated: further from the measured rows than intervals were judged for: 0 unseen")


def test_a_single_replica_has_no_stage_of_zero() -> None:
    text = DESIGN.replace("MODEL", "llama3-8b").replace("dp: 2, ", "").replace(
        ", {like: infiniband_ndr, npus: 2, latency: 3 us}", "")
    for stage in (0, 1):
        within = interval_of(config.loads(Design, text.replace("zero: 1", f"zero: {stage}")))
        assert within is not None
        assert within.validated


def test_values_that_fewer_than_three_rows_have_are_no_support() -> None:
    rows = [Support(("dense",), ("bf16",), (1,), ("none",), ("tp",), (hosts,), (1024.0,)) for hosts in (1, 4, 2)]
    rows.append(Support(("MoE",), ("fp8",), (3,), ("none",), ("tp", "pp"), (8,), (2048.0,)))
    assert united(rows) == Support(("dense",), ("bf16",), (1,), ("none",), ("tp",), (1, 8), (1024.0, 2048.0))
    mine = support_of(config.loads(Design, DESIGN.replace("MODEL", "llama3-8b")))
    assert mine == Support(("dense",), ("bf16",), (1,), ("none",), ("tp",), (2,), (32768.0,))
    assert mine.outside(united(rows)) == {"tokens": "32,768 tokens per step and NPU, rows have 1,024 to 2,048"}


def test_what_the_regimes_asked_for_is_what_is_taken() -> None:
    """80 % of the rows of regimes that neither the fit nor the interval had seen lie within."""
    record = catalog.load("extrapolation")
    assert record["settings"]["further"] > record["ranges"]["further"] > 0
    for each in record.values():
        assert each["held"] >= 0.8
        assert each["held"] > each["plain"]
        assert each["apart"] >= 0.8


def test_run_says_extrapolated(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "design.yaml"
    file.write_text(DESIGN.replace("MODEL", "llama3-8b").replace("zero: 1", "zero: 3"))
    assert "extrapolated (ZeRO 3, rows have ZeRO 1)" in run("run", file).out
    interval = json.loads(run("run", file, "--json").out)["interval"]
    assert interval["extrapolated"] == ["ZeRO 3, rows have ZeRO 1"]
    assert interval["low_ns"] < interval["high_ns"]
    assert interval["validated"] is False
