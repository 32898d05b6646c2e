"""Microbenchmarks (`source: micro`): one pattern of collectives, messages, compute or memory, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from astrarium.config import Knob, Problem, default
from astrarium.units import Bytes, OptionalBytes, OptionalTime, Time
from astrarium.workload.config import Workload
from astrarium.workload.single import Operation

__all__ = ["PATTERNS", "Micro"]

PATTERNS: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType({
    "collectives": ("Collectives of all ranks, one after the other.", ("ops", "payload")),
    "ring": ("Every rank sends to the next one and receives from the one before.", ("payload",)),
    "pairs": ("Ranks 0 and 1, 2 and 3, ... exchange messages.", ("payload",)),
    "all_to_all": ("Every rank sends to every other at once.", ("payload",)),
    "incast": ("All other ranks send to rank 0 at once.", ("payload",)),
    "outcast": ("Rank 0 sends to all other ranks at once.", ("payload",)),
    "compute": ("Compute nodes, one after the other.", ("time", "flops", "bytes")),
    "memory": ("Loads from and stores to remote memory in turn.", ("payload",)),
    "every_type": ("A node of every type of Chakra's, one after the other.", ("payload", "time", "flops", "bytes")),
})
"""Pattern -> (one sentence, the fields that it takes besides `count`)."""

Pattern = Literal["collectives", "ring", "pairs", "all_to_all", "incast", "outcast", "compute", "memory", "every_type"]
OPTIONS = ("ops", "payload", "time", "flops", "bytes")
US = 1000           # ns
MOST_BYTES, MOST_NS = 2.0**60, 9e15     # what a trace can hold: 2^63 bytes and ps


def _used(work: Micro) -> Iterator[Problem]:
    for name in OPTIONS:
        if getattr(work, name) is not None and name not in PATTERNS[work.pattern][1]:
            yield Problem(name, f"has no effect under pattern: {work.pattern}",
                          "one of " + ", ".join(("count", *PATTERNS[work.pattern][1])))


def _values(work: Micro) -> Iterator[Problem]:
    if work.time is not None and float(work.time) % US:
        yield Problem("time", f"{work.time} is no whole number of microseconds", "what a trace can hold, such as 5 us")
    if work.ops is not None and not work.ops:
        yield Problem("ops", "is empty", "at least one operation")
    for name in ("payload", "bytes"):
        value = getattr(work, name)
        if value is not None and float(value) % 1:
            yield Problem(name, f"{value} is no whole number of bytes")


class Micro(Workload, frozen=True):
    """A microbenchmark: each step of the pattern waits for the one before. It replaces chakra_generator.

    What runs at once is bound by `system.p2p_streams`, 1 by default. The defaults of `payload`, `time` and `bytes` are
    those of chakra_generator.
    """

    tag: ClassVar[str] = "micro"
    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_used, _values)
    pattern: Annotated[Pattern, Knob("What the ranks do: " + ", ".join(PATTERNS) + ".")]
    count: Annotated[int, Knob("How many times.", ge=1, lt=1_000_000)] = 1
    ops: Annotated[Sequence[Operation] | None, Knob("Operations (collectives); left out: all_reduce, all_gather, "
                                                    "reduce_scatter, all_to_all.")] = None
    payload: Annotated[OptionalBytes, Knob("Bytes of a message or an access, or a collective's payload S as nccl-tests "
                                           "counts it; left out: 64 KiB.", gt=0, lt=MOST_BYTES)] = default(None)
    time: Annotated[OptionalTime, Knob("Recorded time of a compute node; left out: 5 us.", ge=0, lt=MOST_NS)
                    ] = default(None)
    flops: Annotated[float | None, Knob("FLOPs of a compute node, for the roofline; left out: none are said.",
                                        ge=0)] = None
    bytes: Annotated[OptionalBytes, Knob("Bytes that a compute node moves, for the roofline; left out: 1 KiB.",
                                         ge=0, lt=MOST_BYTES)] = default(None)

    @property
    def operations(self) -> Sequence[Operation]:
        """Collectives of one step."""
        return self.ops or ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")

    @property
    def size(self) -> int:
        """Bytes of a message, an access or a payload."""
        return int(Bytes.of(65536) if self.payload is None else self.payload)

    @property
    def microseconds(self) -> int:
        """Recorded time of a compute node."""
        return int(float(Time.of(5 * US) if self.time is None else self.time) // US)

    @property
    def moved(self) -> int:
        """Bytes that a compute node moves."""
        return int(Bytes.of(1024) if self.bytes is None else self.bytes)
