"""`astrarium run`: a design in, tables, JSON, timeline and Parquet out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.commands import Run

from astrarium.errors import install_line

from .conftest import RANKS


def test_the_table(design: Path, run: Run) -> None:
    said = run("run", design)
    assert said.code == 0
    assert said.out.startswith(f"{design}: traces on 4 NPUs (ring 4)\n  makespan ")
    for words in ("compute", "exposed communication", "idle", "peak memory", "busiest link", "all_reduce", "algbw",
                  "busbw", "critical path"):
        assert words in said.out
    assert not any(line != line.rstrip() for line in said.out.splitlines())
    assert "\x1b" not in said.out


@pytest.mark.parametrize("network", [
    "{dims: [{shape: switch, npus: 8, bandwidth: 1 GB/s, latency: 1 us}]}",
    "{fabric: {blueprint: dgx_h100_rail, hosts: 2, links: {pcie: free, rail: {latency: 1 us}, spine: {latency: 1 us}}},"
    " backend: packets}"])
def test_a_command_starts_without_what_it_does_not_need(network: str, tmp_path: Path) -> None:
    """Each costs 1 to 10 ms at every start."""
    (tmp_path / "d.yaml").write_text("workload: {source: collective, op: all_reduce, payload: 1 MB}\n"
                                     f"network: {network}\n")
    code = "import sys; from astrarium.cli import main; main(['run', sys.argv[1]]); print(*sys.modules)"
    command = [sys.executable, "-c", code, str(tmp_path / "d.yaml")]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for name in ("numpy.ma", "logging", "secrets", "concurrent.futures", "json", "difflib", "fractions",
                 "astrarium.oracle", "astrarium.collective.exam", "astrarium.collective.msccl",
                 "astrarium.lower.explain", "astrarium.trace.write", "astrarium.search"):
        assert name not in said.splitlines()[-1].split(), name


def test_folding_changes_no_byte_of_the_table(design: Path, run: Run) -> None:
    base = run("run", design).out
    assert run("run", design, "--fold", "off").out == base
    assert run("run", design, "--pure").out == base


def test_json_carries_units(design: Path, run: Run) -> None:
    said = run("run", design, "--json")
    found = json.loads(said.out)
    assert found["summary"]["makespan_ns"] == max(row["finish_ns"] for row in found["ranks"])
    assert len(found["ranks"]) == RANKS
    assert found["collectives"][0]["op"] == "all_reduce"
    assert "nodes" not in found
    nodes = json.loads(run("run", design, "--json", "--nodes", "--fold", "off").out)["nodes"]
    assert len(nodes) == RANKS * 4


def test_how_the_answer_was_found(design: Path, run: Run) -> None:
    """-v says it on stderr, and `--json` has it: attempts that ended, then the one that gave the answer."""
    said, plain = run("run", design, "-v", "--fold", "off"), run("run", design, "--fold", "off")
    assert said.out == plain.out
    assert "every rank and every message were simulated" in said.err
    assert "every message" not in plain.err
    how = json.loads(run("run", design, "--json").out)["summary"]["how"]
    assert how == ["one rank of each of 2 classes of equal ranks was simulated"]


def test_set_changes_the_answer(design: Path, run: Run) -> None:
    def makespan(*more: str) -> float:
        found: float = json.loads(run("run", design, "--json", *more).out)["summary"]["makespan_ns"]
        return found

    slow = makespan("--set", "network.dims[0].bandwidth=5 GB/s")
    assert slow > 2 * makespan()
    both = makespan("--set", "network.dims[0].bandwidth=5 GB/s", "--set", "collective.endpoint_delay=1 us")
    assert both not in (slow, makespan())


@pytest.mark.parametrize(("text", "words"), [
    ("network.dims[0].bandwith=5 GB/s", "did you mean 'bandwidth'?"),
    ("network.dims[0].bandwidth=5", "unit"),
    ("network.dims[7].bandwidth=5 GB/s", "network.dims[7]"),
    ("network", "is not an assignment"),
    ("a b=1", "is not a path"),
    ("collective.chunks=0", "collective.chunks"),
    ("collective.chunks=[", "--set collective.chunks"),
])
def test_set_refuses(text: str, words: str, design: Path, run: Run) -> None:
    said = run("run", design, "--set", text)
    assert (said.code, said.out) == (1, "")
    assert words in said.err


def test_set_twice_is_refused(design: Path, run: Run) -> None:
    said = run("run", design, "--set", "collective.chunks=1", "--set", "collective.chunks=2")
    assert (said.code, "is there twice" in said.err) == (1, True)


@pytest.mark.parametrize(("text", "words"), [
    ("", "design.yaml"),
    ("[]", "not a mapping"),
    ("workload: {source: trace, path: et/w.*.et}\n", "network: is missing"),
    ("workload: {source: trace, path: et/w.*.et}\nnetwok: {}\n", "did you mean 'network'?"),
    ("\t", "design.yaml"),
    ("a: &a [*a]", "design.yaml"),
])
def test_hostile_designs(text: str, words: str, design: Path, run: Run) -> None:
    design.write_text(text)
    said = run("run", design)
    assert (said.code, said.out) == (1, "")
    assert words in said.err
    assert "Traceback" not in said.err


def test_a_missing_design_and_a_folder(run: Run, tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        said = run("run", path)
        assert (said.code, said.out) == (1, "")
        assert str(path) in said.err


def test_a_missing_trace_is_named(design: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "et" / "w.3.et").unlink()
    said = run("run", design)
    assert said.code == 1
    assert "w.3.et does not exist" in said.err


def test_timeline_is_whole_or_absent(design: Path, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "t.json"
    assert run("run", design, "--timeline", out).code == 0
    names = {event["name"] for event in json.loads(out.read_text())["traceEvents"]}
    assert {"forward", "gradients", "give", "take", "update"} <= names
    said = run("run", design, "--timeline", tmp_path / "no" / "t.json")
    assert (said.code, said.out) == (1, "")
    assert "cannot be written" in said.err
    assert run("run", design, "--timeline", tmp_path).code == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["design.yaml", "et", "t.json"]


def test_parquet(design: Path, run: Run, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
    assert run("run", design, "--parquet", tmp_path / "tables").code == 0
    assert (tmp_path / "tables" / "ranks.parquet").exists()


def test_parquet_without_its_extra_names_it(design: Path, run: Run, tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    said = run("run", design, "--parquet", tmp_path / "tables")
    assert (said.code, said.out) == (1, "")
    assert install_line("parquet") in said.err


def test_a_large_pure_run_is_announced(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astrarium.cli.run.MANY", 3)
    design = tmp_path / "small.yaml"
    design.write_text("workload: {source: collective, op: barrier, payload: 1 B}\n"
                      "network: {dims: [{shape: ring, npus: 4, bandwidth: 1 GB/s, latency: 1 us}]}\n")
    said = run("run", design, "--pure")
    assert (said.code, "4 NPUs, and the pure-Python engine runs every rank" in said.err) == (0, True)


@pytest.mark.parametrize(("capacity", "verdict"), [
    ("2.41 GB", "fits, but leaves less than an allocator needs in addition to tensors"), ("2.6 GB", "fits\n"),
    ("2.3 GB", "does NOT fit\n")])
def test_head_room_is_said(run: Run, root: Path, capacity: str, verdict: str) -> None:
    """A newcomer's report: tensors that fill 99.6 % of the memory were said to fit."""
    said = run("run", str(root / "examples" / "inference" / "h100.yaml"), "--set", f"memory.capacity={capacity}",
               "--set", "workload.phase=prefill")
    assert f"of {capacity}: {verdict}" in said.out


