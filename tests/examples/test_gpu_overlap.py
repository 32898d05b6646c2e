"""The example of a product beside a collective prints what its folder says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astrarium.cli.dispatch import dispatch
from astrarium.engine import HAVE_CORE

FILE = "examples/gpu_overlap/overlap.yaml"

pytestmark = pytest.mark.skipif(not HAVE_CORE, reason="millions of requests: without a compiled core, minutes")


def test_some_rows_of_what_it_prints(root: Path, monkeypatch: pytest.MonkeyPatch,
                                    capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(root)
    assert dispatch(["run", FILE, "--set", "units=[24]"]) == 0
    title, _, *rows = map(str.split, capsys.readouterr().out.splitlines())
    folder = root / "examples" / "gpu_overlap"
    expected = (folder / "expected.txt").read_text(encoding="utf-8")
    every = [*map(str.split, expected.splitlines())]
    assert title == every[0]
    assert rows == [every[-3], every[-1]]
    assert expected.rstrip() in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.exam
def test_what_it_prints(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(root)
    assert dispatch(["run", FILE]) == 0
    printed = capsys.readouterr().out
    folder = root / "examples" / "gpu_overlap"
    assert printed == (folder / "expected.txt").read_text(encoding="utf-8")
    assert printed.rstrip() in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.exam
def test_what_the_readme_says_of_the_order(root: Path, monkeypatch: pytest.MonkeyPatch,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(root)
    assert dispatch(["run", FILE, "--set", "first=gemm", "--set", "units=[0]", "--json"]) == 0
    behind, engines = json.loads(capsys.readouterr().out)["rows"]
    assert round(behind["makespan"] / 1e6, 1) == 88.8
    assert round(100 * behind["of_ideal"]) == 13
    assert engines["units"] is None
