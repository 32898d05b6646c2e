"""The examples of provisioning and of scaling print what their folders say."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest
from tests.commands import Run


def printed(script: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
            ) -> tuple[int, str, str]:
    """What a script prints, run as a program."""
    monkeypatch.setattr(sys, "argv", [str(script), *arguments])
    capsys.readouterr()
    code = 0
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        code = int(end.code or 0)
    found = capsys.readouterr()
    return code, found.out, found.err


def test_ways_to_scale(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = root / "examples" / "scale"
    code, out, _ = printed(folder / "compare.py", capsys, monkeypatch)
    assert (code, out) == (0, (folder / "expected.txt").read_text(encoding="utf-8"))


def test_bandwidths(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
                    run: Run) -> None:
    """It prints what the folder says; the design that it writes takes the time that it says."""
    folder = root / "examples" / "provisioning"
    code, out, _ = printed(folder / "bandwidth.py", capsys, monkeypatch, "-o", str(tmp_path / "best.yaml"))
    assert (code, out) == (0, (folder / "bandwidth.txt").read_text(encoding="utf-8"))
    assert re.search(r"makespan +908 ms", run("run", tmp_path / "best.yaml").out)


def test_a_budget_that_buys_nothing(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
                                    ) -> None:
    script = root / "examples" / "provisioning" / "bandwidth.py"
    code, _, err = printed(script, capsys, monkeypatch, "--money", "100")
    assert code == 1
    assert err.startswith("bandwidth.py: Budget.money: 100 US dollars cannot buy 1 GB/s in every dim")


def test_clusters(root: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    said = run("search", "examples/provisioning/cluster.yaml", "--trials", "60", "--agent", "genetic", "--study",
               tmp_path / "cluster.study")
    assert said.code == 0
    found = re.sub(r"^  this run .*", "  this run       ...", said.out, flags=re.MULTILINE)
    assert found == (root / "examples" / "provisioning" / "cluster.txt").read_text(encoding="utf-8")
