"""The JSON traces of Chakra's feeder: `{"workload_graph": [{"Id": 3, "Name": "mm", "NodeType": 4, …}, …]}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from astrarium.errors import InputError
from astrarium.profile.link.text import decoded
from astrarium.trace.node import Metadata, Node, attribute
from astrarium.trace.write import encode_trace
from astrarium.vocab import NodeKind

__all__ = ["feeder_trace"]

FORM = ('{"workload_graph": [{"Id": 0, "Name": "…", "NodeType": 4, "is_cpu_op": false, "runtime": 5, "data_deps": []}, '
        '…]}')
NEEDED = ("Id", "Name", "NodeType", "data_deps")
TOP = 2**64


def feeder_trace(data: bytes | bytearray, where: str) -> bytes:
    """Convert a JSON trace of the feeder to a Chakra file. `runtime` is in us; other scalar keys become attributes.

    Raises InputError naming the node and the key that has another form.
    """
    document = decoded(data, where, msgspec.json.Decoder(dict[str, Any]).decode, FORM)
    found = document.get("workload_graph")
    if not isinstance(found, list):
        raise InputError(f"{where}: workload_graph", "is no list", expected=FORM)
    nodes = [_node(entry, f"{where}: workload_graph[{place}]") for place, entry in enumerate(found)]
    return encode_trace(Metadata("", ()), nodes)


def _node(entry: Any, where: str) -> Node:
    if not isinstance(entry, dict):
        raise InputError(where, f"{entry!r:.60}", expected=FORM)
    for key in NEEDED:
        if key not in entry:
            raise InputError(where, f"has no {key}", expected=FORM)
    if not isinstance(entry["Name"], str):
        raise InputError(f"{where}.Name", f"{entry['Name']!r:.60}", expected="text")
    ctrl, data = (_ids(entry.get(key, []), f"{where}.{key}") for key in ("ctrl_deps", "data_deps"))
    rest = {key: value for key, value in entry.items() if key not in {*NEEDED, "ctrl_deps", "runtime"}}
    for key, value in rest.items():
        if not isinstance(value, (bool, int, float, str)):
            raise InputError(f"{where}.{key}", f"{value!r:.60}", expected="a number, a text, true or false")
    return Node(_whole(entry["Id"], f"{where}.Id"), entry["Name"], _kind(entry, where), ctrl, data,
                duration=_whole(entry.get("runtime", 0), f"{where}.runtime"), attrs=_attributes(rest, where))


def _attributes(rest: Mapping[str, Any], where: str) -> tuple[Any, ...]:
    try:
        return tuple(attribute(key, value) for key, value in rest.items())
    except InputError as error:
        raise InputError(where, error.message, expected=error.expected) from None


def _kind(entry: Mapping[str, Any], where: str) -> int:
    value = entry["NodeType"]
    names = {f"{kind.name}_NODE": int(kind) for kind in NodeKind} | {kind.name: int(kind) for kind in NodeKind}
    if isinstance(value, str) and value in names:
        return names[value]
    if isinstance(value, bool) or value not in set(NodeKind):
        raise InputError(f"{where}.NodeType", f"{value!r:.60}",
                         expected=", ".join(f"{int(kind)} {kind.name}" for kind in NodeKind))
    return int(value)


def _ids(value: Any, where: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise InputError(where, f"{value!r:.60}", expected="a list of node ids")
    return tuple(_whole(each, where) for each in value)


def _whole(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < TOP:
        raise InputError(where, f"{value!r:.60}", expected="a whole number from 0 to 2^64 - 1")
    return value
