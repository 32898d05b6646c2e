"""`astrarium run` of a matrix product beside a collective."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astrarium.cli.dispatch import dispatch

OVERLAP = """
gpu: {like: h100_sxm, units: 4}
gpus: 2
gemm: {m: 100, n: 256, k: 64, peak: 30 TFLOP/s}
op: all_gather
payload: 4 KiB
kernels: [{workgroups: 2, protocol: ll}]
units: [0, 1]
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "overlap.yaml"
    path.write_text(OVERLAP, encoding="utf-8")
    return str(path)


def test_a_line_per_case(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["run", file]) == 0
    title, head, *lines = capsys.readouterr().out.splitlines()
    assert title == "all_gather of 4 KiB on 2 GPUs beside a product of 100 x 256 x 64 (bf16) on each; us"
    assert head.split()[:2] == ["kernel", "units"]
    assert [line.split()[3] for line in lines] == ["shared", "1"]


def test_both_engines_print_the_same(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for more in [], ["--pure"]:
        assert dispatch(["run", file, "--json", "--set", "payload=1 KiB", *more]) == 0
        printed.append(json.loads(capsys.readouterr().out)["rows"])
    assert printed[0] == printed[1]
    assert [case["units"] for case in printed[0]] == [0, 1]


def test_a_timeline_shows_what_the_units_do(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "units.json"
    assert dispatch(["run", file, "--set", "units=[1]", "--timeline", str(path)]) == 0
    assert "open it at" in capsys.readouterr().err
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    named = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert named >= {"unit 0", "unit 1"}
    assert {event["name"] for event in events} >= {"multiply", "store"}


@pytest.mark.parametrize(("more", "words"), [
    (["--timeline", "t.json"], "--timeline: of 2 cases; expected one: --set units=[0], and one entry of kernels"),
    (["--nodes"], "--nodes: has no effect here; expected a design"),
    (["--rank", "0"], "--rank: has no effect here"),
    (["--set", "units=[4]"], "units[0]: 4 of 4 units; expected some left for the product"),
    (["--set", "kernels[0].algorithm=copy_engine", "--set", "kernels[0].protocol=simple"],
     "kernels[0].algorithm: copy_engine on a GPU without copy_engines"),
    (["--set", "gemm.precision=fp12"], "gemm.precision: 'fp12' is not known")])
def test_what_cannot_be_is_refused(file: str, more: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["run", file, *more]) == 1
    assert words in capsys.readouterr().err


def test_other_verbs_name_this_one(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["search", file]) == 1
    assert f"is a GPU overlap, not a space; expected a space, or astrarium run {file}" in capsys.readouterr().err
