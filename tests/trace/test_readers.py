"""Traces of other forms, known by their content: the built-in ones, and a plug-in, through every verb."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tests.commands import PlugIn, Run

from astrarium.errors import InputError
from astrarium.trace import Metadata, Node, read_traces, write_trace
from astrarium.trace.rank_files import files_by_rank
from astrarium.trace.read import find_traces, head_of
from astrarium.trace.readers import Read, TraceReader, reader_name
from astrarium.trace.write import encode_trace

EVENTS = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 40, "args": {}}]
HOST = {"schema": "1.0.2-chakra.0.0.4", "nodes": [
    {"id": 1, "name": "root", "ctrl_deps": 0, "attrs": []},
    {"id": 2, "name": "aten::mm", "ctrl_deps": 1, "attrs": []}]}
FEEDER = {"workload_graph": [{"Id": 1, "Name": "mm", "NodeType": 4, "runtime": 5, "data_deps": []}]}
HLO = """module @m {
  func.func public @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.add %a, %a : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
"""
FORMS = {
    "chakra": encode_trace(Metadata(), [Node(1, "mm", 4, duration=5)]),
    "kineto": json.dumps({"deviceProperties": ["x" * 70_000], "traceEvents": EVENTS}).encode(),
    "host": json.dumps(HOST, indent=1).encode(),
    "feeder": json.dumps(FEEDER).encode(),
    "stablehlo": HLO.encode(),
    "jsonl": b'{"version": "0.0.4"}\n{"id": 1, "name": "mm", "type": "COMP", "duration": 5}\n',
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_known_by_its_content(form: str, tmp_path: Path) -> None:
    for name, data in (("plain", FORMS[form]), ("packed", gzip.compress(FORMS[form]))):
        (tmp_path / name).write_bytes(data)
        assert reader_name(head_of(str(tmp_path / name))) == form
        assert read_traces(tmp_path / name).classes[0].nodes > 0
    (tmp_path / "w_0.x").write_bytes(FORMS[form])
    (tmp_path / "w_1.x").write_bytes(FORMS[form])
    assert read_traces(tmp_path / "w_*.x").ranks == 2


def test_what_no_reader_knows(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"spans": []}')
    with pytest.raises(InputError, match=r"""begins with '{"spans": \[\]}': .*one of chakra .*; kineto .*; host"""):
        read_traces(tmp_path / "t.json")
    (tmp_path / "t.txt").write_text("DATA\n1\nl -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 8 5\n")
    said = run("check", tmp_path / "t.txt")
    assert (said.code, "all ranks at once; expected traces that `astrarium trace convert" in said.out) == (1, True)
    assert run("trace", "convert", tmp_path / "t.txt", "--npus", 2, "-o", tmp_path / "t").code == 0
    assert "--npus: is missing" in run("trace", "convert", tmp_path / "t.txt", "-o", tmp_path / "u").err
    said = run("trace", "convert", tmp_path / "t.0.et", "--npus", 2, "-o", tmp_path / "u")
    assert "--npus: has no effect here; expected a text workload" in said.err
    assert "t.0.et is chakra" in said.err


def test_link_takes_its_files_in_any_order(run: Run, tmp_path: Path) -> None:
    host, device = tmp_path / "a", tmp_path / "b"
    host.write_bytes(FORMS["host"])
    device.write_bytes(FORMS["kineto"])
    made = []
    for number, files in enumerate(([host, device], [device, host], [device])):
        assert run("trace", "link", *files, "-o", tmp_path / f"w{number}").code == 0
        made.append((tmp_path / f"w{number}.0.et").read_bytes())
    assert made[0] == made[1] != made[2]
    for path, form in ((host, "host"), (device, "kineto")):
        said = run("trace", "link", path, path, "-o", tmp_path / "w")
        assert (said.code, f"{path}: is of form {form}, as {path} is" in said.err) == (1, True)


def _rows(data: bytes | bytearray, where: str, rank: int) -> Read:
    """A line a node: its microseconds."""
    times = [int(line) for line in data.split(b"\n")[1:] if line]
    nodes = [Node(number, f"n{number}", 4, data_deps=(number - 1,) if number else (), duration=time)
             for number, time in enumerate(times)]
    return Read(encode_trace(Metadata(), nodes), (f"{where}: names are made up",))


ROWS = TraceReader(lambda head: head.startswith(b"rows\n"), _rows)


def test_a_plug_in(plug_in: PlugIn, run: Run, tmp_path: Path) -> None:
    plug_in({"reader.rows": f"{__name__}:ROWS"})
    assert "rows" in run("list", "reader").out
    path, same = tmp_path / "t.rows", tmp_path / "same.0.et"
    path.write_text("rows\n5\n7\n")
    write_trace(same, Metadata(), [Node(0, "n0", 4, duration=5), Node(1, "n1", 4, data_deps=(0,), duration=7)])
    assert "12 us" in run("run", "--trace", path).out
    for verb in (["show"], ["trace", "show"], ["check"], ["convert", "--to", "jsonl"], ["trace", "diff", same]):
        assert run(*verb, path).code == 0, verb
    said = run("trace", "convert", path, "-o", tmp_path / "made")
    assert (said.code, "names are made up" in said.err) == (0, True)
    assert (tmp_path / "made.0.et").read_bytes() == same.read_bytes()
    (tmp_path / "t.txt").write_text("column\n5\n")
    assert "; rows (`astrarium list reader`)" in run("trace", "show", tmp_path / "t.txt").err


def _fails(*_: object) -> bool:
    raise KeyError("rows")


SNIFF_RAISES = TraceReader(_fails, _rows)
READ_RAISES = TraceReader(lambda head: head.startswith(b"rows"), _fails)       # type: ignore[arg-type]
READS_NOTHING = TraceReader(lambda head: head.startswith(b"rows"), lambda *_: 7)       # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(("name", "message"), [
    ("SNIFF_RAISES", "raised KeyError: 'rows'"), ("READ_RAISES", "raised KeyError: 'rows'"),
    ("READS_NOTHING", "read() gave an object of int"), ("FORMS", "is an object of dict, not a TraceReader")])
def test_a_wrong_plug_in_is_named_where_it_is_asked(plug_in: PlugIn, run: Run, tmp_path: Path, name: str,
                                                    message: str) -> None:
    plug_in({"reader.mine": f"{__name__}:{name}"})
    (tmp_path / "t").write_text("rows 5")
    said = run("trace", "show", tmp_path / "t")
    assert (said.code, f"reader plug-in mine: {message}" in said.err) == (1, True), said.err
    (tmp_path / "k.json").write_bytes(FORMS["kineto"])      # known before any plug-in is asked
    assert run("trace", "show", tmp_path / "k.json").code == 0


@pytest.mark.parametrize(("data", "message"), [
    (b"{}", "begins with '{}': not a trace of a known form"), (b"\xff\x00", "not a Chakra execution trace"),
    (None, "does not exist"), (b"", "the file is empty")])
def test_convert_says_what_is_wrong_with_the_file(run: Run, tmp_path: Path, data: bytes | None, message: str) -> None:
    path = tmp_path / "t.json"
    if data is not None:
        path.write_bytes(data)
    said = run("trace", "convert", path, "-o", tmp_path / "u")
    assert (said.code, message in said.err, str(path) in said.err) == (1, True, True), said.err


def test_what_a_pattern_lacks(tmp_path: Path) -> None:
    for rank in (0, 1, 3):
        (tmp_path / f"k_{rank}.x").write_bytes(FORMS["chakra"])
    with pytest.raises(InputError, match=r"k_2\.x does not exist; ranks that have one: 0-1, 3"):
        read_traces(tmp_path / "k_*.x", 4)
    with pytest.raises(InputError, match=r"k_\*\.x does not exist; .*did you mean '.*k_0\.x'"):
        read_traces([tmp_path / "k_*.x"])
    with pytest.raises(InputError, match=r"k_0\.x is the trace of one rank, for 4 ranks; expected .*pattern"):
        read_traces(tmp_path / "k_0.x", 4)


@pytest.mark.parametrize(("pattern", "ranks"), [
    ("k_*.x", [0, 1, 2, 10, 11]), ("k_[01].x", [0, 1]), ("k_?.x", [0, 1, 2]), ("k_1?.x", [10, 11]),
    ("k_[!0].x", [1, 2]), ("?_1[0-9].x", [10, 11]), ("[k]_*.x", [0, 1, 2, 10, 11]), ("k_[5-9].x", [])])
def test_ranks_of_a_pattern(tmp_path: Path, pattern: str, ranks: list[int]) -> None:
    for name in ("k_0.x", "k_1.x", "k_2.x", "k_10.x", "k_11.x", "k_03.x", "k_a.x", "k_1.xy"):
        (tmp_path / name).write_bytes(b"")
    assert files_by_rank(f"{tmp_path}/{pattern}") == {rank: f"{tmp_path}/k_{rank}.x" for rank in ranks}


def test_names_with_brackets_are_files_and_prefixes_first(tmp_path: Path) -> None:
    for name in ("a[1].et", "b[1].0.et", "b[1].1.et", "b1.0.et", "c1_5", "c2_5"):
        (tmp_path / name).write_bytes(FORMS["chakra"])
    assert find_traces(f"{tmp_path}/a[1].et") == [f"{tmp_path}/a[1].et"]
    assert list(files_by_rank(f"{tmp_path}/b[1]")) == [0, 1]
    with pytest.raises(InputError, match=r"two files of rank 5: c1_5 and c2_5; expected .*'host_\[01\]\.json'"):
        files_by_rank(f"{tmp_path}/c?_*")
