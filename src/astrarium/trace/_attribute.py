"""One AttributeProto as the reader sees it: the pure-Python twin of native/trace/attribute.cpp."""

from __future__ import annotations

import enum
import struct

from msgspec import Struct

from astrarium.trace._wire import DELIMITED, FIXED32, FIXED64, VARINT, Cursor, signed

__all__ = ["ATTR_BY_NAME", "FIRST_MASKED", "MAX_BOOLS", "Attribute", "Filling", "filling_of", "read_attribute"]

ATTR_BY_NAME = {name: number for number, name in enumerate(
    (b"is_cpu_op", b"comm_type", b"comm_size", b"comm_priority", b"num_ops", b"tensor_size", b"stream",
     b"involved_dim", b"pg_name", b"comm_src", b"comm_dst", b"comm_tag"))}
FIRST_MASKED = ATTR_BY_NAME[b"pg_name"]   # this one and the later ones differ between ranks of one class
MAX_BOOLS = 32
_WIRE = {3: FIXED64, 21: FIXED64, 25: FIXED64, 5: FIXED32, 19: FIXED32, 23: FIXED32,
         **dict.fromkeys((7, 9, 11, 13, 15, 17, 27), VARINT)}


class Filling(enum.IntEnum):
    """Whether an attribute holds something, and whether a model can read it."""

    NOTHING = 0
    READABLE = 1
    WRONG = 2


class Attribute(Struct):
    """`value` is None (nothing), int, float, bytes (string_val), list[bool] (bool_list) or Ellipsis (another)."""

    attr: int | None = None
    value: object = None


def read_attribute(cursor: Cursor) -> Attribute:
    """The last value of the oneof; fields with the wrong wire type are unknown fields, as in protobuf."""
    found, name = Attribute(), b""
    while cursor.at != cursor.end:
        tag = cursor.tag()
        field, wire = tag >> 3, tag & 7
        if tag == 1 << 3 | DELIMITED:
            start, end = cursor.delimited()
            name = cursor.data[start:end]
        elif not 3 <= field <= 32 or wire != _WIRE.get(field, DELIMITED):
            cursor.skip(tag)
        elif wire == DELIMITED:
            found.value = _delimited(found.value, field, cursor)
        elif wire == VARINT:
            found.value = _varint(field, cursor.varint())
        else:
            found.value = _fixed(field, cursor.fixed(8 if wire == FIXED64 else 4))
    found.attr = ATTR_BY_NAME.get(name)
    return found


def filling_of(attribute: Attribute) -> Filling:
    """Integer attributes take any integer oneof; num_ops also a real one, pg_name also text, involved_dim bool_list."""
    value, attr = attribute.value, attribute.attr
    if value is None:
        return Filling.NOTHING
    if attr == ATTR_BY_NAME[b"involved_dim"]:
        good = isinstance(value, list) and len(value) <= MAX_BOOLS
    elif attr == ATTR_BY_NAME[b"pg_name"]:
        good = isinstance(value, (int, bytes))
    elif attr == ATTR_BY_NAME[b"num_ops"]:
        good = isinstance(value, (int, float))
    else:
        good = isinstance(value, int)
    return Filling.READABLE if good else Filling.WRONG


def _varint(field: int, value: int) -> int:
    if field == 7:
        return signed(value, 32)
    if field == 9:
        return signed(value)
    if field == 11:
        return value & 0xFFFFFFFF
    if field == 13:
        return value
    if field in (15, 17):
        value = value & 0xFFFFFFFF if field == 15 else value
        return value >> 1 ^ -(value & 1)
    return int(value != 0)


def _fixed(field: int, value: int) -> int | float:
    if field == 3:
        return float(struct.unpack("<d", value.to_bytes(8, "little"))[0])
    if field == 5:
        return float(struct.unpack("<f", value.to_bytes(4, "little"))[0])
    if field == 23:
        return signed(value, 32)
    return signed(value) if field == 25 else value


def _delimited(before: object, field: int, cursor: Cursor) -> object:
    span = cursor.delimited()
    if field == 28:
        bools = list(before) if isinstance(before, list) else []
        _add_bools(bools, cursor.inside(span))
        return bools
    return cursor.data[span[0]:span[1]] if field == 29 else ...


def _add_bools(into: list[bool], cursor: Cursor) -> None:
    while cursor.at != cursor.end:
        tag = cursor.tag()
        if tag == 1 << 3 | VARINT:
            into.append(cursor.varint() != 0)
        elif tag == 1 << 3 | DELIMITED:
            packed = cursor.inside(cursor.delimited())
            while packed.at != packed.end:
                into.append(packed.varint() != 0)
        else:
            cursor.skip(tag)
