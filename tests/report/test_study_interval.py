"""Searches and reports say where the step of a design was measured, and which designs tie."""

from __future__ import annotations

from pathlib import Path

import pytest

import astrarium as ar
from astrarium import catalog
from astrarium.report.pages.study import study_page
from astrarium.report.tables.study import report_tables, study_plain, study_tables
from astrarium.report.tables.study_data import study_report
from astrarium.report.tables.table import text_of
from astrarium.search.studyfile import load_study

DESIGN = """
stack: nemo
workload: {source: transformer, model: llama3-8b, tp: 8, dp: 2, global_batch: 64, micro_batch: 1}
compute: {model: measured, device: h100_sxm}
memory: {capacity: 80 GB}
collective: {model: measured}
network:
  dims: [{like: dgx_h100_nvswitch, npus: 8, latency: 1 us}, {like: infiniband_ndr, npus: 2, latency: 3 us}]
"""

NEMO = catalog.load("intervals")["nemo"]["h100_sxm"]


def space(text: str, folder: Path) -> ar.Space:
    path = folder / "design.yaml"
    path.write_text(text)
    choices = {"workload.tp": [1, 2, 4, 8], "workload.dp": [2, 4, 8, 16], "workload.micro_batch": [1, 2],
               "workload.zero": [1]}
    return ar.Space(ar.load_design(path), choices, "workload.tp * workload.dp == 16")


def test_designs_within_the_interval_of_the_best_tie(tmp_path: Path) -> None:
    study = ar.search(space(DESIGN, tmp_path), "makespan", agent="grid", trials=8, study=str(tmp_path / "a.study"))
    ten = study_plain(study)["ten_best"]
    best = ten[0]["objectives"]["makespan"]
    assert ten[0]["interval"]["low_ns"] == pytest.approx(best * NEMO["low"])
    assert [each["tie"] for each in ten[1:]] == [
        each["objectives"]["makespan"] <= best * NEMO["high"] or each["objectives"]["makespan"] * NEMO["low"] <= best
        for each in ten[1:]]
    assert {each["tie"] for each in ten[1:]} == {True, False}
    text = "\n".join(map(text_of, study_tables(study, "space")))
    assert "undecided against 1" in text
    assert f"80 % of {NEMO['rows']} unseen measured rows of stack nemo on h100_sxm" in text
    report = study_report([load_study(str(tmp_path / "a.study"))])
    told = "\n".join(map(text_of, report_tables(report)))
    assert "undecided against 1" in told.split("best designs (interval: 80 % of ")[1]
    assert "undecided against 1" in study_page(report)


def test_rates_have_the_interval_turned_round(tmp_path: Path) -> None:
    study = ar.search(space(DESIGN, tmp_path), maximize="mfu", agent="grid", trials=8)
    assert study.best is not None
    low, high = (100 * study.objectives()["mfu"] / each for each in (NEMO["high"], NEMO["low"]))
    assert f"(80 %: {low:.1f} to {high:.1f} %)" in "\n".join(map(text_of, study_tables(study, "space")))


def test_designs_without_measured_rows_are_unvalidated_and_tie_with_nobody(tmp_path: Path) -> None:
    plain = DESIGN.replace("stack: nemo", "stack: megatron-core")
    study = ar.search(space(plain, tmp_path), "makespan", agent="grid", trials=8)
    text = "\n".join(map(text_of, study_tables(study, "space")))
    assert "unvalidated: 0 unseen measured rows of stack megatron-core on h100_sxm" in text
    assert "80 %" not in text
    assert "undecided against" not in text


def test_designs_outside_the_rows_say_that_their_interval_is_extrapolated(tmp_path: Path) -> None:
    """Users' report, issue 35 line 6: the rows of nemo on H100 have ZeRO 1 alone."""
    path = tmp_path / "design.yaml"
    path.write_text(DESIGN.replace("global_batch", "zero: 0, global_batch"))
    study = ar.search(ar.Space(ar.load_design(path), {"workload.zero": [0, 1, 3]}), "makespan", agent="grid", trials=3)
    ten = study_plain(study)["ten_best"]
    found = {each["design"]["workload.zero"]: each["interval"] for each in ten}
    assert found[1]["extrapolated"] == []
    assert found[1]["validated"] is True
    for stage in (0, 3):
        assert found[stage]["extrapolated"] == [f"ZeRO {stage}, rows have ZeRO 1"]
        assert found[stage]["validated"] is False
    text = "\n".join(map(text_of, study_tables(study, "space")))
    assert ten[0]["design"]["workload.zero"] != 1
    assert f"extrapolated (ZeRO {ten[0]['design']['workload.zero']}, rows have ZeRO 1)" in text
    assert " s extrapolated" in text
