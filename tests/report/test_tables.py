"""Tables, summaries, ASTRA-sim's lines, whole files and traces as JSON lines."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium.astra_sim.lines import BLOCK, json_text, lines
from astrarium.config.whole import write_whole
from astrarium.engine import Outcome
from astrarium.errors import InputError
from astrarium.report.tables.table import Table, print_tables, text_of
from astrarium.report.trace.json_lines import lines_of, trace_of
from astrarium.report.trace.names import node_names
from astrarium.trace import Attribute, IOInfo, Metadata, Node, TraceBuilder, encode_trace, traces_of_bytes
from astrarium.trace.write import node_messages


def test_columns_are_aligned() -> None:
    table = Table("title", "<>", [("a", "1"), ("long", "1,000")], ("name", "value"))
    assert text_of(table) == "title\n  name  value\n  a         1\n  long  1,000"
    assert text_of(Table("", "<<", [("a", ""), ("bb", "c")])) == "a\nbb  c"
    assert text_of(Table("none", "<", [])) == "none"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bold_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table("title", "<", [("a",)], ("head",))
    plain, bold, quiet = io.StringIO(), Terminal(), Terminal()
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_tables([table, table], plain)
    print_tables([table], bold)
    monkeypatch.setenv("NO_COLOR", "1")
    print_tables([table, table], quiet)
    assert plain.getvalue() == quiet.getvalue() == "title\n  head\n  a\n\ntitle\n  head\n  a\n"
    assert bold.getvalue() == "\x1b[1mtitle\x1b[0m\n\x1b[1m  head\x1b[0m\n  a\n"


def outcome(row: list[int], finish: list[int], busy: list[int]) -> Outcome:
    """An Outcome that has times only (ns here, ps there)."""
    none, short = np.zeros(0, np.int64), np.zeros(0, np.int32)
    ends, work = (np.array(values, np.int64) * 1000 for values in (finish, busy))
    return Outcome(np.array(row, np.int32), ends, work, none, none, none, short, short, short, none, none, 0, none, 7,
                   len(finish) < len(row), "because")


@pytest.mark.parametrize("ranks", [1, 3, BLOCK, BLOCK + 1, 2 * BLOCK])
def test_astra_sim_text_across_blocks(ranks: int) -> None:
    row = [rank % 2 if rank else 0 for rank in range(ranks)]
    made = outcome(row, [10, 20], [4, 25])
    found = json.loads("".join(json_text(made, {"start": 0.1234567})))
    assert [r["rank"] for r in found["ranks"]] == list(range(ranks))
    assert [r["finish_ns"] for r in found["ranks"]] == [10 + 10 * r for r in row]
    assert [r["exposed_comm_ns"] for r in found["ranks"]] == [[6, -5][r] for r in row]
    assert (found["makespan_ns"], found["events"], found["classes"]) == (20, 7, 2)
    assert (found["cpu_ns"], found["unfolded_because"]) == ({"start": 123456700}, "because")
    assert found["how"] == []
    text = "".join(lines(made)).splitlines()
    assert len(text) == ranks
    assert text[0] == "sys[0] finished, 10 cycles, exposed communication 6 cycles."
    last = ["10 cycles, exposed communication 6", f"20 cycles, exposed communication {2**64 - 5}"][row[-1]]
    assert text[-1] == f"sys[{ranks - 1}] finished, {last} cycles."


def test_no_ranks() -> None:
    assert json.loads("".join(json_text(outcome([], [], []), {})))["ranks"] == []


def test_files_are_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), write_whole(str(path)) as stream:
        stream.writelines(1 // number * b"x" for number in (1, 0))
    assert [p.name for p in tmp_path.iterdir()] == ["f"]
    assert path.read_text() == "old"
    with write_whole(str(path)) as stream:
        stream.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("name", ["no/f", "", "."])
def test_files_that_cannot_be_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError), write_whole(os.path.join(tmp_path, name)) as stream:
        stream.write(b"x")
    assert list(tmp_path.iterdir()) == []


TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
ATTRIBUTES = st.one_of(
    st.builds(Attribute, TEXT, st.integers(-2**63, 2**63 - 1), st.just("int64_val"), TEXT),
    st.builds(Attribute, TEXT, st.lists(st.integers(0, 2**32 - 1), max_size=3).map(tuple), st.just("uint32_list")),
    st.builds(Attribute, TEXT, st.floats(allow_nan=False), st.just("double_val")),
    st.builds(Attribute, TEXT, st.booleans(), st.just("bool_val")),
    st.builds(Attribute, TEXT, st.binary(max_size=4), st.just("bytes_val")),
    st.builds(Attribute, TEXT, st.lists(st.binary(max_size=3), max_size=3).map(tuple), st.just("bytes_list")),
    st.builds(Attribute, TEXT, st.lists(TEXT, max_size=3).map(tuple), st.just("string_list")),
    st.builds(Attribute, TEXT))
IDS = st.integers(0, 2**64 - 1)
INFOS = st.none() | st.builds(IOInfo, TEXT, TEXT, TEXT)
DEPS = st.lists(IDS, max_size=3).map(tuple)
NODES = st.builds(Node, IDS, TEXT, st.integers(0, 9), DEPS, DEPS, IDS, IDS, INFOS, INFOS,
                  st.lists(ATTRIBUTES, max_size=3).map(tuple), st.sampled_from([b"", b"\xa0\x06\x01"]))


@given(st.builds(Metadata, TEXT, st.lists(ATTRIBUTES, max_size=2).map(tuple)), st.lists(NODES, max_size=3))
def test_json_lines_keep_every_field(metadata: Metadata, nodes: list[Node]) -> None:
    file = encode_trace(metadata, nodes)
    text = list(lines_of(node_messages(file)))
    assert len(text) == 1 + len(nodes)
    back: Any = trace_of(text, "t")
    assert encode_trace(*back) == file


def test_json_lines_of_nothing() -> None:
    assert list(lines_of([])) == []


def test_names_of_ranks_of_one_class() -> None:
    """Ranks that differ in the names of communication nodes only are one class; each keeps its own names."""
    def trace(rank: int) -> bytes:
        made = TraceBuilder()
        made.send(f"to {1 - rank}", 1 - rank, 8, after=[made.comp("work", 1)])
        made.recv(f"from {1 - rank}", 1 - rank, 8)
        return made.encode()

    traces = traces_of_bytes([trace(0), trace(1)])
    for rank in range(2):
        assert list(node_names(traces, rank)) == ["work", f"to {1 - rank}", f"from {1 - rank}"]
