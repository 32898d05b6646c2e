"""Knobs of the algorithms."""

from __future__ import annotations

from msgspec import Struct

from astrarium.errors import InputError

__all__ = ["Options"]


class Options(Struct, frozen=True):
    """`pipeline`: blocks in which chains and trees send their payload (a double tree: per tree). `window`: messages of
    `direct` that a participant has in flight beyond what it has received; -1: all at once."""

    pipeline: int = 8
    window: int = -1

    def __post_init__(self) -> None:
        if self.pipeline < 1:
            raise InputError("collective.pipeline", f"{self.pipeline} blocks", expected="at least 1")
        if self.window == 0 or self.window < -1:
            raise InputError("collective.window", f"{self.window} messages", expected="at least 1, or -1 for all")
