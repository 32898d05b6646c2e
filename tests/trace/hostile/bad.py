"""Traces that nobody should have to read: by name, the bytes of one rank's file (or "folder", where that is none)."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
import zlib
from collections.abc import Callable

from msgspec.structs import replace

from astrarium.trace import TraceBuilder
from astrarium.trace._wire import DELIMITED, VARINT, delimited, packed, tagged, varint
from astrarium.trace.node import Attribute, IOInfo, Metadata, Node, attribute, encode_metadata, encode_node
from astrarium.vocab import CommOp, NodeKind

LARGEST = 2**64 - 1
FOLDER = b"\0folder"
COMP, COLL, SEND, RECV = (int(kind) for kind in (NodeKind.COMP, NodeKind.COMM_COLL, NodeKind.COMM_SEND,
                                                 NodeKind.COMM_RECV))
HEAD = delimited(encode_metadata(Metadata("0.0.4", (attribute("kind", "profiled"),))))
CPU = attribute("is_cpu_op", False)


def good() -> bytes:
    """A trace with nothing wrong: compute, a collective, host work, names, inputs."""
    trace = TraceBuilder()
    first = trace.comp("step0/forward/mm_1", 5, num_ops=10**6, tensor_size=10**3)
    whole = trace.coll("step0/all_reduce", CommOp.ALL_REDUCE, 1 << 20, after=[first], duration=7)
    trace.comp("step0/host", 2, cpu=True, ctrl=[first])
    trace.comp("step0/update_2", 3, num_ops=10**5, after=[whole], inputs=IOInfo("[1]", "[[2]]", "[]"))
    return file_of(*(replace(node, start=10 * node.id) for node in trace.nodes))


def file_of(*nodes: Node | bytes, head: bytes = HEAD) -> bytes:
    """A file of nodes, or of messages as they stand."""
    return head + b"".join(delimited(each if isinstance(each, bytes) else encode_node(each)) for each in nodes)


def _typed(key: str, value: int | float | str | bool) -> Attribute:
    """With the oneof of the value's own type, whatever the name."""
    kind = {bool: "bool_val", int: "int64_val", float: "double_val", str: "string_val"}[type(value)]
    return Attribute(key, value, kind)


def _comp(number: int, *, name: str = "c", data: tuple[int, ...] = (), ctrl: tuple[int, ...] = (), duration: int = 5,
          **attrs: int | float | str | bool) -> Node:
    return Node(number, name, COMP, ctrl, data, 0, duration,
                attrs=(CPU, *(_typed(key, value) for key, value in attrs.items())))


def _comm(number: int, kind: int, **attrs: int | float | str | bool) -> Node:
    return Node(number, f"comm_{number}", kind, attrs=(CPU, *(_typed(key, value) for key, value in attrs.items())))


def _coll(number: int, **attrs: int | float | str | bool) -> Node:
    return _comm(number, COLL, **{"comm_type": int(CommOp.ALL_REDUCE), "comm_size": 1024, **attrs})


def _zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("t.0.et", good())
    return out.getvalue()


def _tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo("t.0.et")
        entry.size = len(good())
        archive.addfile(entry, io.BytesIO(good()))
    return out.getvalue()


