"""Cutting a payload into chunks, natively: every byte once, sizes that differ by at most one byte.

(ASTRA-sim sends the remainder as one more full chunk; that rule lives in its compatibility table, not here.)
"""

from __future__ import annotations

from astrarium.errors import InputError, UnsupportedError

__all__ = ["MOST", "split"]

MOST = 1 << 20      # chunks of one collective that an engine takes


def split(size: int, chunks: int, *, granule: int = 1, path: str = "collective.chunks") -> tuple[tuple[int, int], ...]:
    """(how many, bytes each) of the chunks of `size` bytes, larger ones first; two rows at most.

    A chunk never gets fewer than `granule` bytes (the smallest payload worth a message of one byte per block): small
    payloads make fewer chunks, at least one. Raises InputError for a negative size, and for fewer chunks than one or
    more than `MOST`.
    """
    if size < 0:
        raise InputError(path, f"a payload of {size} bytes", expected="0 or more")
    if chunks < 1:
        raise InputError(path, f"{chunks} chunks", expected="at least 1")
    count = max(1, min(chunks, size // max(1, granule)))
    if count > MOST:
        raise UnsupportedError(path, f"cuts {size:,} bytes into {count:,} chunks", expected=f"at most {MOST:,}")
    small, larger = divmod(size, count)
    rows = ((larger, small + 1), (count - larger, small))
    return tuple(row for row in rows if row[0])
