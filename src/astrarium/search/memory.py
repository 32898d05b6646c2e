"""Peak memory of a study's best designs, stored beside its trials once it is known: few trials are judged by it, and a
run that records memory takes longer."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping

__all__ = ["store_memory", "stored_memory"]

_TABLE = "CREATE TABLE IF NOT EXISTS memory (design BLOB PRIMARY KEY, bytes REAL NOT NULL) WITHOUT ROWID"


@contextlib.contextmanager
def _open(path: str, mode: str) -> Iterator[sqlite3.Connection]:
    """The file, where it is a database; errors end the block in silence."""
    with (contextlib.suppress(sqlite3.Error),
          contextlib.closing(sqlite3.connect(f"file:{path}?mode={mode}", uri=True)) as data):
        yield data


def stored_memory(path: str) -> dict[bytes, float]:
    """Design -> highest use of memory in bytes; nothing where the file at `path` holds none."""
    found: dict[bytes, float] = {}
    with _open(path, "ro") as data:
        found.update(data.execute("SELECT design, bytes FROM memory"))
    return found


def store_memory(path: str, found: Mapping[bytes, float]) -> None:
    """Keep what was found; where the file cannot be written it is found again next time."""
    with _open(path, "rw") as data, data:
        data.execute(_TABLE)
        data.executemany("INSERT OR REPLACE INTO memory VALUES (?, ?)", list(found.items()))
