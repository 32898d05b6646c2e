"""The 30 fields of AttributeProto's oneof: encoding and decoding by kind."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from astrarium.errors import InputError
from astrarium.trace._wire import DELIMITED, FIXED32, FIXED64, VARINT, Cursor, delimited, signed, tagged, varint

__all__ = ["DEFAULT_KIND", "KINDS", "decode_value", "encode_value", "kind_of"]

_SCALARS = ("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64",
            "sfixed32", "sfixed64", "bool", "string", "bytes")
KINDS = {f"{scalar}_{form}": 3 + 2 * i + j
         for i, scalar in enumerate(_SCALARS) for j, form in enumerate(("val", "list"))}
_NAMES = {number: kind for kind, number in KINDS.items()}
_WIRE = {"double": FIXED64, "fixed64": FIXED64, "sfixed64": FIXED64, "float": FIXED32, "fixed32": FIXED32,
         "sfixed32": FIXED32, "string": DELIMITED, "bytes": DELIMITED}
_WRITTEN = {f"{scalar}_{form}": (varint(KINDS[f"{scalar}_{form}"] << 3 | wire), scalar, form == "list")
            for scalar in _SCALARS for form, wire in (("val", _WIRE.get(scalar, VARINT)), ("list", DELIMITED))}
_STRUCT = {"double": "<d", "float": "<f", "fixed64": "<Q", "sfixed64": "<q", "fixed32": "<I", "sfixed32": "<i"}
_RANGE = {"int32": (-1 << 31, 1 << 31), "sint32": (-1 << 31, 1 << 31), "sfixed32": (-1 << 31, 1 << 31),
          "int64": (-1 << 63, 1 << 63), "sint64": (-1 << 63, 1 << 63), "sfixed64": (-1 << 63, 1 << 63),
          "uint32": (0, 1 << 32), "fixed32": (0, 1 << 32), "uint64": (0, 1 << 64), "fixed64": (0, 1 << 64)}

# What Chakra's generators and converters write (comm_size and num_ops: int64, tensor_size: uint64, …).
DEFAULT_KIND = {"is_cpu_op": "bool_val", "comm_type": "int64_val", "comm_size": "int64_val", "comm_src": "int32_val",
                "comm_dst": "int32_val", "comm_tag": "int32_val", "comm_priority": "int32_val", "pg_name": "string_val",
                "num_ops": "int64_val", "tensor_size": "uint64_val", "involved_dim": "bool_list", "stream": "int64_val"}


def kind_of(name: str, value: Any) -> str:
    """The kind that fits a Python value."""
    if isinstance(value, (list, tuple)):
        kinds = {_scalar_kind(name, item) for item in value}
        if len(kinds) == 1:
            return f"{kinds.pop()}_list"
        raise InputError(f"attribute {name!r}", f"a list of {len(value)} values of {len(kinds)} types",
                         expected="values of one type, or an explicit kind")
    return f"{_scalar_kind(name, value)}_val"


def _scalar_kind(name: str, value: Any) -> str:
    for kind, types in (("bool", bool), ("int64", int), ("double", float), ("string", str), ("bytes", bytes)):
        if isinstance(value, types):
            return kind
    raise InputError(f"attribute {name!r}", f"value {value!r}",
                     expected="bool, int, float, str, bytes or a list of one")


def encode_value(name: str, kind: str, value: Any) -> bytes:
    """Tag and content of one oneof field. InputError where the value does not fit the kind."""
    tag, scalar, is_list = _WRITTEN[kind]
    try:
        return tag + (delimited(_list(scalar, value)) if is_list else _scalar(scalar, value))
    except (TypeError, ValueError, AttributeError, struct.error, OverflowError):
        raise InputError(f"attribute {name!r}", f"value {value!r} does not fit {kind}") from None


def _list(scalar: str, values: Sequence[Any]) -> bytes:
    if scalar in ("string", "bytes"):
        return b"".join(tagged(1, DELIMITED, _scalar(scalar, value)) for value in values)
    content = b"".join(_scalar(scalar, value) for value in values)
    return tagged(1, DELIMITED, delimited(content)) if content else b""


def _scalar(scalar: str, value: Any) -> bytes:
    if scalar in ("string", "bytes"):
        return delimited(value.encode("utf-8", "surrogateescape") if scalar == "string" else bytes(value))
    if scalar in ("double", "float"):
        return struct.pack(_STRUCT[scalar], value)
    if scalar == "bool":
        return varint(int(bool(value)))
    low, high = _RANGE[scalar]
    if not isinstance(value, int) or not low <= value < high:
        raise ValueError(value)
    if scalar in _STRUCT:
        return struct.pack(_STRUCT[scalar], value)
    return varint((value << 1) ^ (value >> 63) if scalar.startswith("sint") else value)


def decode_value(tag: int, cursor: Cursor, kind: str | None, before: Any) -> tuple[str, Any] | None:
    """(kind, value) of the oneof field whose tag was just read; None, nothing read, where it is not one.

    A list that appears again continues `before`, as in protobuf.
    """
    found = _NAMES.get(tag >> 3)
    if found is None:
        return None
    scalar, form = found.rsplit("_", 1)
    if tag & 7 != (DELIMITED if form == "list" else _WIRE.get(scalar, VARINT)):
        return None
    if form == "val":
        return found, _read_scalar(scalar, cursor)
    items = list(before) if kind == found else []
    inner = cursor.inside(cursor.delimited())
    while inner.at != inner.end:
        _read_items(scalar, inner, items)
    return found, tuple(items)


def _read_items(scalar: str, cursor: Cursor, items: list[Any]) -> None:
    tag = cursor.tag()
    wire = _WIRE.get(scalar, VARINT)
    if tag == 1 << 3 | wire:
        items.append(_read_scalar(scalar, cursor))
    elif tag == 1 << 3 | DELIMITED:
        numbers = cursor.inside(cursor.delimited())
        while numbers.at != numbers.end:
            items.append(_read_scalar(scalar, numbers))
    else:
        cursor.skip(tag)


def _read_scalar(scalar: str, cursor: Cursor) -> Any:
    if scalar in ("string", "bytes"):
        start, end = cursor.delimited()
        content = cursor.data[start:end]
        return content.decode("utf-8", "surrogateescape") if scalar == "string" else content
    if scalar in _STRUCT:
        size = struct.calcsize(_STRUCT[scalar])
        return struct.unpack(_STRUCT[scalar], cursor.fixed(size).to_bytes(size, "little"))[0]
    number = cursor.varint()
    if scalar == "bool":
        return number != 0
    if scalar.endswith("32"):
        number &= 0xFFFFFFFF
    if scalar.startswith("sint"):
        return number >> 1 ^ -(number & 1)
    return number if scalar.startswith("uint") else signed(number, 32 if scalar.endswith("32") else 64)