def test_recomputation_without_effect_is_said(tmp_path: Path, run: Run) -> None:
    work = {"source": "transformer", "model": "gpt2-small", "seq": 128, "global_batch": 1, "recompute": "selective"}
    path = tmp_path / "design.json"
    path.write_text(json.dumps({"compute": "h100_sxm", "workload": work,
                                "network": {"dims": [{"like": "dgx_h100_nvswitch", "npus": 1}]}}))
    said = run("run", path)
    assert "workload.recompute: selective has no effect: no block keeps what it could compute again (flash" in said.err
    plain = run("run", path, "--set", "workload.recompute=none")
    assert said.out.splitlines()[1:] == plain.out.splitlines()[1:]
    for other in ("workload.attention=unfused", "workload.recompute_modules=[attention, norms]"):
        assert "has no effect" not in run("run", path, "--set", other).err


def test_uses_of_a_stack_beside_its_own(tmp_path: Path, run: Run) -> None:
    """An engine that serves trained without a word, and DDP sharded weights."""
    work = {"source": "transformer", "model": "llama3-8b", "seq": 128, "tp": 8, "zero": 1, "global_batch": 1}
    network = {"dims": [{"like": "dgx_h100_nvswitch", "npus": 8}]}
    plain = {"compute": "h100_sxm", "memory": "h100_sxm", "network": network}

    def notes(stack: str, workload: object) -> str:
        path = tmp_path / f"{stack}.json"
        path.write_text(json.dumps({**plain, "stack": stack, "workload": workload}))
        return run("run", path).err

    assert "stack vllm serves, and does not train" in notes("vllm", work)
    assert "workload.zero is 1; stack ddp has 0" in notes("ddp", work)
    decode = {"source": "inference", "model": "llama3-8b", "tp": 8, "phase": "decode", "context": 8}
    assert "stack fsdp trains" in notes("fsdp", decode)
    assert "stack" not in notes("vllm", decode)


