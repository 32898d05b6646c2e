"""Chakra's six commands, and `astrarium trace graph` and `collective`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from astrarium.cli.chakra import COMMANDS, run_command
from astrarium.trace import TraceBuilder, check, read_traces
from astrarium.vocab import CommOp

if TYPE_CHECKING:
    from tests.commands import Run


def _trace(path: Path, nodes: int = 3) -> Path:
    made = TraceBuilder()
    for place in range(nodes):
        made.comp(f"layer{place % 4}.op{place}", 10, num_ops=2**40, after=[place - 1] if place else [])
    made.coll('a "quoted" name', CommOp.ALL_REDUCE, 8, after=[0], ctrl=[1])
    made.write(path)
    return path


def test_generated_families_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command("chakra_generator", ["--num_npus", "3", "--default_comm_size", "4096"]) == 0
    names = {path.name.split(".")[0] for path in tmp_path.iterdir()}
    assert len(names) == 14
    for name in names:
        traces = read_traces(tmp_path / name)
        assert traces.ranks == 3
        assert not [finding for finding in check(traces) if finding.severity == "error"], name


def test_jsonizer_writes_protobufs_json(tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    assert run_command("chakra_jsonizer", ["--input_filename", str(_trace(tmp_path / "w.0.et")), "--output_filename",
                                           str(out)]) == 0
    found, text = [], out.read_text()
    while text.strip():
        value, end = json.JSONDecoder().raw_decode(text.lstrip())
        found.append(value)
        text = text.lstrip()[end:]
    assert found[0] == {"version": "0.0.4", "attr": [{"name": "kind", "stringVal": "synthesised"}]}
    assert found[2] == {"id": "1", "name": "layer1.op1", "type": "COMP_NODE", "dataDeps": ["0"], "durationMicros": "10",
                        "attr": [{"name": "is_cpu_op", "boolVal": False},
                                 {"name": "num_ops", "int64Val": str(2**40)}]}


def test_pictures(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = str(_trace(tmp_path / "w.0.et"))
    for name in ("o.dot", "o.graphml"):
        assert run_command("chakra_visualizer", ["--input_filename", trace, "--output_filename",
                                                 str(tmp_path / name)]) == 0
    dot = (tmp_path / "o.dot").read_text()
    assert 'a \\"quoted\\" name' in dot
    assert "n1 -> n3 [arrowhead=tee]" in dot
    edges = ET.parse(tmp_path / "o.graphml").getroot().findall(".//{*}edge")
    assert len(edges) == 4
    _trace(tmp_path / "big.0.et", 500)
    said = run("trace", "graph", tmp_path / "big.0.et", "-o", tmp_path / "b.dot", "--limit", "10")
    assert (said.code, "5 scopes" in said.err) == (0, True)
    assert "125 nodes" in (tmp_path / "b.dot").read_text()
    monkeypatch.setenv("PATH", str(tmp_path))
    said = run("trace", "graph", trace, "-o", tmp_path / "o.pdf")
    assert (said.code, "apt install graphviz" in said.err) == (1, True)
    assert run("trace", "graph", trace, "-o", tmp_path / "o.svg").code == 0
    assert len(ET.parse(tmp_path / "o.svg").getroot().findall("{*}rect")) == 4


def test_a_program_named_dot_draws(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = _trace(tmp_path / "w.0.et")
    (tmp_path / "dot").write_text("#!/bin/sh\necho \"$1\"\n/bin/cat\n")
    (tmp_path / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run("trace", "graph", trace, "-o", tmp_path / "o.svg").code == 0
    assert (tmp_path / "o.svg").read_text().startswith("-Tsvg\ndigraph trace {")


def test_timeline_is_in_microseconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text("issue,npu=0,cycle=1000,node_id=7,name=COMP_NODE_x\n"
                                    "callback,npu=0,cycle=3000,node_id=7,name=COMP_NODE_x\n")
    flags = ["--input_filename", str(tmp_path / "t.csv"), "--output_filename", str(tmp_path / "o.json"), "--num_npus",
             "1", "--npu_frequency", "1000"]
    assert run_command("chakra_timeline_visualizer", flags) == 0
    event = json.loads((tmp_path / "o.json").read_text())["traceEvents"][0]
    assert (event["ts"], event["dur"], event["tid"]) == (1, 2, 3)
    (tmp_path / "t.csv").write_text("callback,npu=0,cycle=3000,node_id=7,name=x\n")
    assert run_command("chakra_timeline_visualizer", flags) == 1
    assert "before it was issued" in capsys.readouterr().err


def test_text_and_linked_traces_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.txt").write_text("DATA\n1\nl -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1024 1\n")
    assert run_command("chakra_converter", ["Text", "--input", str(tmp_path / "t.txt"), "--output",
                                            str(tmp_path / "t"), "--num-npus", "2", "--num-passes", "1"]) == 0
    assert read_traces(tmp_path / "t").ranks == 2
    trace = _trace(tmp_path / "linked.json")
    assert run_command("chakra_converter", ["PyTorch", "--input", str(trace), "--output",
                                            str(tmp_path / "w.0.et")]) == 0
    assert (tmp_path / "w.0.et").read_bytes() == trace.read_bytes()
    (tmp_path / "old.json").write_text('{"schema": "2.0", "nodes": [{"exclusive_dur": 3}]}')
    assert run_command("chakra_converter", ["PyTorch", "--input", str(tmp_path / "old.json"), "--output", "x"]) == 1
    assert "schema '2.0'" in capsys.readouterr().err


def test_usage_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        assert run_command(name, ["--help"]) == 0
        assert run_command(name, ["--nonsense"]) == 2
    assert "usage" in capsys.readouterr().out


def test_collectives_are_exported(tmp_path: Path, run: Run) -> None:
    said = run("trace", "collective", "ring", "--op", "all_reduce", "--npus", "8", "--size", "1 MB", "-o",
               tmp_path / "c", "--json")
    assert (said.code, len(json.loads(said.out)["files"])) == (0, 8)
    assert read_traces(tmp_path / "c").classes[0].comm_size.max() == 125_000
    assert run("trace", "collective", "ring", "--op", "all_reduce", "--npus", "8", "-o", tmp_path / "c.xml").code == 0
    said = run("trace", "collective", "ring", "--op", "all_reduc", "--npus", "8", "-o", tmp_path / "c.xml")
    assert (said.code, "did you mean 'all_reduce'" in said.err) == (1, True)
