"""Profiler files as bytes: plain or gzip, of a bounded size; and JSON that profilers write although it is none."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from astrarium.errors import InputError, short_name
from astrarium.trace.read import unpacked

__all__ = ["UNREADABLE", "decoded", "file_bytes", "numbers"]

UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What msgspec raises for text that is not JSON of the form that was asked for."""

T = TypeVar("T")
_NO_NUMBER = re.compile(rb"([:\[,]\s*)[-+]?(?:nan|inf|infinity)(?:\([a-z0-9]*\))?(?=\s*[,\]}])", re.IGNORECASE)
_BAD_ESCAPE = re.compile(rb'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|(.|$))', re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x1f]")


def file_bytes(path: str | os.PathLike[str]) -> bytes | bytearray:
    """The content of a file, decompressed where it is gzip (known by its magic). InputError where it cannot be had."""
    where = os.fspath(path)
    try:
        with open(where, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:      # ValueError: a name that no file can have
        raise InputError(where[:200], f"cannot be read ({getattr(error, 'strerror', None) or error})") from None
    return unpacked(data, where)


def decoded(data: bytes | bytearray, where: str, decode: Callable[[bytes | bytearray], T], expected: str) -> T:
    """`decode(data)`; a second time after mending what profilers are known to get wrong.

    Mended are NaN and infinite numbers (null), backslashes that escape nothing, control characters and invalid UTF-8
    in texts. Raises InputError for anything else that is not JSON of the `expected` form.
    """
    try:
        return decode(data)
    except UNREADABLE:
        pass
    try:
        return decode(_mended(data))
    except RecursionError:
        raise InputError(where, "nests too deeply", expected=expected) from None
    except UNREADABLE as error:
        raise InputError(where, short_name(str(error)), expected=expected) from None


def _mended(data: bytes | bytearray) -> bytes:
    text = _NO_NUMBER.sub(rb"\1null", data)
    text = _BAD_ESCAPE.sub(lambda found: found[0] if found[1] else rb"\\" + found[2], text)
    text = _CONTROL.sub(b" ", text)
    return text.decode("utf-8", "replace").encode()


def numbers(value: Any) -> tuple[int, ...] | None:
    """`[100, 200]`, which Kineto prints as a text; None for another thing, and for a list that it has cut short."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value.encode("utf-8", "replace"))
        except UNREADABLE:
            return None
    whole = isinstance(value, list) and bool(value) and all(
        isinstance(each, int) and not isinstance(each, bool) and 0 <= each < 1 << 62 for each in value)
    return tuple(value) if whole else None
