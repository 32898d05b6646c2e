"""ASTRA-sim 3.0's figures: what the study prints, and that its findings are the paper's."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace


def study(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "examples" / "astra3" / "study.py"))


@pytest.mark.exam
def test_what_the_study_prints(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = root / "examples" / "astra3"
    study(root)["main"]()
    printed = capsys.readouterr().out
    assert printed == (folder / "expected.txt").read_text(encoding="utf-8")
    assert printed.rstrip() in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.exam
def test_plots_are_those_of_the_guide(root: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(root / "examples" / "astra3" / "plots.py"), str(tmp_path)], check=True)
    for drawn in tmp_path.iterdir():
        assert drawn.read_text(encoding="utf-8") == (root / "docs" / "guides" / drawn.name).read_text(encoding="utf-8")
    assert len(list(tmp_path.iterdir())) == 3


def test_crossovers_of_protocols_are_those_of_the_paper_at_256_gib_s(root: Path) -> None:
    part = study(root)
    gpu = replace(part["GPU"], port_bandwidth="8 GiB/s", fence="2 us")
    found = [part["crossover"](replace(gpu, link_latency=latency)) >> 10 for latency in ("0.5 us", "5 us")]
    assert found == [1024, 4096]        # the paper: 512 and 2048; within one power of two, and the same factor


def test_get_is_better_for_reduce_scatter_and_put_for_all_gather(root: Path) -> None:
    rows = [line.split() for line in study(root)["directions"]([16])][2:]
    gains = [float(row[6]) - float(row[7]) for row in rows]     # of get over put
    assert all(gain > 0 for gain in gains[:2])                  # reduce_scatter
    assert all(gain < 0 for gain in gains[2:])                  # all_gather
    assert all(fifo < turns for fifo, turns in zip(gains[2::2], gains[3::2], strict=True))   # a narrower gap


def test_the_formula_of_protocols(root: Path) -> None:
    rows = [line.split() for line in study(root)["formula"]()][2:]
    assert rows[0][-5:-3] == ["134", "1342"]        # 0.5 us x 256 GiB/s = 134.2 KiB