def test_several_designs_side_by_side(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each column is what `run` says of the design alone; flags of one design are refused."""
    monkeypatch.chdir(tmp_path)
    for name, size in (("a", "1 MB"), ("b", "4 MB")):
        Path(f"{name}.yaml").write_text(
            f"workload: {{source: collective, op: all_reduce, payload: {size}}}\n"
            "network: {dims: [{shape: ring, npus: 4, bandwidth: 50 GB/s, latency: 500 ns}]}\n")
    rows = json.loads(run("run", "a.yaml", "b.yaml", "--json").out)["rows"]
    alone = [json.loads(run("run", f"{name}.yaml", "--json").out) for name in "ab"]
    assert [row["design"] for row in rows] == ["a", "b"]
    assert [row["makespan_ns"] for row in rows] == [each["summary"]["makespan_ns"] for each in alone]
    table = run("run", "a.yaml", "b.yaml", "--set", "collective.all_reduce=[ring]").out.partition("collectives")[2]
    assert [line.split()[:5] for line in table.splitlines()[2:] if " ring" in line] == [
        ["all_reduce", "4", size, "MB", name] for size, name in (("4", "b"), ("1", "a"))]
    assert [(each["op"], each["payload_bytes"], each["how"]) for row in rows for each in row["collectives"]] == [
        ("all_reduce", size, alone[0]["collectives"][0]["how"]) for size in (10**6, 4 * 10**6)]
    Path("c.yaml").write_text("workload: {source: collective, op: all_reduce, payload: 1 MB}\n"
                              "network: {dims: [{shape: fully_connected, npus: 4, bandwidth: 50 GB/s, latency: 0}]}\n")
    dims = "dim 0, sum per NPU +ring 4: 100 GB/s +fully_connected 4: 150 GB/s\n"
    assert re.search(dims, run("run", "a.yaml", "c.yaml").out)
    said = run("run", "a.yaml", "b.yaml", "--html", "two.html")
    assert (said.code, re.findall(r"1\.000x +\d\.\d{3}x", said.out) != []) == (0, True)
    text = Path("two.html").read_text()
    for words in ("Download a.yaml", "Download b.yaml", "astrarium run a.yaml b.yaml --html two.html",
                  "Parts of the time of the rank that finishes last"):
        assert words in text
    for flag in (["--parquet", "x"], ["--rank", "1"], ["--timeline", "t.json"]):
        said = run("run", "a.yaml", "b.yaml", *flag)
        assert (said.code, "expected one design" in said.err) == (1, True), said.err
