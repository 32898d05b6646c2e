"""Changing single fields of a Node message; all other bytes stay as they were read, unknown fields included."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from astrarium.trace._oneof import encode_value
from astrarium.trace._wire import DELIMITED, VARINT, Cursor, delimited, packed, tagged, varint
from astrarium.trace.node import Attribute, Node, attribute, decode_node, encode_node

__all__ = ["DURATION", "NAME", "Change", "patch", "replaced"]

ID, NAME, TYPE, CTRL, DATA, START, DURATION, INPUTS, OUTPUTS, ATTR = range(1, 11)


class Change(Struct, frozen=True):
    """What is new about a node; None keeps what is there. Times in microseconds, dependencies are node ids.

    `values` gives attributes a new value (of the kind that the old one had where that is a number, else the one that
    Chakra's generators use), None removes them; `without(name)` removes attributes by name. `bare` removes inputs and
    outputs, `inputs_values` replaces the text `inputs.values`.
    """

    id: int | None = None
    name: str | None = None
    type: int | None = None
    start: int | None = None
    duration: int | None = None
    data_deps: tuple[int, ...] | None = None
    ctrl_deps: tuple[int, ...] | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    without: Callable[[str], bool] | None = None
    bare: bool = False
    inputs_values: str | None = None


def patch(message: bytes, change: Change) -> bytes:
    """The Node message with the change made; ValueError(offset, what) where it is malformed."""
    new: dict[int, bytes] = dict(_replaced(change))
    parts: list[tuple[int, bytes]] = []
    left = dict(change.values)
    for number, raw, start in _fields(message):
        if number in new or (change.bare and number in (INPUTS, OUTPUTS)):
            continue
        if number == ATTR and (change.values or change.without):
            raw_new = _attribute(message, raw, start, change, left)
            if raw_new is not None:
                parts.append((ATTR, raw_new))
        elif number == INPUTS and change.inputs_values is not None:
            parts.append((INPUTS, _info(raw, change.inputs_values)))
        else:
            parts.append((number, raw))
    parts += [(number, raw) for number, raw in new.items() if raw]
    parts += [(ATTR, encode_node(Node(attrs=(attribute(name, value),)))) for name, value in left.items()
              if value is not None]
    return b"".join(raw for _, raw in sorted(parts, key=lambda part: part[0]))


def replaced(message: bytes, field: int, raw: bytes) -> bytes:
    """The Node message with `raw` (tag and all) in the place of a field; ValueError(offset, what) if malformed."""
    parts = [(number, each) for number, each, _ in _fields(message) if number != field]
    return b"".join(each for _, each in sorted([*parts, (field, raw)], key=lambda part: part[0]))


def _replaced(change: Change) -> Iterator[tuple[int, bytes]]:
    """Field number -> its new bytes, for the fields that a node has once."""
    for number, value in ((ID, change.id), (TYPE, change.type), (START, change.start),
                          (DURATION, change.duration)):
        if value is not None:
            yield number, tagged(number, VARINT, varint(value)) if value else b""
    if change.name is not None:
        text = change.name.encode("utf-8", "surrogateescape")
        yield NAME, tagged(NAME, DELIMITED, delimited(text)) if text else b""
    for number, ids in ((CTRL, change.ctrl_deps), (DATA, change.data_deps)):
        if ids is not None:
            yield number, tagged(number, DELIMITED, delimited(packed(ids))) if ids else b""


def _fields(message: bytes) -> Iterator[tuple[int, bytes, int]]:
    """(number, bytes with the tag, where the content of a delimited field starts in `message`) of every field."""
    at, size, cursor = 0, len(message), Cursor(message, 0, len(message))
    while at < size:
        tag = message[at]
        if tag < 0x80 and tag & 7 == DELIMITED and at + 1 < size and message[at + 1] < 0x80:
            end = at + 2 + message[at + 1]      # most fields: a byte of tag, a byte of length
            if end > size or tag < 8:
                raise ValueError(at, "a length runs past the end of its message")
            yield tag >> 3, message[at:end], at + 2
            at = end
            continue
        cursor.at = at
        number = cursor.tag()
        if number & 7 == DELIMITED:
            start, end = cursor.delimited()
        else:
            start = cursor.at
            cursor.skip(number)
            end = cursor.at
        yield number >> 3, message[at:end], start
        at = end


def _attribute(message: bytes, raw: bytes, start: int, change: Change, left: dict[str, Any]) -> bytes | None:
    """One attribute's field as it stays, with its new value, or None where it goes."""
    name = _name(message, start)
    if name is None:
        name = decode_node(raw).attrs[0].name
    if name in left:
        value = left.pop(name)
        return None if value is None else _valued(raw, name, value)
    if name in change.values or (change.without is not None and change.without(name)):
        return None         # a second one of the same name, or one to strip
    return raw


def _name(message: bytes, start: int) -> str | None:
    """The attribute's name where it comes first and is short, as all writers do; None: look properly."""
    if start + 2 <= len(message) and message[start] == NAME_TAG and message[start + 1] < 0x80:
        return message[start + 2:start + 2 + message[start + 1]].decode("utf-8", "surrogateescape")
    return None


NAME_TAG = 1 << 3 | DELIMITED


def _valued(raw: bytes, name: str, value: Any) -> bytes:
    """The attribute with another value, of the kind that it had where both are numbers."""
    old = decode_node(raw).attrs[0]
    numbers = isinstance(value, (int, float)) and isinstance(old.value, (int, float))
    kind = old.kind if numbers and not (isinstance(value, float) and isinstance(old.value, int)) else None
    new = attribute(name, value, kind)
    kept = Attribute(name, new.value, new.kind, old.doc, old.unknown)
    encode_value(name, kept.kind or "", kept.value)      # InputError names the attribute where it does not fit
    return encode_node(Node(attrs=(kept,)))


def _info(raw: bytes, values: str) -> bytes:
    from msgspec.structs import replace

    node = decode_node(raw)
    assert node.inputs is not None
    return encode_node(Node(inputs=replace(node.inputs, values=values)))
