"""A trace as the JSON that chakra_jsonizer writes: protobuf's mapping, one object after the other."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any

from astrarium.trace import Attribute, IOInfo, Node
from astrarium.trace.node import decode_metadata, decode_node
from astrarium.vocab import NodeKind

__all__ = ["chakra_json"]

WIDE = ("int64", "uint64", "sint64", "fixed64", "sfixed64")
TYPE_NAMES = {int(kind): f"{kind.name}_NODE" for kind in NodeKind}


def chakra_json(messages: Iterable[bytes]) -> Iterator[str]:
    """An object per message, the metadata first; 64-bit numbers are text and bytes base64, as protobuf says."""
    parts = iter(messages)
    first = next(parts, None)
    if first is None:
        return
    metadata = decode_metadata(first)
    yield _text({"version": metadata.version, "attr": [_attribute(a) for a in metadata.attrs]})
    for message in parts:
        yield _node(decode_node(message))


def _node(node: Node) -> str:
    kind: object = TYPE_NAMES.get(node.type, node.type) if node.type else ""
    return _text({"id": str(node.id) if node.id else "", "name": node.name, "type": kind,
                  "ctrlDeps": [str(each) for each in node.ctrl_deps],
                  "dataDeps": [str(each) for each in node.data_deps],
                  "startTimeMicros": str(node.start) if node.start else "",
                  "durationMicros": str(node.duration) if node.duration else "",
                  "inputs": _info(node.inputs), "outputs": _info(node.outputs),
                  "attr": [_attribute(a) for a in node.attrs]})


def _text(fields: dict[str, Any]) -> str:
    """Fields that have a value, indented by two."""
    return json.dumps({key: value for key, value in fields.items() if value not in ("", [], None)}, indent=2)


def _info(info: IOInfo | None) -> dict[str, str] | None:
    if info is None:
        return None
    pairs = (("values", info.values), ("shapes", info.shapes), ("types", info.types))
    return {key: value for key, value in pairs if value}


def _attribute(attr: Attribute) -> dict[str, Any]:
    found: dict[str, Any] = {"name": attr.name} if attr.name else {}
    if attr.doc:
        found["docString"] = attr.doc
    if attr.kind is not None:
        scalar, form = attr.kind.rsplit("_", 1)
        key = scalar + form.capitalize()
        if form == "list":
            values = [_scalar(scalar, each) for each in attr.value]
            found[key] = {"values": values} if values else {}
        else:
            found[key] = _scalar(scalar, attr.value)
    return found


def _scalar(kind: str, value: Any) -> Any:
    if kind in WIDE:
        return str(value)
    if kind == "bytes":
        return base64.b64encode(value).decode()
    return value
