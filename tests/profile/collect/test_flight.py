"""What gloo's collectives lack in Kineto's file is filled in; needs no PyTorch."""

from __future__ import annotations

import json
import re

import pytest

from astrarium.errors import InputError, install_line
from astrarium.profile.collector.flight import Issued, completed
from astrarium.profile.link import link
from astrarium.trace._torch import torch_module
from astrarium.trace.node import decode_node
from astrarium.trace.write import node_messages


def event(name: str, start: float, number: int, **more: object) -> dict[str, object]:
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 9, "ts": start, "dur": 10,
            "args": {"Record function id": number}, **more}


def document(*events: dict[str, object]) -> bytes:
    main = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 500, "args": {}}
    config = [{"pg_name": "0", "ranks": [0, 1, 2, 3]}, {"pg_name": "7", "ranks": [1, 3]}]
    return json.dumps({"traceEvents": [main, *events],
                       "distributedInfo": {"rank": 1, "world_size": 4, "pg_config": config}}).encode()


def test_the_order_of_issue_says_which_is_which(tmp_path):
    """Two all_reduces that ran in the other order than they were issued: numbers, not times, decide."""
    data = document(event("gloo:all_reduce", 50, 12), event("gloo:all_reduce", 20, 13), event("gloo:barrier", 80, 14))
    issued = [Issued("gloo:all_reduce", "7", 100, 100, "Float"), Issued("gloo:all_reduce", "0", 8, 8, "Double"),
              Issued("gloo:barrier", "0", 0, 0, None)]
    filled, note = completed(data, issued)
    assert note is None
    path = tmp_path / "device.json"
    path.write_bytes(filled)
    result = link(None, path)
    found = {}
    for message in list(node_messages(result.data))[1:]:
        node = decode_node(message)
        if node.attr("pg_name"):
            found[node.start] = (node.attr("pg_name").value, node.attr("comm_size").value)
    assert found == {50: ("7", 400), 20: ("0", 64), 80: ("0", 0)}
    assert (result.report.rank, result.report.groups) == (1, 2)


def test_counts_that_differ_are_said_and_nothing_is_guessed():
    data = document(event("gloo:all_reduce", 50, 12))
    filled, note = completed(data, [Issued("gloo:all_reduce", "7", 1, 1, "Float")] * 2)
    assert "gloo:all_reduce (1 timed, 2 issued)" in note
    assert "Process Group Name" not in filled.decode()


def test_without_pytorch_the_error_has_the_line_that_installs_it():
    with pytest.raises(InputError, match=re.escape(install_line("torch"))):
        torch_module("torch_that_nobody_has")
