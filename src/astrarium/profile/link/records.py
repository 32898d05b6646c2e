"""What linking keeps of a device trace: columns of operators, runtime calls and GPU operations."""

from __future__ import annotations

from array import array

from msgspec import Struct, field

from astrarium.profile.launches import Argument

__all__ = ["ALONE", "CALL", "EVENT", "KERNEL", "MAX_MEMBERS", "MEMCPY", "MEMSET", "OPERATOR", "OVERHEAD", "SYNC",
           "CommArgs", "DeviceTrace", "Gpu", "Host", "Sync"]

OPERATOR, CALL, KERNEL, MEMCPY, MEMSET, SYNC, EVENT, OVERHEAD = range(1, 9)
ALONE = "unrecorded_us"     # of a device trace: us of a step without the profilers, as `collect` has measured it
MAX_MEMBERS = 1 << 22        # ranks of all groups together


class CommArgs(Struct, frozen=True):
    """What Kineto says of a communication: operation, elements, group. None where it does not say."""

    op: str | None
    elements_in: int | None
    elements_out: int | None
    dtype: str | None
    group: str | None
    ranks: tuple[int, ...] | None
    group_size: int | None
    source: int | None
    destination: int | None
    rows_in: tuple[int, ...] | None = None       # of an all_to_all: what goes to each rank
    rows_out: tuple[int, ...] | None = None      # and what comes from each


class Host(Struct):
    """Operators, annotations and runtime calls of host threads, in file order; times in ns."""

    thread: array[int] = field(default_factory=lambda: array("q"))
    start: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))
    key: array[int] = field(default_factory=lambda: array("q"))       # operators: rf_id or -1; calls: correlation
    external: array[int] = field(default_factory=lambda: array("q"))
    name: list[str] = field(default_factory=list)
    annotations: set[int] = field(default_factory=set)                # operators that are a user's annotations


class Gpu(Struct):
    """Kernels, copies and fills; times in ns. `stream` numbers (device, stream) pairs."""

    kind: array[int] = field(default_factory=lambda: array("q"))      # KERNEL, MEMCPY, MEMSET
    start: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))
    stream: array[int] = field(default_factory=lambda: array("q"))
    correlation: array[int] = field(default_factory=lambda: array("q"))
    external: array[int] = field(default_factory=lambda: array("q"))
    graph: array[int] = field(default_factory=lambda: array("q"))     # 1: a node of a CUDA graph
    name: list[str] = field(default_factory=list)


class Sync(Struct, frozen=True):
    """One `cuda_sync` activity: `kind` as Kineto names it; -1 and None where it does not say."""

    kind: str
    correlation: int
    stream: int | None
    wait_on: int | None
    record_call: int
    start: int


class DeviceTrace(Struct):
    """A device trace. Times count ns from the earliest event that is read."""

    where: str
    operators: Host = field(default_factory=Host)
    calls: Host = field(default_factory=Host)
    gpu: Gpu = field(default_factory=Gpu)
    syncs: list[Sync] = field(default_factory=list)
    overhead: list[tuple[int, int]] = field(default_factory=list)      # from, to: the profiler's own work on the host
    comms: dict[int, CommArgs] = field(default_factory=dict)           # GPU operation -> what Kineto says
    op_comms: dict[int, CommArgs] = field(default_factory=dict)        # operator -> the same
    arguments: dict[int, tuple[Argument, ...]] = field(default_factory=dict)   # operator -> its inputs
    threads: dict[tuple[str, str], int] = field(default_factory=dict)  # (pid, tid) -> number
    streams: dict[tuple[int, int], int] = field(default_factory=dict)  # (device, stream) -> number
    stream_names: list[tuple[int, int]] = field(default_factory=list)
    alone: int | None = None                                           # ns of a step without the profilers, measured
    device: str = ""                                                   # name of the first GPU
    origin: int = 0                                                    # ns, of the trace's own clock
    rank: int | None = None
    world: int | None = None
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)    # names, each held once
    nameless: int = 0                                                  # events with a duration and no category
    skipped: int = 0                                                   # events whose times make no sense
    unread: dict[str, int] = field(default_factory=dict)               # category -> events that are not read
