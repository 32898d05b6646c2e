"""The quick start: the checked-in traces are what the script makes, and the design gives the expected table."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Run


@pytest.fixture(scope="module")
def quickstart(root: Path) -> Path:
    """The example's folder."""
    return root / "examples" / "quickstart"


def test_traces_are_what_the_script_makes(quickstart: Path, tmp_path: Path, forks: Any) -> None:
    done = forks([sys.executable, str(quickstart / "make_trace.py"), "--out", str(tmp_path)], tmp_path)
    assert done.returncode == 0, done.stderr
    held, made = ({p.name: gzip.decompress(p.read_bytes()) for p in (folder / "traces").glob("*.et")}
                  for folder in (quickstart, tmp_path))
    assert len(held) == 32
    assert held == made
    assert (quickstart / "groups.json").read_text() == (tmp_path / "groups.json").read_text()
    assert sum(p.stat().st_size for p in (quickstart / "traces").iterdir()) < 300_000


def test_groups_cover_every_rank_twice(quickstart: Path) -> None:
    groups = json.loads((quickstart / "groups.json").read_text())
    assert sorted(rank for ranks in groups.values() for rank in ranks) == sorted([*range(32), *range(32)])


def test_the_table_is_the_expected_one(quickstart: Path, root: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    said = run("run", "examples/quickstart/design.yaml")
    assert said.code == 0, said.err
    assert said.out == (quickstart / "expected.txt").read_text(encoding="utf-8")


def test_the_timeline_is_written_and_readable(quickstart: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "timeline.json"
    said = run("run", quickstart / "design.yaml", "--timeline", out)
    assert said.code == 0, said.err
    events = json.loads(out.read_text(encoding="utf-8"))["traceEvents"]
    assert {event["name"] for event in events} >= {"qkv", "mlp_gradients"}


@pytest.mark.parametrize("change", [
    "workload.dependencies=data", "compute.peak=500 TFLOP/s", "memory.bandwidth=1 TB/s", "memory.capacity=1 GB",
    "network.backend=contention", "network.dims[0].bandwidth=100 GB/s", "network.dims[1].bandwidth=100 GB/s",
    "network.dims[1].latency=50 us", "collective.all_reduce[1]=direct", "collective.chunks=1",
    "system.comm_streams=1",
])
def test_changing_a_field_changes_the_table(change: str, quickstart: Path, root: Path, run: Run,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    said = run("run", "examples/quickstart/design.yaml", "--set", change)
    assert said.code == 0, said.err
    same = said.out == (quickstart / "expected.txt").read_text(encoding="utf-8")
    assert same == (change == "workload.dependencies=data")      # these traces have data dependencies only
