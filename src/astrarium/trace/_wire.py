"""Protocol buffer wire format in pure Python: the readable twin of native/trace/protobuf.hpp.

A fault raises `ValueError(offset, what)`, as the compiled core does: the byte offset of the item that is wrong, and
what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["DELIMITED", "END_GROUP", "FIXED32", "FIXED64", "GROUP", "MAX_GROUP_DEPTH", "VARINT", "Cursor", "delimited",
           "packed", "signed", "tagged", "varint"]

VARINT, FIXED64, DELIMITED, GROUP, END_GROUP, FIXED32 = range(6)
MAX_GROUP_DEPTH = 64
_U64 = (1 << 64) - 1
_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))


def varint(value: int) -> bytes:
    """The shortest varint of `value` taken modulo 2^64 (a negative number takes ten bytes, as in protobuf)."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    value &= _U64
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def delimited(content: bytes) -> bytes:
    """Length, then content."""
    return varint(len(content)) + content


def tagged(field: int, wire: int, content: bytes) -> bytes:
    """Field number and wire type, then the raw content."""
    return varint(field << 3 | wire) + content


def packed(numbers: Iterable[int]) -> bytes:
    """The content of a packed repeated varint field."""
    return b"".join(map(varint, numbers))


def signed(value: int, bits: int = 64) -> int:
    """The low `bits` of `value` as a two's complement number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class Cursor:
    """A position in `data[at:end]`, one message of a file; offsets count from the start of `data`."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int, end: int):
        self.data, self.at, self.end = data, at, end

    def fail(self, place: int, what: str) -> ValueError:
        return ValueError(place, what)

    def inside(self, span: tuple[int, int]) -> Cursor:
        """A cursor over the content of a delimited field."""
        return Cursor(self.data, *span)

    def varint(self) -> int:
        """An unsigned 64-bit number of at most ten bytes."""
        start, value = self.at, 0
        for shift in range(0, 70, 7):
            if self.at == self.end:
                raise self.fail(start, "a number runs past the end of its message")
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & _U64
        raise self.fail(start, "a number is longer than 10 bytes")

    def tag(self) -> int:
        """Field number * 8 + wire type."""
        start = self.at
        value = self.varint()
        if value > 0xFFFFFFFF:
            raise self.fail(start, "field number out of range")
        if value < 8:
            raise self.fail(start, "field number 0")
        if value & 7 > FIXED32:
            raise self.fail(start, "unknown wire type")
        return value

    def delimited(self) -> tuple[int, int]:
        """Start and end of the content of a length-delimited field."""
        start = self.at
        size = self.varint()
        if size > self.end - self.at:
            raise self.fail(start, "a length runs past the end of its message")
        self.at += size
        return self.at - size, self.at

    def fixed(self, size: int) -> int:
        """A little-endian unsigned number of `size` bytes."""
        if self.end - self.at < size:
            raise self.fail(self.at, "a value runs past the end of its message")
        self.at += size
        return int.from_bytes(self.data[self.at - size:self.at], "little")

    def skip(self, tag: int) -> None:
        """Passes over the field whose tag has just been read."""
        if tag & 7 in (GROUP, END_GROUP):
            self._skip_group(tag)
        else:
            self._skip_scalar(tag)

    def validate(self) -> None:
        """Walks the fields to the end; raises where this is not a message."""
        while self.at != self.end:
            self.skip(self.tag())

    def _skip_scalar(self, tag: int) -> None:
        wire = tag & 7
        if wire == VARINT:
            self.varint()
        elif wire == DELIMITED:
            self.delimited()
        else:
            self.fixed(8 if wire == FIXED64 else 4)

    def _skip_group(self, tag: int) -> None:
        start = self.at
        if tag & 7 == END_GROUP:
            raise self.fail(start, "a group ends that never began")
        open_groups = [tag >> 3]
        while open_groups:
            if self.at == self.end:
                raise self.fail(start, "a group runs past the end of its message")
            place = self.at
            inner = self.tag()
            if inner & 7 == GROUP:
                if len(open_groups) == MAX_GROUP_DEPTH:
                    raise self.fail(place, "groups nest too deeply")
                open_groups.append(inner >> 3)
            elif inner & 7 == END_GROUP:
                if open_groups.pop() != inner >> 3:
                    raise self.fail(place, "a group ends that never began")
            else:
                self._skip_scalar(inner)
