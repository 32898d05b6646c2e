"""Host execution traces: the JSON of torch.profiler.ExecutionTraceObserver, schemas 1.0.1 to 1.1.1."""

from __future__ import annotations

import re
from array import array
from typing import Any

import msgspec
from msgspec import Struct, field

from astrarium.errors import InputError, UnsupportedError
from astrarium.profile.link.text import UNREADABLE, decoded

__all__ = ["HostTrace", "Tensors", "read_host"]

FORM = "an ExecutionTraceObserver file: {\"schema\": …, \"nodes\": [{\"id\": …, \"name\": …}, …]}"
SCHEMA = re.compile(r"1\.(0\.[1-9]|1\.[01])(-chakra\.\d+\.\d+\.\d+)?")
ID_LIMIT = 1 << 63
KEPT = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid")


class _Document(msgspec.Struct, gc=False):
    nodes: list[msgspec.Raw]
    schema: str | None = None
    pid: msgspec.Raw = msgspec.Raw(b"null")
    time: msgspec.Raw = msgspec.Raw(b"null")
    start_ts: msgspec.Raw = msgspec.Raw(b"null")
    finish_ts: msgspec.Raw = msgspec.Raw(b"null")


class _Attribute(msgspec.Struct, gc=False):
    name: str
    value: Any = None


class _Node(msgspec.Struct, gc=False):
    id: int
    name: str
    ctrl_deps: int | None = None
    parent: int | None = None
    inputs: msgspec.Raw = msgspec.Raw(b"")
    outputs: msgspec.Raw = msgspec.Raw(b"")
    input_shapes: msgspec.Raw = msgspec.Raw(b"[]")
    input_types: msgspec.Raw = msgspec.Raw(b"[]")
    output_shapes: msgspec.Raw = msgspec.Raw(b"[]")
    output_types: msgspec.Raw = msgspec.Raw(b"[]")
    attrs: list[_Attribute] = []
    rf_id: int = 0
    fw_parent: int = 0
    seq_id: int = -1
    scope: int = 0
    tid: int = 0
    fw_tid: int = 0
    op_schema: str = ""


class Tensors(msgspec.Struct, gc=False):
    """Inputs or outputs of a host node as JSON texts: values, shapes, types, strides (older schemas have none)."""

    values: msgspec.Raw = msgspec.Raw(b"[]")
    shapes: msgspec.Raw = msgspec.Raw(b"[]")
    types: msgspec.Raw = msgspec.Raw(b"[]")
    strides: msgspec.Raw = msgspec.Raw(b"[]")


_IO = msgspec.json.Decoder(Tensors)


def _numbers() -> array[int]:
    return array("q")


class HostTrace(Struct):
    """Nodes by ascending id; arrays and lists are [nodes]. `parent` is a node id, 0 where there is none."""

    where: str
    schema: str
    id: array[int] = field(default_factory=_numbers)
    name: list[str] = field(default_factory=list)
    parent: array[int] = field(default_factory=_numbers)
    rf_id: array[int] = field(default_factory=_numbers)
    fw_parent: array[int] = field(default_factory=_numbers)
    seq_id: array[int] = field(default_factory=_numbers)
    scope: array[int] = field(default_factory=_numbers)
    tid: array[int] = field(default_factory=_numbers)
    fw_tid: array[int] = field(default_factory=_numbers)
    op_schema: list[str] = field(default_factory=list)
    raw: list[tuple[msgspec.Raw, ...]] = field(default_factory=list)
    times: dict[str, Any] = field(default_factory=dict)

    def tensors(self, node: int) -> tuple[Tensors, Tensors]:
        """Inputs and outputs of node number `node`; empty where they have another form."""
        raw = self.raw[node]
        if len(raw) == 2:
            return _info(raw[0]), _info(raw[1])
        return Tensors(*raw[:3]), Tensors(*raw[3:])

    @property
    def nodes(self) -> int:
        return len(self.id)


def _info(raw: msgspec.Raw) -> Tensors:
    try:
        return _IO.decode(raw)
    except UNREADABLE:
        return Tensors()


def read_host(data: bytes | bytearray, where: str) -> HostTrace:
    """The nodes of a host trace. Raises InputError for anything that is not one, and for a schema not known here."""
    decoder = msgspec.json.Decoder(_Document)
    document = decoded(data, where, decoder.decode, FORM)
    schema = document.schema or ""
    if not SCHEMA.fullmatch(schema):
        raise UnsupportedError(where, f"schema {schema[:40]!r}", expected="1.0.1 to 1.1.1, with -chakra.0.0.4, "
                               "-chakra.1.0.0 or no suffix")
    host = HostTrace(where, schema, times={
        key: _plain(getattr(document, key)) for key in ("pid", "time", "start_ts", "finish_ts")})
    decode = msgspec.json.Decoder(_Node).decode
    texts: dict[str, str] = {}
    for number, raw in enumerate(document.nodes):
        node = decoded(bytes(raw), f"{where}: nodes[{number}]", decode, FORM) if not number else _quick(
            decode, raw, where, number)
        if not 0 <= node.id < ID_LIMIT:
            raise InputError(f"{where}: nodes[{number}].id", f"{node.id}", expected="0 to 2^63 - 1")
        _append(host, node, texts)
    _sort(host)
    _refuse_twins(host)
    return host


def _quick(decode: Any, raw: msgspec.Raw, where: str, number: int) -> _Node:
    try:
        node: _Node = decode(raw)
    except UNREADABLE:
        node = decoded(bytes(raw), f"{where}: nodes[{number}]", decode, FORM)
    return node


def _sort(host: HostTrace) -> None:
    """By ascending id; the file has nodes in the order in which they ended."""
    order = sorted(range(host.nodes), key=host.id.__getitem__)
    for key in ("id", "parent", *KEPT):
        column = getattr(host, key)
        setattr(host, key, array("q", [column[place] for place in order]))
    host.name = [host.name[place] for place in order]
    host.op_schema = [host.op_schema[place] for place in order]
    host.raw = [host.raw[place] for place in order]


def _plain(raw: msgspec.Raw) -> Any:
    try:
        value = msgspec.json.decode(raw)
    except UNREADABLE:
        return None
    return value if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None


def _append(host: HostTrace, node: _Node, texts: dict[str, str]) -> None:
    found: dict[str, Any] = {}
    for attr in node.attrs:
        found[attr.name] = attr.value
    host.id.append(node.id)
    host.name.append(texts.setdefault(node.name, node.name))
    parent = node.ctrl_deps if node.ctrl_deps is not None else node.parent
    host.parent.append(parent if parent is not None and 0 <= parent != node.id and parent < ID_LIMIT else 0)
    for key in KEPT:
        value = found.get(key)
        if value.__class__ is not int:
            value = getattr(node, key)
        getattr(host, key).append(value if -ID_LIMIT <= value < ID_LIMIT else 0)
    schema = found.get("op_schema")
    schema = schema if isinstance(schema, str) else node.op_schema
    host.op_schema.append(texts.setdefault(schema, schema))
    if _listed(node.inputs):
        host.raw.append((node.inputs, node.input_shapes, node.input_types, node.outputs, node.output_shapes,
                         node.output_types))
    else:
        host.raw.append((node.inputs, node.outputs))


def _listed(raw: msgspec.Raw) -> bool:
    """Whether inputs are a bare list, as schema 1.0.1 has them."""
    return bytes(memoryview(raw)[:1]) == b"["


def _refuse_twins(host: HostTrace) -> None:
    for first, second in zip(host.id, host.id[1:], strict=False):
        if first == second:
            raise InputError(host.where, f"two nodes have id {first}", expected="an id for every node")
