"""Short cuts between node messages and JSON lines, for the nodes that real traces consist of.

Both give what `trace_json` gives, or None where a node is out of the ordinary (unknown fields, tensors, lists that
repeat…); attributes, which are mostly equal, are translated once each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from astrarium.vocab import NodeKind

__all__ = ["Cache", "keep", "line_of", "message_of"]

Cache = MutableMapping[Any, Any]
"""What an attribute's bytes are as text, or the other way; emptied when it holds MOST."""

MOST = 1 << 16
KINDS: Mapping[int, str] = {int(kind): kind.name for kind in NodeKind}
NUMBER = {name: number for number, name in KINDS.items()}
ID, NAME, TYPE, CTRL, DATA, START, DURATION, ATTR = 0x08, 0x12, 0x18, 0x22, 0x2A, 0x30, 0x38, 0x52     # tags
SIMPLE = frozenset({"id", "name", "type", "ctrl_deps", "data_deps", "start", "duration", "attrs"})
ATTRIBUTE = {"name", "kind", "value"}


def keep(cache: Cache, key: object, value: object) -> None:
    """`cache[key] = value`, in bounded memory."""
    if len(cache) >= MOST:
        cache.clear()
    cache[key] = value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(number, where it ends); IndexError past the end; what is longer than it must be is left to the slow way."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 56:
            raise IndexError


def _ids(data: bytes, at: int, end: int) -> str:
    found = []
    while at < end:
        number, at = _varint(data, at)
        found.append(number)
    if at != end:
        raise IndexError
    return ", ".join(map(str, found))


def line_of(message: bytes, text_of: Callable[[bytes], str], cache: Cache) -> str | None:
    """A node's JSON line; `text_of` gives the text of an attribute's message. None: take the slow way."""
    try:
        return _line(message, text_of, cache)
    except (IndexError, UnicodeDecodeError):
        return None


def _line(data: bytes, text_of: Callable[[bytes], str], cache: Cache) -> str | None:
    parts: dict[int, str] = {}
    attrs: list[str] = []
    at, length, last = 0, len(data), 0
    while at < length:
        tag = data[at]
        if tag < last or (tag == last and tag != ATTR):       # fields that come back or in another order
            return None
        last = tag
        number, at = _varint(data, at + 1)
        if tag in (ID, TYPE, START, DURATION):
            parts[tag] = str(number)
            continue
        end = at + number
        if end > length:
            return None
        if tag == ATTR:
            attribute = data[at:end]
            text = cache.get(attribute)
            if text is None:
                text = text_of(attribute)
                keep(cache, attribute, text)
            attrs.append(text)
        elif tag == NAME and number:
            parts[tag] = quoted(data[at:end].decode())
        elif tag in (CTRL, DATA) and number:
            parts[tag] = _ids(data, at, end)
        else:
            return None
        at = end
    return _put_together(parts, attrs)


def _put_together(parts: Mapping[int, str], attrs: Sequence[str]) -> str | None:
    kind = KINDS.get(int(parts.get(TYPE, "0")))
    if kind is None or kind == KINDS[0]:        # 0 is what a left-out type is
        return None
    text = f'{{"id": {parts.get(ID, "0")}'
    if NAME in parts:
        text += f', "name": {parts[NAME]}'
    text += f', "type": "{kind}"'
    for tag, key in ((CTRL, "ctrl_deps"), (DATA, "data_deps")):
        if tag in parts:
            text += f', "{key}": [{parts[tag]}]'
    for tag, key in ((START, "start"), (DURATION, "duration")):
        if parts.get(tag, "0") != "0":
            text += f', "{key}": {parts[tag]}'
    return text + (f', "attrs": [{", ".join(attrs)}]}}' if attrs else "}")


def _bytes(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def message_of(value: Any, encoded: Callable[[Any, int], bytes], cache: Cache) -> bytes | None:
    """A node's message, given its JSON object; `encoded(attribute, number)` gives an attribute's field. None: take the
    slow way."""
    if type(value) is not dict or not value.keys() <= SIMPLE:
        return None
    kind, name, attrs = value.get("type"), value.get("name", ""), value.get("attrs", [])
    if type(kind) is not str or kind not in NUMBER or type(name) is not str or type(attrs) is not list:
        return None
    numbers = [_number(tag, field) for tag, field in (
        (ID, value.get("id", 0)), (TYPE, NUMBER[kind]), (START, value.get("start", 0)),
        (DURATION, value.get("duration", 0)))]
    lists = [_packed(CTRL, value.get("ctrl_deps", [])), _packed(DATA, value.get("data_deps", []))]
    if None in numbers or None in lists or not name.isprintable():      # a lone surrogate is not printable
        return None
    tail = [_attribute(each, number, encoded, cache) for number, each in enumerate(attrs)]
    return b"".join(filter(None, (numbers[0], _text(name), numbers[1], *lists, *numbers[2:], *tail)))


def _text(name: str) -> bytes:
    content = name.encode()
    return b"\x12" + _bytes(len(content)) + content if content else b""


def _number(tag: int, value: Any) -> bytes | None:
    if type(value) is not int or not 0 <= value < 1 << 64:
        return None
    return bytes((tag,)) + _bytes(value) if value else b""


def _packed(tag: int, ids: Any) -> bytes | None:
    if type(ids) is not list or not all(type(each) is int and 0 <= each < 1 << 64 for each in ids):
        return None
    content = b"".join(map(_bytes, ids))
    return bytes((tag,)) + _bytes(len(content)) + content if content else b""


def _attribute(value: Any, number: int, encoded: Callable[[Any, int], bytes], cache: Cache) -> bytes:
    key = None
    if type(value) is dict and value.keys() == ATTRIBUTE:
        name, kind, held = value["name"], value["kind"], value["value"]
        if type(name) is type(kind) is str and type(held) in (int, bool, str):
            key = (name, kind, type(held), held)
            found = cache.get(key)
            if found is not None:
                return bytes(found)
    made = encoded(value, number)
    if key is not None:
        keep(cache, key, made)
    return made
