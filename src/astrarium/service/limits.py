"""What an operation may cost."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.units import Bytes, Time, format_bytes, format_time

__all__ = ["Limits", "limits_of"]

COUNT = re.compile(r"([0-9]{1,9}) *designs?")


class Limits(Struct, frozen=True):
    """`seconds` of CPU time and `memory` (bytes) of an operation; `designs` that it may evaluate; `request`: bytes that
    a client may send at a time; `folder`: bytes of all files in the folder, beyond which nothing is written."""

    seconds: float = 120.0
    memory: float = 4e9
    designs: int = 1000
    request: int = 1 << 20
    folder: int = 1 << 30

    @property
    def design(self) -> float:
        """CPU seconds of one design of a search: none takes all the time of an operation."""
        return min(60.0, self.seconds / 4)

    @property
    def text(self) -> str:
        """For the client."""
        return (f"{format_time(self.seconds * 1e9)} of CPU time, {format_bytes(self.memory)} of memory and "
                f"{self.designs:,} designs an operation")


def limits_of(texts: Sequence[str]) -> Limits:
    """Make limits of user input: "60 s", "4 GB", "500 designs", each at most once. Raises InputError."""
    found: dict[str, float] = {}
    for text in texts:
        name, value = _limit(text)
        if name in found:
            raise InputError("limit", f"{text!r} is a second limit of its kind",
                             expected="one of time, one of memory, one of designs")
        found[name] = value
    usual = Limits()
    return Limits(found.get("seconds", usual.seconds), found.get("memory", usual.memory),
                  int(found.get("designs", usual.designs)))


def _limit(text: str) -> tuple[str, float]:
    count = COUNT.fullmatch(text.strip())
    if count and int(count[1]):
        return "designs", float(count[1])
    for name, kind, scale, least in (("seconds", Time, 1e-9, 1.0), ("memory", Bytes, 1.0, 5e8)):
        try:
            value = float(kind(text)) * scale
        except InputError:
            continue
        if value >= least:
            return name, value
    raise InputError("limit", f"{text[:60]!r} is not a limit",
                     expected='a time such as "60 s" (1 s at least), memory such as "4 GB" (500 MB at least), or '
                              '"500 designs"')
