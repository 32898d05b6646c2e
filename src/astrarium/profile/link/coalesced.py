"""Grouped communication: what was recorded between two launches of one thread belongs to the kernel of the second."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable

from astrarium.profile.link.comm import P2P, Comm
from astrarium.profile.link.records import DeviceTrace

__all__ = ["Recorded"]


class Recorded:
    """Communications that host operators recorded, by thread and time.

    PyTorch groups messages and collectives (`batch_isend_irecv`, `all_gather_into_tensor_coalesced`) into one kernel,
    which is launched when the group ends, outside the operators that say what it does.
    """

    def __init__(self, trace: DeviceTrace, comms: Iterable[tuple[int, Comm]], parent: array[int],
                 launches: Iterable[tuple[int, int]]) -> None:
        """`comms`: (operator, what it records); `launches`: (thread, start) of kernels that communicate."""
        known = dict(comms)
        self._times: dict[int, list[int]] = {}
        self._comms: dict[int, list[Comm]] = {}
        for operator in sorted(known, key=lambda op: (trace.operators.start[op], op)):
            if not _inside(operator, known, parent):
                thread = trace.operators.thread[operator]
                self._times.setdefault(thread, []).append(trace.operators.start[operator])
                self._comms.setdefault(thread, []).append(known[operator])
        self._launches: dict[int, list[int]] = {}
        for thread, start in sorted(launches):
            self._launches.setdefault(thread, []).append(start)

    def before(self, thread: int, start: int) -> list[Comm]:
        """What was recorded on a thread between the launch before and the one at `start`."""
        launches, times = self._launches.get(thread, []), self._times.get(thread, [])
        place = bisect_left(launches, start)
        first = bisect_left(times, launches[place - 1]) if place else 0
        return self._comms.get(thread, [])[first:bisect_left(times, start)]

    def messages(self, thread: int, start: int) -> list[Comm]:
        """Sends and receives of a group, if it has no other communication and all their ranks are known."""
        found = self.before(thread, start)
        return found if all(comm.op in P2P and comm.peer is not None for comm in found) else []

    def total(self, thread: int, start: int, op: str) -> Comm | None:
        """All collectives of one operation in a group as one of all their bytes."""
        found = [comm for comm in self.before(thread, start) if comm.op == op and comm.size is not None]
        if not found:
            return None
        return Comm(op, sum(comm.size or 0 for comm in found), found[0].group)


def _inside(operator: int, known: dict[int, Comm], parent: array[int]) -> bool:
    """Whether an operator around one has recorded the same already."""
    around = parent[operator]
    while around >= 0:
        if around in known:
            return True
        around = parent[around]
    return False