def _flipped() -> bytes:
    data = bytearray(gzip.compress(good(), mtime=0))
    data[len(data) // 2] ^= 0x55
    return bytes(data)


def _deep(field: int, depth: int) -> bytes:
    """A message in a message in a message, in a field of a Node."""
    inner = b""
    for _ in range(depth):
        inner = tagged(field, DELIMITED, delimited(inner))
    return inner


def _ring(count: int) -> bytes:
    return file_of(*(_comp(each, data=((each - 1) % count,)) for each in range(count)))


BAD: dict[str, Callable[[], bytes]] = {
    # ---- no trace
    "empty": lambda: b"",
    "folder": lambda: FOLDER,
    "newline": lambda: b"\n",
    "text": lambda: b"this is no trace\n" * 40,
    "json": lambda: json.dumps({"schema": "1.1.1", "nodes": []}).encode(),
    "deep_json": lambda: b"[" * 100_000,
    "zeros": lambda: bytes(4096),
    "ones": lambda: b"\xff" * 4096,
    "zip": _zip,
    "tar": _tar,
    "elf": lambda: b"\x7fELF\x02\x01\x01" + bytes(57),
    "utf16": lambda: "a trace".encode("utf-16"),
    # ---- gzip
    "gzip_of_nothing": lambda: gzip.compress(b"", mtime=0),
    "gzip_magic_alone": lambda: b"\x1f\x8b",
    "gzip_truncated": lambda: gzip.compress(good(), mtime=0)[:-9],
    "gzip_flipped": _flipped,
    "gzip_twice": lambda: gzip.compress(gzip.compress(good(), mtime=0), mtime=0),
    "gzip_with_a_tail": lambda: gzip.compress(good(), mtime=0) + b"tail",
    "zlib": lambda: zlib.compress(good()),
    # ---- messages
    "truncated": lambda: good()[:-3],
    "metadata_alone": lambda: HEAD,
    "no_metadata": lambda: file_of(_comp(0), _comp(1, data=(0,)), head=b""),
    "two_metadata": lambda: HEAD + file_of(_comp(0)),
    "huge_length": lambda: HEAD + varint(2**62) + b"\x08\x01",
    "overlong_varint": lambda: HEAD + b"\xff" * 9 + b"\x7f",
    "endless_varint": lambda: HEAD + b"\x80" * 64,
    "giant_id": lambda: file_of(_comp(LARGEST), _comp(LARGEST - 1, data=(LARGEST,))),
    "zero_field": lambda: file_of(b"\x00\x01"),
    "group_wire": lambda: file_of(b"\x0b" * 64),
    "wire_six": lambda: file_of(b"\x0e\x01"),
    "unknown_fields": lambda: file_of(encode_node(_comp(0)) + tagged(999, VARINT, varint(7)) + tagged(
        1000, DELIMITED, delimited(b"x" * 300))),
    "deep_messages": lambda: file_of(encode_node(_comp(0)) + _deep(10, 5_000)),
    "deep_inputs": lambda: file_of(encode_node(_comp(0)) + _deep(8, 5_000)),
    "empty_nodes": lambda: file_of(*[b""] * 5),
    "packed_cut": lambda: file_of(tagged(1, VARINT, varint(1)) + tagged(5, DELIMITED, delimited(b"\x80"))),
    "a_message_in_place_of_a_number": lambda: file_of(tagged(1, DELIMITED, delimited(b"12"))),
    # ---- graph
    "cycle": lambda: _ring(4),
    "long_cycle": lambda: _ring(20_000),
    "waits_for_itself": lambda: file_of(_comp(0, data=(0,))),
    "ctrl_cycle": lambda: file_of(_comp(0, ctrl=(1,)), _comp(1, data=(0,))),
    "duplicate_ids": lambda: file_of(_comp(7), _comp(7, data=(7,)), _comp(8, data=(7,))),
    "all_the_same_id": lambda: file_of(*[_comp(3)] * 50),
    "dangling_data": lambda: file_of(_comp(0, data=(99,))),
    "dangling_ctrl": lambda: file_of(_comp(0, ctrl=(99,))),
    "later_first": lambda: file_of(_comp(1, data=(0,)), _comp(0)),
    "the_same_parent_often": lambda: file_of(_comp(0), _comp(1, data=(0,) * 10_000)),
    "long_chain": lambda: file_of(*(_comp(each, data=(each - 1,) if each else ()) for each in range(30_000))),
    "wide_fan": lambda: file_of(*(_comp(each) for each in range(3_000)), _comp(3_000, data=tuple(range(3_000)))),
    # ---- values
    "duration_largest": lambda: file_of(_comp(0, duration=LARGEST), _comp(1, data=(0,), duration=LARGEST)),
    "start_largest": lambda: file_of(Node(0, "c", COMP, (), (), LARGEST, LARGEST, attrs=(CPU,))),
    "negative_sizes": lambda: file_of(
        Node(0, "c", COMP, attrs=(CPU, _typed("num_ops", -5), _typed("tensor_size", -1))),
        Node(1, "d", COLL, attrs=(CPU, _typed("comm_type", 0), _typed("comm_size", -1024)))),
    "huge_sizes": lambda: file_of(_comp(0, num_ops=2**63 - 1, tensor_size=2**63 - 1), _coll(1, comm_size=2**63 - 1)),
    "unsigned_sizes": lambda: file_of(Node(0, "c", COLL, attrs=(
        CPU, attribute("comm_type", 0), Attribute("comm_size", LARGEST, "uint64_val")))),
    "nan_ops": lambda: file_of(_comp(0, num_ops=float("nan")), _comp(1, num_ops=float("inf"), tensor_size=1),
                               _comp(2, num_ops=-float("inf"))),
    "sizes_as_text": lambda: file_of(_comp(0, num_ops="many", tensor_size="big"), _coll(1, comm_size="1 GB")),
    "sizes_as_floats": lambda: file_of(_comp(0, num_ops=1.5, tensor_size=2.5), _coll(1, comm_size=1e300)),
    "unknown_kind": lambda: file_of(Node(0, "n", 77), Node(1, "m", LARGEST), _comp(2, data=(0, 1))),
    "invalid_kind": lambda: file_of(Node(0, "n", 0), Node(1, "m", 1)),
    "unknown_collective": lambda: file_of(_coll(0, comm_type=99), _coll(1, comm_type=-1), _coll(2, comm_type=2**62)),
    "collective_without_anything": lambda: file_of(_comm(0, COLL)),
    "send_without_anything": lambda: file_of(_comm(0, SEND), _comm(1, RECV)),
    "send_to_nobody": lambda: file_of(_comm(0, SEND, comm_size=8, comm_dst=2**31 - 1, comm_tag=0),
                                      _comm(1, RECV, comm_size=8, comm_src=-1, comm_tag=-(2**31))),
    "send_to_itself": lambda: file_of(_comm(0, SEND, comm_size=8, comm_dst=0, comm_tag=0)),
    "receive_alone": lambda: file_of(_comm(0, RECV, comm_size=8, comm_src=0, comm_tag=0)),
    "unknown_group": lambda: file_of(_coll(0, pg_name="nobody knows"), _coll(1, pg_name=""), _coll(2, pg_name="-1"),
                                     _coll(3, pg_name="9" * 5000)),
    "group_of_a_number": lambda: file_of(_coll(0, pg_name=1.5)),
    "priority_largest": lambda: file_of(_coll(0, comm_priority=2**63 - 1), _coll(1, comm_priority=-(2**63))),
    "dims_beyond": lambda: file_of(Node(0, "c", COLL, attrs=(
        CPU, _typed("comm_type", 0), _typed("comm_size", 8), Attribute("involved_dim", (True,) * 400, "bool_list")))),
    "the_same_attribute_often": lambda: file_of(Node(0, "c", COMP, attrs=(CPU,) * 2_000)),
    "stream_largest": lambda: file_of(_comp(0, stream=2**63 - 1), _comp(1, stream=-(2**63))),
    # ---- text
    "huge_name": lambda: file_of(_comp(0, name="x" * 2_000_000)),
    "names_of_scopes": lambda: file_of(_comp(0, name="/" * 3_000), _comp(1, name="a/" * 3_000)),
    "control_characters": lambda: file_of(_comp(0, name="\x00\x1b[31m\r\n<&\"'>\u202e\ufeff"), _comp(1, name="")),
    "not_utf8": lambda: file_of(_comp(0, name="\udcff\udcfe")),
    "huge_attribute": lambda: file_of(_comp(0, op_type="y" * 1_000_000)),
    "unreadable_inputs": lambda: file_of(Node(0, "p", 1, inputs=IOInfo("[" * 3_000, "{", "\x00"))),
    "groups_that_are_none": lambda: file_of(Node(0, "## process_group:init ##", 1, inputs=IOInfo(
        '[[{"pg_name": 7, "ranks": "all"}]]', "", "")), _coll(1, pg_name="7")),
    "kind_unknown": lambda: file_of(_comp(0), head=delimited(encode_metadata(
        Metadata("99.9", (attribute("kind", "dreamt"),))))),
    "kind_of_a_number": lambda: file_of(_comp(0), head=delimited(encode_metadata(
        Metadata("", (attribute("kind", 3),))))),
    "packed_ids_of_nothing": lambda: file_of(encode_node(_comp(0)) + tagged(5, DELIMITED, delimited(packed([])))),
}

BESIDE: dict[str, bytes] = {
    "empty": b"", "list": b"[]", "null": b"null", "number": b"7", "text": b"hello", "cut": b'{"1": [0',
    "deep": b'{"1": ' + b"[" * 100_000, "deep_objects": b'{"a": ' * 100_000, "nan": b'{"1": [NaN]}',
    "infinite": b'{"1": [1e999]}', "negative": b'{"1": [-1, 0]}', "twice": b'{"1": [0, 0]}',
    "key_twice": b'{"1": [0], "1": [0]}', "large": b'{"1": [99999999999999999999999]}', "bool": b'{"1": [true]}',
    "text_ranks": b'{"1": ["0"]}', "no_list": b'{"1": null}', "no_ranks": b'{"1": []}', "no_name": b'{"": [0]}',
    "zero": b'{"0": [0]}', "long_name": b'{"' + b"9" * 100_000 + b'": [0]}', "utf16": '{"1": [0]}'.encode("utf-16"),
    "not_utf8": b'{"\xff": [0]}', "surrogate": b'{"\\ud800": [0]}', "beyond": b'{"1": [0, 1, 2]}',
    "many": b'{"1": [' + b",".join(b"%d" % rank for rank in range(200_000)) + b"]}",
    "zero_ranks": b'{"tp": 0, "dp": 1, "pp": 1}', "negative_ranks": b'{"tp": -1, "dp": -1, "pp": 1}',
    "parts_of_ranks": b'{"tp": 1.5}', "huge_ranks": b'{"tp": 1e300}', "infinite_ranks": b'{"tp": 1e999}',
    "largest_layers": b'{"layers": 1e308, "tp": 1}', "smallest_layers": b'{"layers": 1e-320}',
    "negative_layers": b'{"layers": -5}', "a_stage": b'{"stage": 0}', "nothing": b"{}",
    "negative_id": b'{"version": "0.0.4"}\n{"id": -1}\n', "infinite_id": b'{"version": ""}\n{"id": 1e999}\n',
    "kind_of_no_node": b'{"version": ""}\n{"id": 1, "type": "NOPE"}\n',
    "kind_of_no_value": b'{"version": ""}\n{"id": 1, "attrs": [{"name": "x", "kind": "nope", "value": 1}]}\n',
}
"""What may lie beside a trace, or in its place: groups, conditions, JSON lines, tables, models."""
