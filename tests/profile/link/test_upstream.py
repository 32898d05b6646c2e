"""Files that Chakra's own linker and converter wrote: GPU operations, durations and launches come through."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from astrarium.cli.chakra import run_command
from astrarium.errors import InputError
from astrarium.profile.link import link
from astrarium.trace import TraceBuilder, check, read_node, read_traces
from astrarium.trace.counts import statistics
from astrarium.vocab import CommOp

from .paired import columns_of, nodes_of

TENSOR = [5, 6, 0, 1024, 4, "cuda:0"]


def old(number: int, name: str, parent: int, start: int, length: int, **more: object) -> dict[str, object]:
    """A node as schema 1.0.1 has it."""
    return {"id": number, "name": name, "parent": parent, "rf_id": number, "scope": 0, "tid": 1, "seq_id": -1,
            "inputs": [TENSOR], "input_shapes": [[1024]], "input_types": ["Tensor(float)"], "outputs": [],
            "output_shapes": [], "output_types": [], "ts": start, "dur": length, **more}


def new(node: dict[str, object]) -> dict[str, object]:
    """The same as schema 1.1.1 and a newer linker have it."""
    attrs = [{"name": key, "type": "uint64", "value": node[key]} for key in ("rf_id", "scope", "tid", "seq_id")]
    kept = {key: value for key, value in node.items()
            if key not in ("rf_id", "scope", "tid", "seq_id", "dur", "parent", "inputs", "outputs", "args",
                           "input_shapes", "input_types", "output_shapes", "output_types")}
    values = {"values": node["inputs"], "shapes": [[1024]], "types": ["Tensor(float)"]}
    stream = {"stream": node["args"]["stream"]} if "args" in node else {}      # type: ignore[index]
    return {**kept, **stream, "ctrl_deps": node["parent"], "attrs": attrs, "inclusive_dur": node["dur"],
            "exclusive_dur": node["dur"], "inputs": values, "outputs": {"values": [], "shapes": [], "types": []}}


def kernel(number: int, name: str, parent: int, start: int, length: int, stream: int) -> dict[str, object]:
    return old(number, name, parent, start, length, cat="kernel", ph="X", args={"stream": stream, "device": 0})


NODES = [old(2, "aten::mm", 1, 100, 20), kernel(3, "gemm", 2, 115, 50, 7), old(4, "aten::relu", 1, 120, 10),
         kernel(5, "relu", 4, 165, 5, 7),
         old(6, "record_param_comms", 1, 130, 10, inputs=[[TENSOR], 1, 2, 0, "allreduce"]),
         kernel(7, "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", 6, 170, 30, 9)]


def written(path: Path, nodes: list[dict[str, object]], schema: str) -> Path:
    path.write_text(json.dumps({"schema": schema, "nodes": nodes}))
    return path


@pytest.mark.parametrize("form", ["1.0.1", "1.1.1-chakra.0.0.4"])
def test_gpu_operations_of_a_linked_file(tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = NODES if form == "1.0.1" else [new(node) for node in NODES]
    path = written(tmp_path / "x_plus.json", nodes, form)
    assert run_command("chakra_converter", ["PyTorch", "--input", str(path), "--output",
                                            str(tmp_path / "w.0.et")]) == 0
    assert "Chakra's linker leaves out" in capsys.readouterr().err
    counted = statistics(columns_of(tmp_path))
    assert (counted.gpu_operations, counted.recorded_us["gpu"], counted.recorded_us["host"]) == (3, 85, 40)
    assert counted.collective_bytes == {"all_reduce": 4096}
    assert {name: each["operations"] for name, each in counted.streams.items()} == {"7": 2, "9": 1}
    found = {node.name: node for node in nodes_of(tmp_path)}
    assert found["gemm"].id in found["relu"].data_deps
    assert not [each for each in check(read_traces(tmp_path / "w")) if each.severity == "error"]
    report = link(path, None).report
    assert (report.measured_us, report.replayed_us) == (100, 100)


def test_a_faster_kernel_moves_what_waits_for_it(tmp_path: Path) -> None:
    """The launches are read: the second kernel starts when the first one ends, not when it was recorded."""
    nodes = [dict(node) for node in NODES]
    assert link(written(tmp_path / "a.json", nodes, "1.0.1"), None).report.launched == 3
    nodes[1]["parent"] = 99
    missing = link(written(tmp_path / "b.json", nodes, "1.0.1"), None).report.missing
    assert any("1 GPU operations below no host node" in text for text in missing)


@pytest.mark.parametrize(("key", "value"), [("ts", "x"), ("dur", -3), ("dur", None)])
def test_other_forms_are_refused(tmp_path: Path, key: str, value: object) -> None:
    nodes = [dict(node) for node in NODES]
    nodes[1][key] = value
    with pytest.raises(InputError, match="node 3"):
        link(written(tmp_path / "a.json", nodes, "1.0.1"), None)


@pytest.mark.shared
def test_a_real_linked_file(shared: Path, tmp_path: Path) -> None:
    path = shared / "traces" / "real" / "upstream_linked_dlrm_eg_0_plus.json.gz"
    if not path.exists():
        pytest.skip("the reference folder has no traces/real")
    assert run_command("chakra_converter", ["PyTorch", "--input", str(path), "--output",
                                            str(tmp_path / "w.0.et")]) == 0
    counted = statistics(columns_of(tmp_path))
    assert counted.gpu_operations == 261
    with gzip.open(path) as file:
        gpu = [node for node in json.load(file)["nodes"] if "cat" in node]
    overlaps = 5 + 1 + 2 + 4 + 7 + 49 + 20      # us by which the seven cut operations overlap the next of their stream
    assert counted.recorded_us["gpu"] == sum(node["dur"] for node in gpu) - overlaps
    assert counted.collectives == {"all_reduce": 3, "all_to_all": 4}      # the fifth is of unequal parts: messages


@pytest.mark.shared
def test_gpu_nodes_by_is_cpu_op(shared: Path, tmp_path: Path) -> None:
    path = shared / "traces" / "real" / "upstream_converted.0.et.gz"
    if not path.exists():
        pytest.skip("the reference folder has no traces/real")
    traces = read_traces([str(path)])
    counted = statistics(traces.classes[0])
    nodes = [read_node(traces, 0, place) for place in range(counted.nodes)]
    micros = sum(node.duration for node in nodes if node.attr("is_cpu_op").value is False)
    assert (counted.gpu_operations, counted.host_nodes, counted.recorded_us["gpu"]) == (1216, 2448, micros)
    assert counted.collectives == {"all_reduce": 5, "broadcast": 2, "unspecified": 14}


def test_what_counts_as_the_accelerators(tmp_path: Path) -> None:
    """By streams where there are some, else by `is_cpu_op`; collectives beside host operators only are the host's."""
    gloo = TraceBuilder()
    gloo.comp("aten::mm", 5, cpu=True)
    gloo.coll("gloo:all_reduce", CommOp.ALL_REDUCE, 8)
    plain = TraceBuilder()
    plain.comp("aten::mm", 5, cpu=True)
    plain.comp("gemm", 7)
    plain.coll("nccl", CommOp.ALL_REDUCE, 8, duration=9)
    lanes = TraceBuilder()
    lanes.comp("gemm", 7, stream=3)
    lanes.coll("gloo:all_reduce", CommOp.ALL_REDUCE, 8)
    for name, made, count, micros in (("gloo", gloo, 0, 0), ("plain", plain, 2, 16), ("lanes", lanes, 1, 7)):
        made.write(tmp_path / f"{name}.0.et")
        counted = statistics(read_traces(tmp_path / name).classes[0])
        assert (counted.gpu_operations, counted.recorded_us["gpu"]) == (count, micros), name
