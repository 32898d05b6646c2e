"""`astrarium trace convert`: text workloads of ASTRA-sim 1.0 as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from astrarium.trace import check, read_groups, read_traces

if TYPE_CHECKING:
    from tests.commands import Run

TEXT = """\
HYBRID_TRANSFORMER model_parallel_NPU_group: 2
2
Q1 -1 3000 ALLREDUCE 8388608 2000 ALLREDUCE 8388608 2500 ALLREDUCE 33554432 10
K1 -1 3000 NONE 0 2000 NONE 0 2500 ALLREDUCE 33554432 10
"""


def test_a_text_workload_becomes_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(TEXT)
    said = run("trace", "convert", tmp_path / "t.txt", "--npus", "8", "--passes", "2", "-o", tmp_path / "w", "--json")
    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out)["files"] == 8       # every rank has another pair of groups
    traces = read_traces(tmp_path / "w")
    assert (traces.ranks, len(traces.classes), traces.classes[0].nodes) == (8, 1, 20)
    groups = read_groups(tmp_path / "w.groups.json")
    assert (groups["1"], groups["5"]) == ((0, 1), (0, 2, 4, 6))
    assert not check(traces, groups)


def test_nanoseconds_and_what_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(TEXT)
    said = run("trace", "convert", tmp_path / "t.txt", "--npus", "4", "-o", tmp_path / "w", "--unit", "ns")
    assert (said.code, "rounded" in said.err) == (0, True)
    assert read_traces(tmp_path / "w").classes[0].duration.max() == 3
    said = run("trace", "convert", tmp_path / "t.txt", "--npus", "7", "-o", tmp_path / "w")
    assert (said.code, "does not divide 7" in said.err) == (1, True)
    assert run("trace", "convert", "t.txt", "--npus", "4", "-o", tmp_path / "w", "--comm-scale", "0").code == 2
    assert run("trace", "convert", tmp_path / "none.txt", "--npus", "4", "-o", tmp_path / "w").code == 1
