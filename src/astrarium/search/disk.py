"""What a disk does to a study: errors in one clear line, and a new file of what can be read of a damaged one."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from astrarium.errors import InputError

__all__ = ["FILES", "damaged", "disk_error", "readable", "reading", "replace_damaged"]

FILES = ("", "-wal", "-shm")      # a database, beside it what is not in it yet, and the index of that
AGAIN = "the same command again: it goes on from the trials that are stored"
SMALLEST = 40                     # bytes of a trial at least


def damaged(error: Exception) -> bool:
    """Whether the file holds what no study holds (a full disk or one that cannot be read is an OperationalError, but so
    is text that is no UTF-8)."""
    return not isinstance(error, sqlite3.OperationalError) or "UTF-8" in str(error)


def disk_error(path: str, error: Exception) -> InputError:
    """The error for a user: the disk's."""
    if damaged(error):
        return InputError(path, f"is damaged ({error})", expected="astrarium search with this study: it keeps every "
                          "trial that can be read, and runs the others again")
    if "full" in str(error):
        return InputError(path, f"cannot be written ({error})", expected=f"more space, then {AGAIN}")
    return InputError(path, f"cannot be read or written ({error})", expected=f"a disk that works, then {AGAIN}")


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Turns errors of a file that is read only into InputError."""
    try:
        yield
    except (sqlite3.Error, msgspec.DecodeError) as error:
        raise disk_error(path, error) from None


def readable(data: sqlite3.Connection, path: str, query: str) -> Iterator[tuple[Any, ...]]:
    """The rows of `query` (a number, in order, from a number on: `>= ?`) that can be read, whatever lies between."""
    number = 0
    with contextlib.suppress(sqlite3.Error):
        for row in data.execute(query, (number,)):
            yield row
            number = row[0] + 1
    most = sum(os.path.getsize(path + end) for end in FILES if os.path.exists(path + end)) // SMALLEST
    for each in range(number, most):
        with contextlib.suppress(sqlite3.Error):
            row = data.execute(query, (each,)).fetchone()
            if row is not None and row[0] == each:
                yield row


def replace_damaged(path: str, script: str, tables: Sequence[tuple[str, Sequence[tuple[Any, ...]]]]) -> str:
    """Write a new database in the place of a damaged one, which stays beside it under the name returned. `script` makes
    the tables, `tables` are statements with their rows."""
    kept, fresh = f"{path}.damaged", f"{path}.repaired"
    if os.path.exists(fresh):
        os.unlink(fresh)
    data = sqlite3.connect(fresh, isolation_level=None)
    try:
        data.executescript(script)
        data.execute("BEGIN")
        for statement, rows in tables:
            data.executemany(statement, rows)
        data.execute("COMMIT")
    except sqlite3.Error:
        data.close()
        os.unlink(fresh)
        raise
    data.close()
    for end in FILES:
        if os.path.exists(path + end):
            os.replace(path + end, kept + end)
    os.replace(fresh, path)
    return kept
