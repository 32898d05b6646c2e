"""The *remote memory* protocol: how long an access to memory beyond the NPU takes."""

from __future__ import annotations

from typing import Protocol

__all__ = ["RemoteMemory"]


class RemoteMemory(Protocol):
    """Remote memory for one run; it may remember what it was asked, and queue."""

    def access_time(self, size: int, rank: int, now: int) -> int:
        """How long (ps, 0 or more, queueing included) an access of `size` bytes by `rank` takes that is issued at
        `now` (ps). Called in order of issue: `now` never goes back, and ranks ascend within an instant."""
        ...
