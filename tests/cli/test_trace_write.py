"""`astrarium trace write`: the files of a generated workload, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import astrarium as ar
from astrarium.trace import read_traces

if TYPE_CHECKING:
    from tests.commands import Run

DESIGN = """\
workload: {source: micro, pattern: collectives, ops: [all_reduce], payload: 1 MB, count: 2}
network:
  dims:
  - {shape: switch, npus: 4, bandwidth: 50 GB/s, latency: 1 us}
"""
SINGLE = "workload: {source: collective, op: all_gather, payload: 9 B}"
TRAINING = """\
workload: {source: transformer,
           model: {family: decoder, layers: 4, d_model: 64, ffn: 256, heads: 4, vocab: 256, seq: 32},
           dp: 2, tp: 2, pp: 2, global_batch: 4, micro_batch: 1}
compute: {model: roofline, peak: 100 TFLOP/s}
memory: {bandwidth: 1 TB/s}
network:
  dims:
  - {shape: switch, npus: 8, bandwidth: 50 GB/s, latency: 1 us}
"""


@pytest.fixture
def design(tmp_path: Path) -> Path:
    path = tmp_path / "design.yaml"
    path.write_text(DESIGN)
    return path


def test_files_and_groups_are_written_and_run(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "training.yaml"
    path.write_text(TRAINING)
    said = run("trace", "write", path, "-o", tmp_path / "w", "--tensors", "--json")
    assert (said.code, said.err) == (0, "")
    found = json.loads(said.out)
    assert (found["ranks"], found["files"], found["linked"]) == (8, 8, 0)
    assert found["bytes"] == sum((tmp_path / f"w.{rank}.et").stat().st_size for rank in range(8))
    design = ar.load_design(path)
    files = ar.replace(design, "workload", ar.Trace(str(tmp_path / "w"), groups=found["groups"]))
    ours, theirs = ar.simulate(design), ar.simulate(files)
    assert ours.makespan_ps == theirs.makespan_ps
    assert ours.peak_memory == theirs.peak_memory


def test_equal_ranks_are_links(run: Run, design: Path, tmp_path: Path) -> None:
    for flags, files, linked in (((), 1, ", 3 links to equal ones"), (("--symlink",), 1, ", 3 links to equal ones"),
                                 (("--copy",), 4, "")):
        said = run("trace", "write", design, "-o", tmp_path / "w", *flags)
        assert said.code == 0
        first, groups = said.out.splitlines()
        assert first.startswith(f"{files} traces, ")
        assert first.endswith(f" B{linked}: {tmp_path}/w.0.et to {tmp_path}/w.3.et")
        assert groups == f"groups: {tmp_path}/w.groups.json"
    assert read_traces(tmp_path / "w").ranks == 4


def test_set_and_gzip(run: Run, design: Path, tmp_path: Path) -> None:
    said = run("trace", "write", design, "-o", tmp_path / "w", "--set", "workload.count=5", "--gzip", "--jobs", "1")
    assert said.code == 0
    assert (tmp_path / "w.0.et").read_bytes()[:2] == b"\x1f\x8b"
    assert read_traces(tmp_path / "w").classes[0].nodes == 5


def test_a_single_collective_is_written_too(run: Run, design: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.yaml"
    alone.write_text(DESIGN.replace(DESIGN.splitlines()[0], SINGLE))
    assert run("trace", "write", alone, "-o", tmp_path / "w").code == 0
    assert read_traces(tmp_path / "w").classes[0].comm_size.tolist() == [3]


@pytest.mark.parametrize(("change", "words"), [
    ("workload: {source: trace, path: w}", "'trace' is not generated"),
    ("workload: {source: micro, pattern: rng}", "rng")])
def test_what_cannot_be_written_is_refused(change: str, words: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "design.yaml"
    path.write_text(DESIGN.replace(DESIGN.splitlines()[0], change))
    said = run("trace", "write", path, "-o", tmp_path / "w")
    assert said.code == 1
    assert words in said.err


def test_no_such_folder(run: Run, design: Path, tmp_path: Path) -> None:
    said = run("trace", "write", design, "-o", tmp_path / "none" / "w")
    assert (said.code, "there is no folder" in said.err) == (1, True)
    assert run("trace", "write", design, "-o", tmp_path / "w", "--link", "--copy").code == 2


def test_show_workload_prints_its_tables(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "training.yaml"
    path.write_text(TRAINING)
    said = run("show", path, "--workload", "--set", "workload.global_batch=8")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("workload: transformer, 8 ranks, one iteration")
    assert json.loads(run("show", path, "--workload", "--json").out)["ranks"] == 8
    assert run("show", tmp_path, "--workload").code == 1
