"""JSON traces of Chakra's feeder become Chakra files; what has another form is named."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from astrarium.cli.chakra import run_command
from astrarium.errors import InputError
from astrarium.profile.feeder_json import feeder_trace
from astrarium.trace import read_node, read_traces
from astrarium.vocab import NodeKind

GRAPH: dict[str, Any] = {"workload_graph": [
    {"Id": 0, "Name": "mm", "NodeType": 4, "is_cpu_op": False, "runtime": 5, "data_deps": []},
    {"Id": 7, "Name": "reduce", "NodeType": "COMM_COLL_NODE", "is_cpu_op": False, "data_deps": [0], "comm_type": 0,
     "comm_size": 4096, "comm_priority": 2, "pg_name": "g"},
    {"Id": 9, "Name": "send", "NodeType": 5, "is_cpu_op": False, "data_deps": [7], "comm_size": 8, "comm_src": 0,
     "comm_dst": 1, "comm_tag": 3}]}


def test_nodes_and_attributes(tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text(json.dumps(GRAPH))
    assert run_command("chakra_converter", ["PyTorch", "--input", str(tmp_path / "g.json"), "--output",
                                            str(tmp_path / "w.0.et")]) == 0
    traces = read_traces(tmp_path / "w")
    first, second, third = (read_node(traces, 0, place) for place in range(3))
    assert (first.name, first.type, first.duration, first.data_deps) == ("mm", NodeKind.COMP, 5, ())
    assert (second.id, second.type, second.data_deps) == (7, NodeKind.COMM_COLL, (0,))
    assert {each.name: each.value for each in second.attrs} == {
        "is_cpu_op": False, "comm_type": 0, "comm_size": 4096, "comm_priority": 2, "pg_name": "g"}
    assert (third.type, third.attr("comm_dst").value, third.attr("comm_tag").value) == (NodeKind.COMM_SEND, 1, 3)


@pytest.mark.parametrize(("place", "key", "value"), [
    (0, "Id", -1), (0, "NodeType", 12), (1, "NodeType", "COMM"), (1, "data_deps", 3), (1, "data_deps", ["0"]),
    (0, "runtime", 1.5), (0, "Name", None), (2, "inputs", {"values": 1})])
def test_other_forms_are_refused(place: int, key: str, value: object) -> None:
    graph = copy.deepcopy(GRAPH)
    graph["workload_graph"][place][key] = value
    with pytest.raises(InputError, match=rf"g\.json: workload_graph\[{place}\]\.{key}"):
        feeder_trace(json.dumps(graph).encode(), "g.json")


def test_missing_keys_are_named() -> None:
    with pytest.raises(InputError, match="has no NodeType"):
        feeder_trace(b'{"workload_graph": [{"Id": 1, "Name": "x", "data_deps": []}]}', "g.json")
    with pytest.raises(InputError, match="is no list"):
        feeder_trace(b'{"workload_graph": 3}', "g.json")
