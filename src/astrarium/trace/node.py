"""One node of a trace as a frozen value, with every field and unknown field: for editing and for making traces.

Reading at scale goes through columns (`read_traces`); this is the form of a single node that a person changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from msgspec import Struct

from astrarium.errors import InputError, nearest
from astrarium.trace._oneof import DEFAULT_KIND, KINDS, decode_value, encode_value, kind_of
from astrarium.trace._wire import DELIMITED, VARINT, Cursor, delimited, packed, tagged, varint

__all__ = ["TRACE_KINDS", "Attribute", "IOInfo", "Metadata", "Node", "attribute", "decode_metadata", "decode_node",
           "encode_metadata", "encode_node", "trace_kind"]

TRACE_KINDS = ("pre", "post", "profiled", "synthesised")
"""What a trace was made from: a model's graph as written, one that a compiler changed, a profile, or a generator."""


class Attribute(Struct, frozen=True):
    """One attribute: `kind` is the oneof field (`int64_val`, `bool_list`, …), None where it has no value."""

    name: str
    value: Any = None
    kind: str | None = None
    doc: str = ""
    unknown: bytes = b""

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in KINDS:
            raise InputError(f"attribute {self.name!r}", f"kind {self.kind!r}",
                             expected="an oneof field of AttributeProto", did_you_mean=nearest(self.kind, KINDS))


class IOInfo(Struct, frozen=True):
    """Inputs or outputs of a node; each text is a printed Python list, as Chakra's converters write it."""

    values: str = ""
    shapes: str = ""
    types: str = ""
    unknown: bytes = b""


class Metadata(Struct, frozen=True):
    """The first message of a file."""

    version: str = ""
    attrs: tuple[Attribute, ...] = ()
    unknown: bytes = b""


class Node(Struct, frozen=True):
    """One node; times in microseconds, dependencies are node ids, `type` is a vocab.NodeKind (or a number beyond)."""

    id: int = 0
    name: str = ""
    type: int = 0
    ctrl_deps: tuple[int, ...] = ()
    data_deps: tuple[int, ...] = ()
    start: int = 0
    duration: int = 0
    inputs: IOInfo | None = None
    outputs: IOInfo | None = None
    attrs: tuple[Attribute, ...] = ()
    unknown: bytes = b""

    def attr(self, name: str) -> Attribute | None:
        """The last attribute of that name that has a value, as every reader here takes it."""
        return next((a for a in reversed(self.attrs) if a.name == name and a.kind is not None), None)


def attribute(name: str, value: Any, kind: str | None = None) -> Attribute:
    """An attribute with the oneof that Chakra's own generators use for that name (or that fits the value)."""
    return Attribute(name, value, kind or DEFAULT_KIND.get(name) or kind_of(name, value))


# ------------------------------------------------------------ writing
def encode_node(node: Node) -> bytes:
    """The Node message: fields in order of number, defaults left out, dependencies packed, unknown fields last."""
    out = [_number(1, node.id), _text(2, node.name), _number(3, node.type), _ids(4, node.ctrl_deps),
           _ids(5, node.data_deps), _number(6, node.start), _number(7, node.duration)]
    out += [tagged(number, DELIMITED, delimited(_info(info)))
            for number, info in ((8, node.inputs), (9, node.outputs)) if info is not None]
    out += [tagged(10, DELIMITED, delimited(_attribute(a))) for a in node.attrs]
    return b"".join(out) + node.unknown


def encode_metadata(metadata: Metadata) -> bytes:
    """The GlobalMetadata message."""
    attrs = (tagged(2, DELIMITED, delimited(_attribute(a))) for a in metadata.attrs)
    return _text(1, metadata.version) + b"".join(attrs) + metadata.unknown


def _number(field: int, value: int) -> bytes:
    return tagged(field, VARINT, varint(value)) if value else b""


def _text(field: int, value: str) -> bytes:
    return tagged(field, DELIMITED, delimited(value.encode("utf-8", "surrogateescape"))) if value else b""


def _ids(field: int, ids: Iterable[int]) -> bytes:
    content = packed(ids)
    return tagged(field, DELIMITED, delimited(content)) if content else b""


def _info(info: IOInfo) -> bytes:
    return _text(1, info.values) + _text(2, info.shapes) + _text(3, info.types) + info.unknown


def _attribute(attr: Attribute) -> bytes:
    value = b"" if attr.kind is None else encode_value(attr.name, attr.kind, attr.value)
    return _label(attr.name) + _text(2, attr.doc) + value + attr.unknown


