"""A trace as JSON lines and back, with every field and unknown field: the metadata first, then a node per line.

`{"id": 3, "name": "qkv", "type": "COMP", "data_deps": [2], "duration": 12, "attrs": [{"name": "num_ops", "kind":
"uint64_val", "value": 1024}]}`: what a node lacks is left out; bytes are base64; times are microseconds, as in Chakra.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from astrarium.errors import InputError, nearest
from astrarium.trace import Attribute, IOInfo, Metadata, Node
from astrarium.trace.node import decode_metadata, decode_node, encode_node
from astrarium.trace.readers import Data, Read, TraceReader
from astrarium.trace.write import encode_trace
from astrarium.vocab import NodeKind

__all__ = ["READER", "lines_of", "trace_of"]

NODE_KEYS = ("id", "name", "type", "ctrl_deps", "data_deps", "start", "duration", "inputs", "outputs", "attrs",
             "unknown")
INFO_KEYS = ("values", "shapes", "types", "unknown")
ATTRIBUTE_KEYS = ("name", "kind", "value", "doc", "unknown")
METADATA_KEYS = ("version", "attrs", "unknown")


def lines_of(messages: Iterable[bytes]) -> Iterator[str]:
    """A line (without its end) per message of a file; the first one is the metadata."""
    parts = iter(messages)
    first = next(parts, None)
    if first is None:
        return
    yield _text(_bare(decode_metadata(first), METADATA_KEYS))
    yield from map(_line, parts)


def _line(message: bytes) -> str:
    node = decode_node(message)
    found = _bare(node, NODE_KEYS)
    found["type"] = NodeKind(node.type).name if node.type in set(NodeKind) else node.type
    return _text({"id": node.id, **found})


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(", ", ": "))


def _bare(value: Any, keys: Iterable[str]) -> dict[str, Any]:
    """The fields that are set, as plain data."""
    found = {}
    for key in keys:
        field = getattr(value, key)
        if key == "attrs":
            field = [_bare(attr, ATTRIBUTE_KEYS) for attr in field]
        elif isinstance(field, IOInfo):
            field = _bare(field, INFO_KEYS)
        elif key == "value":
            field = _plain(field)
            if value.kind is None:
                continue
        elif isinstance(field, bytes):
            field = base64.b64encode(field).decode()
        elif isinstance(field, tuple):
            field = list(field)
        elif field is None:
            continue
        if key == "value" or field or isinstance(getattr(value, key), IOInfo):
            found[key] = field
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return [_plain(each) for each in value] if isinstance(value, (tuple, list)) else value


def trace_of(lines: Iterable[str], path: str) -> tuple[Metadata, list[bytes]]:
    """(metadata, messages of the nodes) of JSON lines. Raises InputError naming file, line and key."""
    metadata, nodes = None, []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(where, f"not JSON: {error}") from None
        if metadata is None:
            metadata = Metadata(**_fields(value, METADATA_KEYS, where))
        else:
            nodes.append(encode_node(_node(value, where)))
    if metadata is None:
        raise InputError(path, "is empty", expected="a line of metadata ({} at least), then a line per node")
    return metadata, nodes


def _node(value: Any, where: str) -> Node:
    fields = _fields(value, NODE_KEYS, where)
    kind = fields.get("type", 0)
    if isinstance(kind, str):
        names = [each.name for each in NodeKind]
        if kind not in names:
            raise InputError(f"{where}: type", repr(kind), expected="one of " + ", ".join(names),
                             did_you_mean=nearest(kind, names))
        fields["type"] = int(NodeKind[kind])
    for key in ("id", "start", "duration", "type"):
        _number(fields.get(key, 0), f"{where}: {key}")
    for key in ("ctrl_deps", "data_deps"):
        deps = fields.get(key, [])
        if not isinstance(deps, list):
            raise InputError(f"{where}: {key}", f"{deps!r:.60}", expected="a list of node ids")
        for dep in deps:
            _number(dep, f"{where}: {key}")
        fields[key] = tuple(deps)
    for key in ("inputs", "outputs"):
        if key in fields:
            fields[key] = IOInfo(**_fields(fields[key], INFO_KEYS, f"{where}: {key}"))
    return Node(**fields)


def _number(value: object, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise InputError(where, f"{value!r:.60}", expected="a whole number from 0 to 2^64 - 1")


def _fields(value: Any, keys: tuple[str, ...], where: str) -> dict[str, Any]:
    """`value` as keyword arguments: only known keys, texts as texts, attributes and bytes decoded."""
    if not isinstance(value, dict):
        raise InputError(where, f"{value!r:.60} is not an object", expected="the keys " + ", ".join(keys))
    fields = dict(value)
    for key, found in value.items():
        if key not in keys:
            raise InputError(where, f"unknown key {key!r:.60}", expected="one of " + ", ".join(keys),
                             did_you_mean=nearest(key, keys))
        if key == "unknown":
            fields[key] = _bytes(found, f"{where}: {key}")
        elif key == "attrs":
            if not isinstance(found, list):
                raise InputError(f"{where}: attrs", f"{found!r:.60}", expected="a list of attributes")
            fields[key] = tuple(_attribute(each, f"{where}: attrs[{i}]") for i, each in enumerate(found))
        elif key in ("name", "doc", "kind", "version", "values", "shapes", "types") and not isinstance(found, str):
            raise InputError(f"{where}: {key}", f"{found!r:.60}", expected="text")
    return fields


def _attribute(value: Any, where: str) -> Attribute:
    fields = _fields(value, ATTRIBUTE_KEYS, where)
    if ("kind" in fields) != ("value" in fields):
        raise InputError(where, "has only one of kind and value", expected="both, or neither")
    fields.setdefault("name", "")
    if "value" in fields:
        fields["value"] = _typed(fields["value"], f"{where}: value")
    try:
        return Attribute(**fields)
    except InputError as error:
        raise InputError(where, error.message, expected=error.expected, did_you_mean=error.did_you_mean) from None


def _typed(value: Any, where: str) -> Any:
    if isinstance(value, dict):
        if set(value) != {"base64"}:
            raise InputError(where, f"{value!r:.60}", expected='bytes as {"base64": "…"}')
        return _bytes(value["base64"], where)
    return tuple(_typed(each, where) for each in value) if isinstance(value, list) else value


def _bytes(value: Any, where: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise InputError(where, f"{value!r:.60}", expected="base64") from None


def _is_lines(head: bytes) -> bool:
    """Whether the first line is an object with only keys of the metadata, and more lines follow."""
    first, _, rest = head.lstrip().partition(b"\n")
    try:
        value = json.loads(first) if first.startswith(b"{") and rest.strip() else None
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.keys() <= set(METADATA_KEYS)


def _read(data: Data, where: str, rank: int) -> Read:
    del rank
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(where, f"cannot be read ({error})") from None
    return Read(encode_trace(*trace_of(lines, where)))


READER = TraceReader(_is_lines, _read)
