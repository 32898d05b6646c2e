"""A collective algorithm as Chakra execution traces: one file per participant, as custom collectives are read."""

from __future__ import annotations

import numpy as np

from astrarium.collective.algorithms import Options, build, canonical_op, supporting
from astrarium.collective.lower import block_size
from astrarium.collective.messages import expand
from astrarium.errors import InputError, UnsupportedError
from astrarium.trace.build import TraceBuilder
from astrarium.vocab import CommOp, Schedule

__all__ = ["MOST_MESSAGES", "collective_traces", "schedule_of", "schedule_traces"]

MOST_MESSAGES = 20_000_000
MOST_BYTES = 1 << 62


def schedule_of(algorithm: str, op: CommOp, n: int, options: Options | None = None) -> Schedule:
    """The schedule of an algorithm by name. Raises InputError where it would be too large to write out,
    UnsupportedError for one in switches."""
    if not 1 <= n <= 1 << 20:
        raise InputError("npus", f"{n} participants", expected="1 to 1048576")
    schedule = build(algorithm, canonical_op(op), n, options)
    if schedule.switches:
        raise UnsupportedError("algorithm", f"{algorithm}, in which a switch takes part that has no trace",
                               expected="one of " + ", ".join(supporting(op)))
    messages = int(np.diff(schedule.send_ptr)[schedule.program].sum())
    if messages > MOST_MESSAGES:
        raise InputError("npus", f"{messages:,} messages to write", expected=f"at most {MOST_MESSAGES:,}")
    return schedule


def collective_traces(algorithm: str, op: CommOp, n: int, size: int, options: Options | None = None) -> list[bytes]:
    """The file of every participant [n] for `size` bytes, counted as traces do (all_gather and gather: the shard)."""
    return schedule_traces(schedule_of(algorithm, op, n, options), size)


def schedule_traces(schedule: Schedule, size: int) -> list[bytes]:
    """A schedule's sends and receives as nodes.

    Receive number r of a participant has node id r and waits for the one before; sends follow and wait for the last
    receive that they need. The tag is the receive's number, so every message finds its place.
    """
    if not 0 <= size < MOST_BYTES // max(1, schedule.n):
        raise InputError("size", f"{size} bytes", expected=f"0 to {MOST_BYTES // max(1, schedule.n)}")
    block = block_size(schedule.op, size, schedule.blocks, schedule.n)
    table = expand(schedule)
    counts = np.diff(schedule.send_block_ptr)[table.entry] * block
    receives = np.diff(table.recv_ptr)
    sizes = np.zeros(int(table.recv_ptr[-1]), np.int64)
    sizes[table.recv_ptr[table.dst] + table.match] = counts
    files = []
    for p in range(schedule.n):
        made, first = TraceBuilder(), int(table.recv_ptr[p])
        for r in range(int(receives[p])):
            made.recv(f"recv{r}{'_reduce' if table.recv_reduce[first + r] else ''}", int(table.recv_from[first + r]),
                      int(sizes[first + r]), r, after=[r - 1] if r else [])
        for m in range(int(table.send_ptr[p]), int(table.send_ptr[p + 1])):
            needs = int(table.needs[m])
            made.send(f"send{m - int(table.send_ptr[p])}", int(table.dst[m]), int(counts[m]), int(table.match[m]),
                      after=[needs - 1] if needs else [])
        files.append(made.encode())
    return files
