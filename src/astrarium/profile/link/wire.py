"""Node messages at speed: the pieces that repeat are made once. The general encoder is `astrarium.trace.node`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from astrarium.profile.link.text import UNREADABLE
from astrarium.trace._wire import delimited, varint
from astrarium.trace.node import Node, attribute, encode_node

__all__ = ["Encoder", "io_text"]

_SMALL = tuple(varint(number) for number in range(1 << 14))
_MORE = tuple(bytes((low & 0x7F | 0x80, low >> 7 | 0x80)) for low in range(1 << 14))      # where more bytes follow
_MINUS_ONE = varint(-1)      # PyTorch's sequence number of what has none
_ODD = re.compile(rb"[\\']|true|false|null")


def number(value: int) -> bytes:
    """A varint."""
    if 0 <= value < 1 << 14:
        return _SMALL[value]
    if 0 < value < 1 << 28:
        return _MORE[value & 0x3FFF] + _SMALL[value >> 14]
    return _MINUS_ONE if value == -1 else varint(value)


class Encoder:
    """Encodes nodes field by field; the same bytes as `encode_node` gives for the same node."""

    def __init__(self) -> None:
        self._names: dict[str, bytes] = {}
        self._attrs: dict[tuple[str, object], bytes] = {}
        self._heads: dict[str, bytes] = {}
        self._texts: dict[bytes, bytes] = {}
        self._strides: dict[tuple[bytes, bytes], str] = {}

    def node(self, id_: int, name: str, kind: int, ctrl: Sequence[int], data: Iterable[int], start: int, duration: int,
             info: Sequence[bytes], attrs: Iterable[bytes]) -> bytes:
        """A Node message with its length before it. `info`: encoded inputs and outputs; `attrs`: encoded attributes."""
        text = self._names.get(name)
        if text is None:
            raw = name.encode("utf-8", "surrogateescape")
            text = self._names[name] = b"\x12" + delimited(raw) if raw else b""
        packed = b"".join(map(number, ctrl))
        before = b"\x22" + number(len(packed)) + packed if packed else b""
        packed = b"".join(map(number, data))
        after = b"\x2a" + number(len(packed)) + packed if packed else b""
        message = b"".join((b"\x08", number(id_), text, b"\x18", _SMALL[kind], before, after,
                            b"\x30" + number(start) if start else b"",
                            b"\x38" + number(duration) if duration else b"", *info, *attrs))
        return number(len(message)) + message

    def same(self, name: str, value: object) -> bytes:
        """An attribute whose value many nodes share."""
        found = self._attrs.get((name, value))
        if found is None:
            found = self._attrs[name, value] = encode_node(Node(attrs=(attribute(name, value),)))
        return found

    def whole(self, name: str, value: int) -> bytes:
        """An int64 attribute."""
        head = self._heads.get(name)
        if head is None:
            head = self._heads[name] = b"\x0a" + delimited(name.encode()) + b"\x48"      # name; int64_val
        digits = number(value)
        return b"\x52" + number(len(head) + len(digits)) + head + digits

    def info(self, field: int, texts: Sequence[bytes]) -> bytes:
        """An IOInfo of JSON lists: values, shapes, types; empty where there is nothing in it."""
        if texts[0] == b"[]" and texts[1] == b"[]":
            return b""
        values = b"\x0a" + delimited(io_text(texts[0]))
        content = values + self._known(b"\x12", texts[1]) + self._known(b"\x1a", texts[2])
        return (b"\x42" if field == 8 else b"\x4a") + number(len(content)) + content

    def strides(self, shapes: bytes, strides: bytes) -> str:
        """Strides as Python prints them; empty where every tensor is contiguous, or nothing is said."""
        key = shapes, strides
        found = self._strides.get(key)
        if found is None:
            found = _odd_strides(shapes, strides)
            if len(self._strides) < 1 << 16:
                self._strides[key] = found
        return found

    def _known(self, tag: bytes, json: bytes) -> bytes:
        """Shapes and types repeat; values do not."""
        key = tag + json
        found = self._texts.get(key)
        if found is None:
            found = tag + delimited(io_text(json))
            if len(self._texts) < 1 << 16:
                self._texts[key] = found
        return found


def io_text(json: bytes) -> bytes:
    """A JSON list as Python prints it, which is what Chakra's texts are."""
    inside = b"".join(json.split(b'"')[1::2])      # of all texts in the list
    if b"," in inside or b" " in inside or _ODD.search(json):
        return _printed(json)
    if b" " in json:
        json = json.replace(b" ", b"")
    return json.replace(b",", b", ").replace(b'"', b"'")


def _odd_strides(shapes: bytes, strides: bytes) -> str:
    try:
        found = msgspec.json.decode(strides)
        return "" if _contiguous(msgspec.json.decode(shapes), found) else repr(found)
    except UNREADABLE:
        return ""


def _contiguous(shape: object, strides: object) -> bool:
    """Whether nested lists of shapes and strides are those of contiguous tensors; a dimension of 1 has any stride."""
    if not isinstance(shape, list) or not isinstance(strides, list) or len(shape) != len(strides):
        return True
    if any(isinstance(each, list) for each in shape):
        return all(map(_contiguous, shape, strides))
    if not all(isinstance(each, int) for each in (*shape, *strides)):
        return True
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return 0 in shape
        expected *= size
    return True


def _printed(json: bytes) -> bytes:
    try:
        return repr(msgspec.json.decode(json)).encode("utf-8", "backslashreplace")
    except UNREADABLE:
        return b"[]"
