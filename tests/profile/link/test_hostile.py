"""Input that nobody vouches for: a clear error or a valid trace, never another exception."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astrarium.errors import InputError
from astrarium.profile.link import Linked, link
from astrarium.trace import check, read, traces_of_bytes

from .machine import PROGRAMS, Json, node, run
from .paired import event, kernel, pair

CALLS = ("cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaStreamWaitEvent",
         "cudaEventRecord", "cudaEventSynchronize", "hipStreamSynchronize")
NAMES = ("aten::mm", "ProfilerStep#1", "gloo:all_reduce", "gloo:send", "nccl:all_gather", "record_param_comms",
         "c10d::send", "## process_group:init ##", "", "\x00", "ncclDevKernel_SendRecv(x)", "ncclKernel_Broadcast_RING")
LARGE = (2**31, 2**53, 2**63, 2**64, 10**30, -1, 1e300, 0.25, "7", "")
NUMBERS = st.one_of(st.integers(-3, 40), st.sampled_from(LARGE))
ODD = st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=4), st.lists(NUMBERS, max_size=3),
                st.dictionaries(st.text(max_size=3), NUMBERS, max_size=2))
TIMES = st.one_of(st.integers(0, 300), st.floats(0, 300), NUMBERS)


def valid(found: Linked) -> None:
    """What every linked trace must be."""
    traces = traces_of_bytes([found.data])
    columns = traces.classes[0]
    assert columns.nodes == found.report.nodes
    for ptr, dep in ((columns.data_ptr, columns.data_dep), (columns.ctrl_ptr, columns.ctrl_dep)):
        owner = np.repeat(columns.node_id, np.diff(ptr))
        assert np.isin(dep, columns.node_id).all()
        assert (dep < owner).all()
    assert (np.diff(columns.node_id.astype(np.int64)) > 0).all()
    codes = {each.code for each in check(traces)} - {"member_outside", "not_member"}
    assert not codes & {"cycle", "unreachable", "dangling_data_dep", "dangling_ctrl_dep", "duplicate_id", "wrong_type",
                        "comm_on_cpu", "missing_comm_type", "missing_comm_size", "unknown_comm_type", "negative_size",
                        "missing_comm_src", "missing_comm_dst", "missing_comm_tag"}


def attempt(folder: Path, host: bytes | None, device: bytes | None) -> Linked | None:
    """Links; None where that was refused in words."""
    paths: list[Path | None] = []
    for name, data in (("host.json", host), ("device.json", device)):
        paths.append(None if data is None else folder / name)
        if data is not None:
            (folder / name).write_bytes(data)
    said = ""
    try:
        found = link(*paths)
    except InputError as error:
        said = str(error)
    if said:
        assert "\n" not in said
        return None
    valid(found)
    return found


@st.composite
def events(draw: st.DrawFn) -> Json:
    cat = draw(st.sampled_from(["cpu_op", "user_annotation", "cuda_runtime", "kernel", "gpu_memcpy", "gpu_memset",
                                "cuda_sync", "Operator", "other"]))
    names = CALLS if cat == "cuda_runtime" else NAMES if cat != "cuda_sync" else (
        "Stream Wait Event", "Event Sync", "Stream Sync", "Context Sync")
    made = event(cat, draw(st.sampled_from(names)), draw(TIMES), draw(TIMES), draw(st.integers(0, 3)),
                 draw(st.integers(0, 2)))
    keys = ("correlation", "External id", "Record function id", "stream", "device", "wait_on_stream", "In msg nelems",
            "wait_on_cuda_event_record_corr_id", "Group size", "Src Rank", "Dst Rank", "graph node id")
    for key in keys:
        if draw(st.booleans()):
            made["args"][key] = draw(NUMBERS)
    if draw(st.booleans()):
        made["args"] |= {"Collective name": draw(st.sampled_from(["allreduce", "send", "recv", "barrier", "?"])),
                         "dtype": draw(st.sampled_from(["Float", "Half", "?"])),
                         "Process Group Name": draw(st.sampled_from(["0", "1", "mesh"])),
                         "Process Group Ranks": draw(st.sampled_from(["[0, 1]", "[0, 0]", "[0, ...]", "x", "[-1]"]))}
    if draw(st.integers(0, 30)) == 0:
        made[draw(st.sampled_from(["ph", "cat", "name", "ts", "dur", "args", "tid"]))] = draw(ODD)
    return made


@st.composite
def host_nodes(draw: st.DrawFn) -> list[Json]:
    nodes = [node(number, draw(st.sampled_from(NAMES)), draw(st.integers(0, 12)), draw(st.integers(0, 12)),
                  draw(st.sampled_from([(), ([[1, 2, 0, 10, 4, "cpu"]],), (3, "send", ["0", "x"]), ("allreduce",),
                                        ([[1, 2, 0, 2**63, 2**63, "cpu"]], 5, "recv")])), draw(st.integers(0, 2)))
             for number in draw(st.lists(st.integers(0, 20), max_size=12, unique=draw(st.booleans())))]
    if nodes and draw(st.integers(0, 10)) == 0:
        nodes[0][draw(st.sampled_from(["id", "name", "ctrl_deps", "inputs", "outputs", "attrs"]))] = draw(ODD)
    return nodes


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
          deadline=None)
@given(st.lists(events(), max_size=25), st.one_of(st.none(), host_nodes()), st.one_of(st.just({}), ODD))
def test_any_events_and_nodes(tmp_path: Path, found: list[Json], nodes: list[Json] | None, more: Any) -> None:
    host = None if nodes is None else json.dumps({"schema": "1.0.2-chakra.0.0.4", "nodes": nodes}).encode()
    attempt(tmp_path, host, json.dumps({"traceEvents": found, "distributedInfo": more}).encode())


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_damaged_files(tmp_path: Path, data: st.DataObject) -> None:
    machine = run(PROGRAMS["graphs"])
    whole = [machine.host_json(), machine.device_json()]
    which = data.draw(st.integers(0, 1))
    text = bytearray(whole[which])
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    whole[which] = bytes(text[:data.draw(st.integers(0, len(text)))] if data.draw(st.booleans()) else text)
    attempt(tmp_path, whole[0], whole[1])


@pytest.mark.parametrize("cut", [10, 40, -9, -1])
def test_truncated_gzip(tmp_path: Path, cut: int) -> None:
    host, device = pair(tmp_path, run(PROGRAMS["graphs"]), compress=True)
    device.write_bytes(device.read_bytes()[:cut])
    with pytest.raises(InputError, match=r"device\.json: (the gzip stream|decompresses|Input data)"):
        link(host, device)


@pytest.mark.parametrize("text", [
    "", "[]", "{}", "null", "7", '"x"', "{", '{"traceEvents": 7}', '{"traceEvents": [7]}',
    '{"traceEvents": [{"args": []}]}',
    '{"traceEvents": ' + "[" * 100_000, '{"traceEvents": [{"ph": "X", "cat": "kernel", "args": ' + '{"a":' * 100_000,
    '{"x": ' + "[" * 100_000 + "]" * 100_000 + ', "traceEvents": []}', "\xff\xfe", "\0" * 100])
def test_what_is_no_device_trace(tmp_path: Path, text: str) -> None:
    found = attempt(tmp_path, None, text.encode("latin-1"))
    assert found is None or found.report.nodes == 0


@pytest.mark.parametrize("text", [
    "", "[]", "{}", '{"schema": "1.0.2", "nodes": 3}', '{"schema": "9.9.9", "nodes": []}', '{"nodes": []}',
    '{"schema": "1.0.2", "nodes": [{"id": -1, "name": "x"}]}',
    '{"schema": "1.0.2", "nodes": [{"id": 1e30, "name": "x"}]}',
    '{"schema": "1.0.2", "nodes": [{"id": 1, "name": "x"}, {"id": 1, "name": "y"}]}',
    '{"schema": "1.0.2", "nodes": [{"id": 1, "name": "x", "attrs": [{"name": "rf_id", "value": ' + "[" * 100_000])
def test_what_is_no_host_trace(tmp_path: Path, text: str) -> None:
    assert attempt(tmp_path, text.encode(), None) is None


def test_nothing_is_written_where_linking_fails_or_the_folder_is_missing(tmp_path: Path) -> None:
    from astrarium.profile.link import write_linked

    found = attempt(tmp_path, None, json.dumps({"traceEvents": [kernel("k", 1, 2, 3)]}).encode())
    assert found is not None
    with pytest.raises(InputError, match="cannot be written"):
        write_linked(tmp_path / "absent" / "w", found)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["device.json"]


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_FILE", 1 << 20)
    (tmp_path / "d.json.gz").write_bytes(gzip.compress(b" " * (8 << 20)))
    with pytest.raises(InputError, match="decompresses to more than"):
        link(None, tmp_path / "d.json.gz")
