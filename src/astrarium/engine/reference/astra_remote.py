"""ASTRA-sim's remote memory: latency + bytes / bandwidth, alone per NPU or one access at a time per node or pool."""

from __future__ import annotations

from collections import deque

from astrarium.engine.plan import Remote, RemoteKind
from astrarium.engine.reference.clock import Event, NpuEvents
from astrarium.errors import UnsupportedError

__all__ = ["RemoteMemory"]


class RemoteMemory:
    """Accesses of all NPUs. A shared memory serves in order of issue; the end of an access starts the next one."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._busy: set[int] = set()
        self._waiting: dict[int, deque[tuple[NpuEvents, int, Event]]] = {}

    def access(self, npu: int, events: NpuEvents, size: int, done: Event) -> None:
        """`done` in the NPU's batch when `size` bytes have been moved."""
        kind = self._remote.kind
        if kind == RemoteKind.NONE:
            raise UnsupportedError("memory.remote", f"a node of rank {npu} moves {size} bytes to or from remote "
                                   "memory, and the design has none", expected="per_npu, per_node or pool")
        if kind == RemoteKind.PER_NPU:
            events.after(self._duration(size), done)
            return
        place = npu // self._remote.npus_per_node if kind == RemoteKind.PER_NODE else 0
        if place in self._busy:
            self._waiting.setdefault(place, deque()).append((events, size, done))
        else:
            self._busy.add(place)
            self._serve(place, events, size, done)

    def _serve(self, place: int, events: NpuEvents, size: int, done: Event) -> None:
        duration = self._duration(size)
        events.after(duration, done)
        events.after(duration, lambda: self._next(place))

    def _next(self, place: int) -> None:
        waiting = self._waiting.get(place)
        if waiting:
            self._serve(place, *waiting.popleft())
        else:
            self._busy.discard(place)

    def _duration(self, size: int) -> int:
        return (self._remote.latency + int(size / self._remote.bandwidth)) * 1000
