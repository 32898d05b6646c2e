"""`check`, `show` and `list`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.commands import Run

from astrarium.config import loads
from astrarium.design import Design
from astrarium.registry import kinds, names
from astrarium.trace import TraceBuilder
from astrarium.vocab import CommOp

from .conftest import RANKS


def test_check_finds_nothing_wrong(prefix: Path, design: Path, run: Run) -> None:
    said = run("check", prefix, f"{prefix}.*.et", design)
    assert (said.code, said.out) == (0, "")
    assert "0 errors, 0 warnings" in said.err


def test_check_reports_every_finding_of_every_path(prefix: Path, design: Path, run: Run, tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.recv("lonely", 0, 4096, tag=99)
    trace.comp("nothing")
    trace.write(f"{prefix}.1.et")
    said = run("check", prefix, tmp_path / "absent", design, "--json")
    found = json.loads(said.out)["rows"]
    assert said.code == 1
    assert {row["path"] for row in found} == {str(prefix), str(tmp_path / "absent"), str(design)}
    lonely = next(row for row in found if row["name"] == "lonely")
    assert (lonely["ranks"], lonely["node"], lonely["severity"]) == ([1], 0, "error")
    assert lonely["fix"]
    text = run("check", prefix).out
    assert "lonely" in text
    assert text.count("\n") == sum(row["path"] == str(prefix) for row in found)


def test_check_uses_the_groups_given(tmp_path: Path, run: Run) -> None:
    for rank in range(2):
        trace = TraceBuilder()
        trace.coll("reduce", CommOp.ALL_REDUCE, 1024, group=5)
        trace.write(tmp_path / f"g.{rank}.et")
    (tmp_path / "groups.json").write_text('{"5": [0, 1]}')
    assert run("check", tmp_path / "g").code == 1
    assert run("check", tmp_path / "g", "--groups", tmp_path / "groups.json").code == 0
    assert run("check", tmp_path / "g", "--groups", tmp_path / "none.json").code == 1


def test_check_says_what_is_wrong_with_a_design(design: Path, run: Run) -> None:
    design.write_text(design.read_text().replace("50 GB/s", "50"))
    said = run("check", design)
    assert said.code == 1
    assert "network.dims[0].bandwidth" in said.out


def test_show_classes(prefix: Path, run: Run) -> None:
    said = run("show", prefix)
    assert said.code == 0
    assert "4 ranks, 16 nodes" in said.out
    rows = json.loads(run("show", prefix, "--json").out)["rows"]
    assert sum(row["rank_count"] for row in rows) == RANKS
    assert sum(row["sent_bytes"] * row["rank_count"] for row in rows) == 2 * 4096
    assert all(row["collective_bytes"] == 1 << 20 and row["recorded_ns"] == 8000 for row in rows)


def test_show_nodes(prefix: Path, run: Run) -> None:
    said = run("show", prefix, "--nodes", "--rank", 3)
    assert "4,096" not in said.out
    for words in ("take", "4.096 kB from 2, tag 7", "all_reduce 1.049 MB", "COMP"):
        assert words in said.out
    one = run("show", f"{prefix}.3.et", "--nodes")
    assert one.out.splitlines()[1:] == said.out.splitlines()[1:]
    lines = [json.loads(line) for line in run("show", prefix, "--nodes", "--rank", 3, "--json").out.splitlines()]
    assert [line.get("name") for line in lines[1:]] == ["forward", "gradients", "take", "update"]


@pytest.mark.parametrize(("more", "code"), [(["--rank", "4"], 1), (["--rank", "-1"], 2), (["--rank", "x"], 2)])
def test_show_refuses_ranks(more: list[str], code: int, prefix: Path, run: Run) -> None:
    said = run("show", prefix, "--nodes", *more)
    assert (said.code, said.out) == (code, "")


def test_show_design_reads_back(design: Path, run: Run) -> None:
    said = run("show", design)
    text, table = said.out.split("\n\n")
    assert loads(Design, text).network.npus == 4
    assert text.count("50 GB/s") == 1
    assert "endpoint_delay: 0 ns" in text
    assert "ring" in table
    found = json.loads(run("show", design, "--json", "--set", "network.dims[0].npus=6").out)
    assert (found["npus"], found["network"][0]["links"]) == (6, 12)
    assert found["design"]["network"]["dims"][0]["bandwidth"] == "50 GB/s"


def test_show_says_which_edges_of_a_fabric_were_dropped(run: Run, tmp_path: Path) -> None:
    edge = {"ep1": {"component": "xpu"}, "ep2": {"component": "sw"}, "scheme": "many2many", "link": "a"}
    parts = [{"name": "xpu", "choice": "xpu", "count": 2}, {"name": "sw", "choice": "switch", "count": 1}]
    device = {"name": "host", "components": parts, "links": [{"name": "a"}],
              "edges": [edge, {**edge, "ep1": {"component": "gpu"}}]}
    path = tmp_path / "host.json"
    path.write_text(json.dumps({"devices": [device], "instances": [{"name": "host", "device": "host", "count": 1}]}))
    assert "`dangling: drop`" in run("show", path).err
    note = "dropped 1 edge, as device host has no component 'gpu': devices[0].edges[1]"
    said = run("show", path, "--json", "--set", "dangling=drop")
    assert (said.code, said.err) == (0, f"astrarium: note: {note}\n")
    assert json.loads(said.out)["links"][0]["links"] == 2
    design = tmp_path / "design.yaml"
    design.write_text("workload: {source: collective, op: all_reduce, payload: 1 MB}\nnetwork:\n  backend: fluid\n"
                      "  fabric: {file: host.json, dangling: drop, links: {a: {bandwidth: 1 GB/s, latency: 1 us}}}\n")
    assert f"astrarium: note: network.fabric: {note}\n" in run("run", design).err


@pytest.mark.parametrize(("dim", "links"), [
    ("{shape: ring, npus: 4", 8), ("{shape: ring, npus: 4, one_way: true", 4), ("{shape: switch, npus: 4", 8),
    ("{shape: fully_connected, npus: 4", 12), ("{shape: mesh, npus: 4", 6), ("{shape: hypercube, npus: 8", 24),
    ("{shape: torus, npus: [2, 3]", 12), ("{shape: switch, npus: 1", 0), ("{shape: ring, npus: 1", 0),
])
def test_link_counts(dim: str, links: int, design: Path, run: Run) -> None:
    """One-way links of the whole network, counted by hand; a torus is a row per direction, so its rows add up."""
    design.write_text("workload: {source: trace, path: x}\nnetwork:\n  dims:\n"
                      f"    - {dim}, bandwidth: 1 GB/s, latency: 1 ns}}\n")
    rows = json.loads(run("show", design, "--json").out)["network"]
    assert sum(row["links"] for row in rows) == (links if "torus" not in dim else 24)


def test_list_everything(run: Run) -> None:
    said = run("list")
    assert said.code == 0
    for kind in kinds():
        assert f"\n{kind}\n" in f"\n{said.out}"
        for name in names(kind):
            assert f"\n  {name} " in said.out
    assert "h100_sxm" in said.out
    assert "reduce_scatter" in said.out


def test_list_one_kind(run: Run) -> None:
    rows = json.loads(run("list", "shape", "--json").out)["rows"]
    assert [row["name"] for row in rows] == list(names("shape"))
    assert all(row["sentence"].endswith(".") for row in rows)
    fields = json.loads(run("list", "field", "--json").out)["rows"]
    assert "network.dims[].bandwidth" in {row["name"] for row in fields}
    assert all(row["source"].strip() for row in json.loads(run("list", "device", "--json").out)["rows"])
    networks = {row["name"]: row for row in json.loads(run("list", "network", "--json").out)["rows"]}
    assert networks["dgx_h100_nvswitch"]["sentence"].endswith("switch, 8 NPUs, 450 GB/s per NPU, 936.25 ns per hop.")
    assert "https://" in networks["infiniband_ndr"]["source"]
    models = {row["name"]: row for row in json.loads(run("list", "model", "--json").out)["rows"]}
    assert models["llama3-8b"]["sentence"] == "LLaMA-3 8B: decoder, 8,030,261,248 parameters."
    assert all("https://" in row["source"] for row in models.values())
    said = run("list", "algorthm")
    assert (said.code, said.out) == (1, "")
    assert "did you mean 'algorithm'?" in said.err
