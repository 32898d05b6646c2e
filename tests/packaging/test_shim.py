"""The optional distribution `shim/`: Chakra's import paths and commands, and traces that both sides read alike."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from astrarium.cli.chakra import COMMANDS
from astrarium.trace import read_node, read_traces
from astrarium.trace.samples import sample_traces

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SHIM = Path(__file__).parents[2] / "shim" / "src"
WRITE = """
from chakra.schema.protobuf.et_def_pb2 import ALL_REDUCE, COMM_COLL_NODE, AttributeProto, GlobalMetadata, Node, NodeType
from chakra.src.third_party.utils.protolib import decodeMessage, encodeMessage, openFileRd
from chakra.et_def.et_def_pb2 import BoolList
import sys
with open(sys.argv[1], "wb") as et:
    encodeMessage(et, GlobalMetadata(version="0.0.4"))
    node = Node(id=3, name="ar" * 100, type=COMM_COLL_NODE, data_deps=[1, 2], duration_micros=7)
    node.attr.append(AttributeProto(name="comm_type", int64_val=ALL_REDUCE))
    node.attr.append(AttributeProto(name="involved_dim", bool_list=BoolList(values=[True, False])))
    encodeMessage(et, node)
kinds = 0
with openFileRd(sys.argv[2]) as et:
    metadata, node = GlobalMetadata(), Node()
    assert decodeMessage(et, metadata) and decodeMessage(et, node) and not decodeMessage(et, Node())
    assert NodeType.Name(node.type) == "METADATA_NODE"
    print(len({attr.WhichOneof("value") for attr in node.attr}))
"""


def test_scripts_that_import_chakra_run(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    name, data = next(sample_traces(1))
    (tmp_path / name).write_bytes(data)
    environment = {**os.environ, "PYTHONPATH": str(SHIM)}
    done = subprocess.run([sys.executable, "-c", WRITE, str(tmp_path / "w.0.et"), str(tmp_path / name)],
                          capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (0, "30\n"), done.stderr
    traces = read_traces(tmp_path / "w")
    node = read_node(traces, 0, 0)
    assert (node.id, node.data_deps, node.duration, len(node.attrs)) == (3, (1, 2), 7, 2)


def test_it_is_not_part_of_astrarium(root: Path) -> None:
    """Installed beside Chakra, neither replaces the other's commands or modules."""
    about = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert list(about["project"]["scripts"]) == ["astrarium"]
    assert about["tool"]["scikit-build"]["wheel"]["packages"] == ["src/astrarium"]


def test_its_commands_are_those_that_there_are(root: Path) -> None:
    scripts = tomllib.loads((root / "shim" / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert scripts.keys() == COMMANDS.keys()
    for target in scripts.values():
        module, name = target.split(":")
        assert callable(getattr(importlib.import_module(module), name))
