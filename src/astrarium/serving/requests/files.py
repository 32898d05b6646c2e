"""Reading of files of requests: every fault with its file, line and column."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import Any, TextIO

from msgspec import DecodeError
from msgspec.json import Decoder

from astrarium.errors import InputError

__all__ = ["json_lines", "read_text", "seconds", "table_rows", "whole"]

LARGEST = 2_000_000_000         # characters of a file
WIDEST = 100_000_000            # characters of a line
FRACTION = re.compile(r"\.(\d+)")
DIGITS = re.compile(r"[0-9]{1,18}")


def read_text(path: str, what: str) -> str:
    """A file's text; `what` it should be. Raises InputError."""
    with _opened(path, what) as file:
        text: str = file.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise InputError(path, f"more than {LARGEST:,} characters", expected="a smaller file")
    return text


@contextmanager
def _opened(path: str, what: str) -> Iterator[TextIO]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            yield file
    except (OSError, UnicodeError, ValueError) as error:
        raise InputError(path, f"cannot be read ({error})", expected=what) from error


def _lines(file: TextIO, path: str) -> Iterator[str]:
    """Lines of a file, which are no longer than WIDEST."""
    while line := file.readline(WIDEST):
        if len(line) == WIDEST:
            raise InputError(path, f"has a line of more than {WIDEST:,} characters", expected="a request a line")
        yield line


def table_rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """(line, values) of a CSV file, the header first; empty lines are left out."""
    with _opened(path, "a CSV file") as file:
        reader = csv.reader(_lines(file, path))
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except csv.Error as error:
            raise InputError(f"{path}, line {reader.line_num}", f"is no CSV ({error})",
                             expected="values with commas") from error


def json_lines(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file and line, object) of each line that is not empty."""
    decoder = Decoder()
    with _opened(path, "a file with a JSON object on each line") as file:
        for number, line in enumerate(_lines(file, path), start=1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                found = decoder.decode(line)
            except (DecodeError, UnicodeError, RecursionError) as error:
                raise InputError(where, f"is no JSON ({error})", expected="an object") from error
            if not isinstance(found, dict):
                raise InputError(where, f"{line.strip()[:40]!r} is no object", expected="{...} with a key a value")
            if line.count('":') > len(found):
                _once(line, where)
            yield where, found


def _once(line: str, where: str) -> None:
    """Raise InputError for a key that is there twice."""

    def pairs(given: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in given]
        for place, name in enumerate(names):
            if name in names[:place]:
                raise InputError(where, f"key {name[:40]!r} is there twice", expected="one value of a key")

    with suppress(RecursionError):      # of something nested, which no key of a request is
        json.loads(line, object_pairs_hook=pairs, parse_int=str)


def whole(value: object, where: str, least: int, limit: int) -> int:
    """A whole number from `least` to below `limit`, written as one or as text. Raises InputError that names `where`."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and DIGITS.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(where, f"{str(value)[:40]!r} is no whole number", expected=f"{least} or more")
    if not least <= value < limit:
        raise InputError(where, f"{value} is out of range", expected=f"{least} or more, below {limit:,}")
    return value


def seconds(value: object, where: str) -> float:
    """Seconds, as a number or as a date and time (its fraction of any length). Raises InputError."""
    try:
        found = float(value) if isinstance(value, (int, float)) else _parsed(str(value).strip())
    except (ValueError, OverflowError) as error:
        raise InputError(where, f"{str(value)[:40]!r} is no time", expected="seconds, or a date and time") from error
    if not 0 <= found < 1e12:
        raise InputError(where, f"{str(value)[:40]!r} is out of range", expected="0 or more, below 1e12")
    return found


def _parsed(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        fraction = FRACTION.search(text)
        moment = datetime.fromisoformat(FRACTION.sub("", text, count=1))
        since = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return since.timestamp() + (float(fraction[0]) if fraction else 0.0)
