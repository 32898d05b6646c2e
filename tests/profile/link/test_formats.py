"""Every form of host and device trace that is about: schemas, suffixes, gzip, old names, what JSON does not allow."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from astrarium.errors import InputError
from astrarium.profile.link import link
from astrarium.profile.link.host import read_host
from astrarium.profile.link.wire import Encoder, io_text, number
from astrarium.trace._wire import varint
from astrarium.trace.counts import statistics
from astrarium.trace.node import IOInfo, Node, attribute, encode_node

from .machine import PROGRAMS, node, run
from .paired import columns_of, event, kernel, linked, nodes_of, of_events, pair

SCHEMAS = ("1.0.1", "1.0.2-chakra.0.0.4", "1.0.3-chakra.0.0.4", "1.1.0-chakra.0.0.4", "1.1.1-chakra.0.0.4",
           "1.1.0-chakra.1.0.0", "1.1.1-chakra.1.0.0", "1.1.1")


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("compress", [False, True])
def test_schemas(tmp_path: Path, schema: str, compress: bool) -> None:
    machine = run(PROGRAMS["graphs"])
    report = link(*pair(tmp_path, machine, schema=schema, compress=compress)).report
    assert (report.schema, report.joined, report.joined_by) == (schema, 4, "rf_id")


def test_the_oldest_schema_has_flat_nodes() -> None:
    old = {"id": 7, "name": "aten::mm", "rf_id": 3, "parent": 2, "fw_parent": 0, "seq_id": -1, "scope": 0, "tid": 1,
           "fw_tid": 0, "op_schema": "mm()", "inputs": [[1, 2, 0, 6, 4, "cuda:0"]], "input_shapes": [[2, 3]],
           "input_types": ["Tensor(float)"], "outputs": [], "output_shapes": [], "output_types": []}
    host = read_host(json.dumps({"schema": "1.0.1", "nodes": [old]}).encode(), "h")
    assert (host.rf_id[0], host.parent[0], host.tid[0], host.op_schema[0]) == (3, 2, 1, "mm()")
    inputs, outputs = host.tensors(0)
    assert (bytes(inputs.shapes), bytes(outputs.values)) == (b"[[2, 3]]", b"[]")


@pytest.mark.parametrize(("shapes", "strides", "kept"), [
    ([[2, 3], [3, 4]], [[3, 1], [1, 3]], "[[3, 1], [1, 3]]"),      # the second is transposed
    ([[2, 3], [1, 4]], [[3, 1], [9, 1]], None),                    # a dimension of 1 may have any stride
    ([[2, 3], []], [[3, 1], []], None),
    ([[[2, 3], [2, 3]]], [[[3, 1], [1, 2]]], "[[[3, 1], [1, 2]]]"),
    ([[2, 0]], [[7, 7]], None), ([[2]], ["x"], None), ([[2]], [], None)])
def test_strides_are_kept_of_what_is_not_contiguous(tmp_path: Path, shapes: Any, strides: Any, kept: Any) -> None:
    new = node(2, "aten::mm", 1, 5, ([1, 2, 0, 6, 4, "cuda:0"],) * len(shapes))
    new["inputs"] |= {"shapes": shapes, "strides": strides}
    of_events(tmp_path, [event("cpu_op", "aten::mm", 0, 5, Record_function_id=5)], [new])
    found = next(each for each in nodes_of(tmp_path) if each.name == "aten::mm").attr("input_strides")
    assert (None if found is None else found.value) == kept


@pytest.mark.parametrize("schema", ["2.0.0", "1.2.0", "", "x"])
def test_other_schemas_are_refused(tmp_path: Path, schema: str) -> None:
    host, device = pair(tmp_path, run(PROGRAMS["graphs"]), schema=schema)
    with pytest.raises(InputError, match=r"host\.json: schema .*1\.0\.1 to 1\.1\.1"):
        link(host, device)


def test_categories_of_before_2022(tmp_path: Path) -> None:
    report = of_events(tmp_path, [
        event("Operator", "aten::mm", 0, 50), event("Runtime", "cudaLaunchKernel", 5, 5, correlation=3),
        {**kernel("sgemm", 20, 10, 3), "cat": "Kernel"}, {**kernel("Memcpy HtoD", 40, 2, 4), "cat": "Memcpy"},
        {**kernel("Memset (Device)", 45, 2, 5), "cat": "Memset"}]).report
    assert (report.gpu_operations, report.gpu_memsets, report.operators, report.launched) == (2, 1, 1, 1)
    assert any("2 GPU operations whose launching call" in what for what in report.missing)


def test_what_json_does_not_allow_is_mended(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": [kernel("k", 1, 2, 3, occupancy=7), kernel("j", 5, 2, 4)]})
    text = text.replace('"occupancy": 7', '"occupancy": -nan, "b": Infinity, "c": [NaN, inf]')
    text = text.replace('"j"', '"C:\\dir\\x"')
    (tmp_path / "d.json").write_bytes(text.encode().replace(b'"k"', b'"k\xff\x01"'))
    assert link(None, tmp_path / "d.json").report.gpu_operations == 2


def test_a_bare_list_of_events_and_texts_for_numbers(tmp_path: Path) -> None:
    made = [event("cuda_runtime", "cudaLaunchKernel", 0, 5, correlation="9"), kernel("k", 7, 2, 9)]
    made[1]["args"] |= {"stream": "7", "correlation": "9"}
    made[1]["ts"] = "7.5"
    (tmp_path / "d.json").write_text("\n  " + json.dumps(made))
    assert link(None, tmp_path / "d.json").report.launched == 1


def test_join_by_name_where_there_are_no_record_ids(tmp_path: Path) -> None:
    nodes = [node(2, "aten::mm", 1, 5), node(3, "aten::mm", 1, 6), node(4, "aten::add", 1, 7)]
    report = of_events(tmp_path, [event("cpu_op", "aten::mm", 10, 5), event("cpu_op", "aten::mm", 0, 5)], nodes).report
    assert (report.joined, report.joined_by) == (2, "name and order")
    found = [each.attr("rf_id").value for each in nodes_of(tmp_path) if each.name == "aten::mm"]
    assert found == [5, 6]


def test_a_host_trace_of_one_step_fits_several(tmp_path: Path) -> None:
    nodes = [node(2, "aten::mm", 1, 5), node(3, "aten::mm", 1, 6)]
    report = of_events(tmp_path, [event("cpu_op", "aten::mm", 10.0 * turn, 5) for turn in range(6)], nodes).report
    assert (report.joined, report.joined_by) == (2, "name and order")
    assert [each.attr("rf_id").value for each in nodes_of(tmp_path) if each.name == "aten::mm"] == [5, 6] * 3


def test_host_nodes_without_a_time_hang_on_their_caller(tmp_path: Path) -> None:
    nodes = [node(2, "aten::mm", 1, 5), node(3, "aten::inner", 2, 6), node(4, "aten::innermost", 3, 7)]
    of_events(tmp_path, [event("cpu_op", "aten::mm", 0, 5, Record_function_id=5)], nodes)
    found = {each.name: each for each in nodes_of(tmp_path)}
    assert found["aten::inner"].ctrl_deps == (found["aten::mm"].id,)
    assert found["aten::innermost"].ctrl_deps == (found["aten::inner"].id,)
    assert (found["aten::inner"].duration, found["aten::mm"].duration) == (0, 5)


def test_tensors_are_kept_as_chakra_prints_them(tmp_path: Path) -> None:
    values = ([7, 8, 0, 64, 4, "cuda:0"], "it's, \"x\"", True, None, 1.5, [[-1]])
    of_events(tmp_path, [event("cpu_op", "aten::mm", 0, 5, Record_function_id=5)], [node(2, "aten::mm", 1, 5, values)])
    found = next(each for each in nodes_of(tmp_path) if each.name == "aten::mm")
    assert found.inputs is not None
    assert found.inputs.values == str(list(values))
    assert found.inputs.shapes == "[[], [], [], [], [], []]"


@pytest.mark.parametrize("value", [[], [1, 2], ["a", "b c"], ["GenericList[Tensor(float),Tensor(float)]"], [[1], ["é"]],
                                   ["it's"], [True, None], [-1.5e300]])
def test_io_text_is_pythons(value: list[Any]) -> None:
    for text in (json.dumps(value), json.dumps(value, separators=(",", ":")), json.dumps(value, ensure_ascii=False)):
        assert io_text(text.encode()).decode() == str(value)


def test_the_fast_encoder_is_the_general_one() -> None:
    encoder = Encoder()
    info = encoder.info(8, (b"[1]", b"[[]]", b'["Int"]'))
    fast = encoder.node(300, "aten::mm", 4, (2,), (1, 200), 17, 70000, (info,),
                        (encoder.same("is_cpu_op", True), encoder.whole("rf_id", 12345), encoder.whole("seq_id", -1)))
    slow = encode_node(Node(300, "aten::mm", 4, (2,), (1, 200), 17, 70000, IOInfo("[1]", "[[]]", "['Int']"), None, (
        attribute("is_cpu_op", True), attribute("rf_id", 12345), attribute("seq_id", -1))))
    assert fast.endswith(slow)
    assert len(fast) == len(slow) + 1


def test_statistics_of_a_linked_trace(tmp_path: Path) -> None:
    machine = run(PROGRAMS["two_streams"])
    report = linked(tmp_path, machine).report
    counted = statistics(columns_of(tmp_path)).plain()
    assert counted["nodes"] == report.nodes
    assert (counted["gpu_operations"], counted["gpu_memsets"]) == (report.gpu_operations, 0)
    assert counted["collectives"] == {"all_reduce": 12}
    assert counted["collective_bytes"] == {"all_reduce": 12 * 4000}
    assert counted["streams"] == {"7": {"operations": 75, "recorded_ns": 3000 * (12 * 40 + 12 * 90 + 30)},
                                  "20": {"operations": 12, "recorded_ns": 12 * 300_000}}
    assert counted["metadata"]["kind"] == "profiled"
    assert json.loads(json.dumps(counted)) == counted


def test_gzip_of_several_members(tmp_path: Path) -> None:
    host, device = pair(tmp_path, run(PROGRAMS["graphs"]))
    text = device.read_bytes()
    device.write_bytes(gzip.compress(text[:1000]) + gzip.compress(text[1000:]) + b"\0" * 7)
    assert link(host, device).report.gpu_operations == 120


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16383, 16384, 2**21 - 1, 2**21, 2**28 - 1, 2**28, 2**63 - 1, -1, -7])
def test_numbers_of_any_length(value: int) -> None:
    assert number(value) == varint(value)
