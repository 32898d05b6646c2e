"""Bytes in, columns out: what the reader takes, what it refuses, and that it keeps everything."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from astrarium.errors import InputError, TraceError
from astrarium.trace import (
    HAVE_CORE,
    Attr,
    Attribute,
    IOInfo,
    Metadata,
    Node,
    TraceBuilder,
    attribute,
    encode_trace,
    read_traces,
    traces_of_bytes,
)
from astrarium.trace._wire import delimited, tagged, varint
from astrarium.vocab import CommOp, NodeKind

BACKENDS = [pytest.param(False, marks=pytest.mark.skipif(not HAVE_CORE, reason="no compiled core")), True]
both = pytest.mark.parametrize("pure", BACKENDS)


def one(nodes: list[Node | bytes], pure: bool):
    return traces_of_bytes([encode_trace(Metadata("1.0.0"), nodes)], pure=pure).classes[0]


@both
def test_columns_hold_what_the_nodes_say(pure: bool) -> None:
    build = TraceBuilder()
    first = build.comp("gemm", 7, num_ops=1 << 40, tensor_size=4096, stream=3)
    build.coll("ar", CommOp.ALL_REDUCE, 1 << 20, group=5, after=[first, first], involved_dim=[True, False, True])
    build.send("s", 3, 64, tag=9, after=[1], ctrl=[77], comm_priority=2)
    columns = traces_of_bytes([build.encode()], pure=pure).classes[0]
    assert columns.names() == ["gemm", "ar", "s"]
    assert columns.node_id.tolist() == [0, 1, 2]
    assert columns.type.tolist() == [NodeKind.COMP, NodeKind.COMM_COLL, NodeKind.COMM_SEND]
    assert columns.duration.tolist() == [7, 0, 0]
    assert columns.num_ops.tolist() == [2.0**40, 0, 0]
    assert columns.tensor_size.tolist() == [4096, 0, 0]
    assert columns.stream.tolist() == [3, 0, 0]
    assert columns.comm_size.tolist() == [0, 1 << 20, 64]
    assert columns.comm_priority.tolist() == [0, 0, 2]
    assert columns.data_ptr.tolist() == [0, 0, 2, 3]
    assert columns.data_dep.tolist() == [0, 0, 1]
    assert (columns.ctrl_ptr.tolist(), columns.ctrl_dep.tolist()) == ([0, 0, 0, 1], [77])
    assert columns.involved_dims(1) == (True, False, True)
    assert columns.involved_dims(0) is None
    assert columns.comm_node.tolist() == [1, 2]
    assert (columns.destination.tolist(), columns.tag.tolist()) == ([[-1, 3]], [[-1, 9]])
    assert columns.source.tolist() == [[-1, -1]]
    assert columns.has(Attr.COMM_SIZE).tolist() == [False, True, True]


INTEGER_KINDS = ["int32_val", "int64_val", "uint32_val", "uint64_val", "sint32_val", "sint64_val", "fixed32_val",
                 "fixed64_val", "sfixed32_val", "sfixed64_val", "bool_val"]


@both
@pytest.mark.parametrize("kind", INTEGER_KINDS)
def test_any_integer_oneof_is_accepted(kind: str, pure: bool) -> None:
    names = ["comm_size", "comm_type", "comm_priority", "tensor_size", "stream", "num_ops", "is_cpu_op", "comm_src",
             "comm_dst", "comm_tag", "pg_name"]
    value = kind == "bool_val" or 1
    columns = one([Node(type=7, attrs=tuple(Attribute(name, value, kind) for name in names))], pure)
    assert columns.wrong.tolist() == [0]
    for name in ("comm_size", "comm_type", "comm_priority", "tensor_size", "stream", "num_ops", "is_cpu_op"):
        assert getattr(columns, name).tolist() == [1], name
    assert columns.source.tolist() == columns.destination.tolist() == columns.tag.tolist() == [[1]]


@both
@pytest.mark.parametrize(("kind", "value"), [("int32_val", -5), ("sint64_val", -5), ("sfixed32_val", -5)])
def test_negative_values_keep_their_sign(kind: str, value: int, pure: bool) -> None:
    assert one([Node(type=7, attrs=(Attribute("comm_size", value, kind),))], pure).comm_size.tolist() == [-5]


@both
@pytest.mark.parametrize(("kind", "value"), [("float_val", 2.0), ("double_val", 2.0), ("string_val", "2"),
                                             ("bytes_val", b"2"), ("int64_list", (2,)), ("bool_list", (True,))])
def test_wrong_types_are_marked_not_read(kind: str, value: object, pure: bool) -> None:
    columns = one([Node(type=7, attrs=(Attribute("comm_size", value, kind), Attribute("comm_dst", value, kind)))], pure)
    assert columns.is_wrong(Attr.COMM_SIZE).tolist() == [True]
    assert columns.has(Attr.COMM_SIZE).tolist() == [False]
    assert columns.comm_size.tolist() == [0]
    assert columns.destination.tolist() == [[-1]]


@both
def test_real_num_ops_and_last_value_wins(pure: bool) -> None:
    attrs = (Attribute("num_ops", 2.5, "double_val"), Attribute("comm_size", "x", "string_val"),
             Attribute("comm_size", 8, "int32_val"), Attribute("comm_size"))
    columns = one([Node(type=4, attrs=attrs)], pure)
    assert columns.num_ops.tolist() == [2.5]
    assert columns.comm_size.tolist() == [8]
    assert columns.wrong.tolist() == [0]


@both
def test_unsigned_num_ops_beyond_int64(pure: bool) -> None:
    node = Node(type=4, attrs=(Attribute("num_ops", 2**64 - 1, "uint64_val"),))
    assert one([node], pure).num_ops.tolist() == [2.0**64]


@both
def test_unpacked_lists_and_unknown_fields(pure: bool) -> None:
    unknown = tagged(99, 2, delimited(b"later")) + tagged(12, 3, tagged(1, 0, varint(5)) + tagged(12, 4, b""))
    message = tagged(5, 0, varint(3)) + unknown + tagged(5, 2, delimited(varint(4))) + tagged(3, 0, varint(7))
    bools = tagged(28, 2, delimited(tagged(1, 0, b"\1") + tagged(1, 2, delimited(b"\0\1"))))
    message += tagged(10, 2, delimited(tagged(1, 2, delimited(b"involved_dim")) + bools))
    columns = one([message], pure)
    assert columns.data_dep.tolist() == [3, 4]
    assert columns.involved_dims(0) == (True, False, True)


@both
def test_empty_messages(pure: bool) -> None:
    traces = traces_of_bytes([b"\0" + b"\0" + delimited(tagged(1, 0, varint(1)))], pure=pure)
    assert traces.classes[0].metadata == b""
    assert traces.classes[0].node_id.tolist() == [0, 1]
    assert traces_of_bytes([b"\0"], pure=pure).nodes == 0


@both
@pytest.mark.parametrize(("file", "offset", "what"), [
    (b"", 0, "the file is empty"),
    (b"\x05ab", 0, "a length runs past the end"),
    (b"\0\x80", 1, "a number runs past the end"),
    (b"\0" + b"\xff" * 11, 1, "longer than 10 bytes"),
    (b"\0" + delimited(b"\x07"), 2, "field number 0"),
    (b"\0" + delimited(b"\x0f"), 2, "unknown wire type"),
    (b"\0" + delimited(b"\x0a\x05ab"), 3, "a length runs past the end"),
    (b"\0" + delimited(b"\x52\x04\x0a\x09xy"), 5, "a length runs past the end"),
    (b"\0" + delimited(b"\x09abc"), 3, "a value runs past the end"),
    (b"\0" + delimited(b"\x0c"), 3, "a group ends that never began"),
    (b"\0" + delimited(b"\x0b"), 3, "a group runs past the end"),
    (b"\0" + delimited(b"\x0b" * 100), 66, "groups nest too deeply"),
    (b"\0" * 1027, 1025, "more than 1024 empty nodes"),
    (b'{"json": true}', 0, "a length runs past the end"),
])
def test_malformed_files_name_the_byte(file: bytes, offset: int, what: str, pure: bool) -> None:
    with pytest.raises(TraceError, match=f"rank 0: not a Chakra execution trace: byte {offset}: .*{what}"):
        traces_of_bytes([file], pure=pure)


@both
@pytest.mark.parametrize(("first", "offset", "what"), [
    (b"\x08\x01\x12\x01a", 1, "a node where the metadata should be"),
    (b"\x12\x01a", 4, "in the metadata, which every trace begins with: a value runs past"),
    (b"\x0a\x0212\x12\x02\xf8\xff", 7, "in the metadata, which every trace begins with: a number runs past"),
])
def test_a_file_without_metadata_is_refused(first: bytes, offset: int, what: str, pure: bool) -> None:
    with pytest.raises(TraceError, match=f"byte {offset}: {what}"):
        traces_of_bytes([delimited(first) + delimited(b"\x08\x02")], pure=pure)


@both
def test_metadata_nodes_keep_their_text(pure: bool) -> None:
    nodes = [Node(1, "init", 1, inputs=IOInfo("['x']")), Node(2, "none", 1), Node(3, "c", 4, inputs=IOInfo("y"))]
    columns = one(nodes, pure)
    assert columns.meta_node.tolist() == [0]
    assert columns.inputs_values(0) == "['x']"


@both
def test_gzip_by_magic(tmp_path: Path, pure: bool) -> None:
    build = TraceBuilder()
    build.comp("c", 5)
    plain = build.encode()
    (tmp_path / "w.0.et").write_bytes(gzip.compress(plain[:4]) + gzip.compress(plain[4:]) + bytes(3))
    traces = read_traces(tmp_path / "w", pure=pure)
    assert traces.file_bytes(0) == plain
    (tmp_path / "w.0.et").write_bytes(gzip.compress(plain)[:-9])
    with pytest.raises(TraceError, match="the gzip stream ends too early"):
        read_traces(tmp_path / "w", pure=pure)
    (tmp_path / "w.0.et").write_bytes(b"\x1f\x8b" + bytes(20))
    with pytest.raises(TraceError, match="the gzip stream is damaged"):
        read_traces(tmp_path / "w", pure=pure)


def test_missing_files_are_named(tmp_path: Path) -> None:
    build = TraceBuilder()
    build.comp("c", 5)
    for rank in (0, 1, 3):
        build.write(tmp_path / f"w.{rank}.et")
    for ranks in (None, 4):
        with pytest.raises(InputError, match=r"w\.2\.et does not exist; ranks that have one: 0-1, 3"):
            read_traces(tmp_path / "w", ranks)
    assert read_traces(tmp_path / "w", 2).ranks == 2
    assert read_traces(f"{tmp_path}/w.*.et", 2).ranks == 2
    with pytest.raises(InputError, match=r"no rank has one.*did you mean '.*w'"):
        read_traces(tmp_path / "w.et")
    with pytest.raises(InputError, match="1 trace files for 2 ranks"):
        read_traces([tmp_path / "w.0.et"], 2)
    with pytest.raises(InputError, match="cannot be read"):
        read_traces([tmp_path])


@pytest.mark.skipif(not HAVE_CORE, reason="no compiled core")
def test_columns_are_read_only_and_outlive_the_traces() -> None:
    build = TraceBuilder()
    for i in range(1000):
        build.comp(f"node {i}", i)
    columns = traces_of_bytes([build.encode()]).classes[0]
    duration = columns.duration
    with pytest.raises(ValueError):
        duration[0] = 5
    del columns
    np.testing.assert_array_equal(duration, np.arange(1000))


def test_float_bits_survive() -> None:
    value = struct.unpack("<f", b"\x01\x02\x03\x04")[0]
    node = Node(attrs=(attribute("x", (value, 0.5), "float_list"),))
    columns = one([node], pure=True)
    assert struct.pack("<f", value) in columns.data
