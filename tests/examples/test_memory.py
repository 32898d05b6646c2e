"""The memory organisations print what their folder says; ZeRO-Offload's case is what was published."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

import astrarium as ar
from astrarium.lower.placement import placed_of
from astrarium.vocab import Placed


def test_what_the_table_prints(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    folder = root / "examples" / "memory"
    monkeypatch.setattr(sys, "argv", ["table.py"])
    runpy.run_path(str(folder / "table.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed == (folder / "expected.txt").read_text(encoding="utf-8")
    assert printed in (folder / "README.md").read_text(encoding="utf-8")


def test_ten_billion_parameters_on_one_v100(root: Path) -> None:
    """arXiv 2101.06840: they fit into 32 GB with states and gradients in the host, and not without; 40 TFLOP/s."""
    design = ar.load_design(root / "examples" / "memory" / "zero_offload.yaml")
    assert placed_of(design) == Placed(states="host", gradients="host", step=True)
    result = ar.simulate(design)
    assert result.out_of_memory is False
    assert ar.simulate(ar.replace(design, "memory.placement", ar.Placement())).out_of_memory is True
    model = 6 * 10.28e9 * 10 * 1024 / (float(result.makespan) * 1e3)     # TFLOP/s, weights' products alone
    assert model > 40       # a roofline at the data sheet's rates is a bound