@lru_cache(256)
def _label(name: str) -> bytes:
    """The name of an attribute: files repeat a few of them at every node."""
    return _text(1, name)


# ------------------------------------------------------------ reading
def decode_node(message: bytes) -> Node:
    """Reads a Node message; ValueError(offset, what) where it is malformed."""
    fields: dict[str, Any] = {}
    lists: dict[str, list[Any]] = {"ctrl_deps": [], "data_deps": [], "attrs": []}
    unknown, cursor = [], Cursor(message, 0, len(message))
    while cursor.at != cursor.end:
        start, tag = cursor.at, cursor.tag()
        field, wire = tag >> 3, tag & 7
        if wire == VARINT and field in _NUMBERS:
            fields[_NUMBERS[field]] = cursor.varint()
        elif wire == VARINT and field in _LISTS:
            lists[_LISTS[field]].append(cursor.varint())
        elif wire == DELIMITED and field in _LISTS:
            ids = cursor.inside(cursor.delimited())
            while ids.at != ids.end:
                lists[_LISTS[field]].append(ids.varint())
        elif wire == DELIMITED and field == 2:
            fields["name"] = _read_text(cursor)
        elif wire == DELIMITED and field in (8, 9):
            name = "inputs" if field == 8 else "outputs"
            fields[name] = _read_info(cursor.inside(cursor.delimited()), fields.get(name))
        elif wire == DELIMITED and field == 10:
            lists["attrs"].append(_read_attribute(cursor.inside(cursor.delimited())))
        else:
            cursor.skip(tag)
            unknown.append(message[start:cursor.at])
    fields.update({name: tuple(values) for name, values in lists.items()}, unknown=b"".join(unknown))
    return Node(**fields)


_NUMBERS = {1: "id", 3: "type", 6: "start", 7: "duration"}
_LISTS = {4: "ctrl_deps", 5: "data_deps"}


def decode_metadata(message: bytes) -> Metadata:
    """Reads a GlobalMetadata message; ValueError(offset, what) where it is malformed."""
    version, attrs, unknown, cursor = "", [], [], Cursor(message, 0, len(message))
    while cursor.at != cursor.end:
        start, tag = cursor.at, cursor.tag()
        if tag == 1 << 3 | DELIMITED:
            version = _read_text(cursor)
        elif tag == 2 << 3 | DELIMITED:
            attrs.append(_read_attribute(cursor.inside(cursor.delimited())))
        else:
            cursor.skip(tag)
            unknown.append(message[start:cursor.at])
    return Metadata(version, tuple(attrs), b"".join(unknown))


def _read_text(cursor: Cursor) -> str:
    start, end = cursor.delimited()
    return cursor.data[start:end].decode("utf-8", "surrogateescape")


def _read_info(cursor: Cursor, before: IOInfo | None) -> IOInfo:
    """An IOInfo; one that appears twice is merged, as in protobuf."""
    texts = [before.values, before.shapes, before.types] if before else ["", "", ""]
    unknown = [before.unknown] if before else []
    while cursor.at != cursor.end:
        start, tag = cursor.at, cursor.tag()
        if tag & 7 == DELIMITED and 1 <= tag >> 3 <= 3:
            texts[(tag >> 3) - 1] = _read_text(cursor)
        else:
            cursor.skip(tag)
            unknown.append(cursor.data[start:cursor.at])
    return IOInfo(texts[0], texts[1], texts[2], b"".join(unknown))


def _read_attribute(cursor: Cursor) -> Attribute:
    texts: dict[int, str] = {}
    kind, value, unknown = None, None, []
    while cursor.at != cursor.end:
        start, tag = cursor.at, cursor.tag()
        if tag & 7 == DELIMITED and tag >> 3 in (1, 2):
            texts[tag >> 3] = _read_text(cursor)
        elif (found := decode_value(tag, cursor, kind, value)) is not None:
            kind, value = found
        else:
            cursor.skip(tag)
            unknown.append(cursor.data[start:cursor.at])
    return Attribute(texts.get(1, ""), value, kind, texts.get(2, ""), b"".join(unknown))


def trace_kind(metadata: bytes) -> str | None:
    """`kind` of a GlobalMetadata message: one of TRACE_KINDS, another word, or None where it does not say."""
    found = [a.value for a in decode_metadata(metadata).attrs if a.name == "kind"]
    return str(found[-1]) if found else None
