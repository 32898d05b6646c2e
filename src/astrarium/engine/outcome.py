"""What the engine measured: one row per class of equal ranks, plus `row[rank]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import Struct, field

from astrarium.arrays import I32, I64

__all__ = ["EVERY_MESSAGE", "Outcome", "PacketCounts", "Record", "link_counts", "outcome_of"]

Record: TypeAlias = bool | Literal["nodes"]
"""What a run records: node times and the traffic of links, node times alone (of folded runs; others record all), or
nothing."""
EVERY_MESSAGE = "every rank and every message were simulated"      # as the core says it


def _no_numbers() -> I64:
    return np.zeros(0, np.int64)


class PacketCounts(Struct, frozen=True, eq=False):
    """What a medium of packets measured; arrays are empty where nothing was recorded.

    Per link, by its number in the graph (of dims: fabric.graph): `queue` is the most bytes that waited for it,
    `buffer` the most bytes that had its buffer (credits) or that its end kept of it (roce), `marks` the ECN marks of
    its queue, `pauses` and `paused` how often and how long (ps) PFC stopped it.
    Per message, by the time at which it asked for its first link (the first 2^20 that arrived): its NPUs, bytes, ps;
    `lost` are bytes of packets that were on links as these failed, and that were sent again.
    With `PacketRules.queues`, of each link in `watched` (those for which anything waited or which PFC stopped) 256
    bins of `width` ps (the power of two from 1,024 on with which they reach over the last change): `longest` is the
    longest queue that stood in a bin, bytes, and `paused_in` how long PFC stopped the link in it, ps.
    """

    hops: int = 0       # packets that crossed a link, counted once for each link
    queue: I64 = field(default_factory=_no_numbers)
    buffer: I64 = field(default_factory=_no_numbers)
    marks: I64 = field(default_factory=_no_numbers)
    pauses: I64 = field(default_factory=_no_numbers)
    paused: I64 = field(default_factory=_no_numbers)
    source: I32 = field(default_factory=lambda: np.zeros(0, np.int32))
    destination: I32 = field(default_factory=lambda: np.zeros(0, np.int32))
    size: I64 = field(default_factory=_no_numbers)
    asked: I64 = field(default_factory=_no_numbers)
    arrived: I64 = field(default_factory=_no_numbers)
    lost: I64 = field(default_factory=_no_numbers)
    width: int = 0
    watched: I32 = field(default_factory=lambda: np.zeros(0, np.int32))
    longest: I64 = field(default_factory=_no_numbers)
    paused_in: I64 = field(default_factory=_no_numbers)


class Outcome(Struct, frozen=True, eq=False):
    """Times in ps. Unfolded runs have one row per rank; folded ones a row per class.

    `start` and `end` [sum of nodes over rows] hold every node's issue and completion, row after row (`node_ptr`
    [rows + 1]), in the order of the row's Program; both are empty unless the run recorded nodes. `link_*` [links] is
    the traffic: the link or port (dim, from NPU, to NPU; -1 where a switch or a port has no peer), bytes, busy ps.
    Of a network with a graph, rows are in the order of `link_number`, the links' rows in the graph (else empty);
    their ends are its nodes, and their dim is 0, the only one of `use_busy`. A row represents `link_count` equal links;
    where that is empty, for one, or in a folded run for one per rank of the row of its NPU's rank.
    `use_busy` [dims * 256] is, dim after dim, how long the links and ports that leave NPUs (link_from >= 0) were busy,
    added up, in each of 256 bins of `use_width` ps (the power of two from 1,024 on that makes them reach to the
    makespan): those of all NPUs, also where the run was folded. 0 and empty unless traffic was recorded.
    `in_program_order`: the ranks would have waited for each other, and each issued its collectives in program order.
    `counted` of the `events` did not run, as they belong to periods (equal layers) after one that recurred.
    `how` has a sentence for each attempt in turn: why it ended without an answer; the last one gave the answer.
    """

    row: I32
    finish: I64
    busy: I64
    node_ptr: I64
    start: I64
    end: I64
    link_dim: I32
    link_from: I32
    link_to: I32
    link_bytes: I64
    link_busy: I64
    use_width: int
    use_busy: I64
    events: int
    folded: bool
    unfolded_because: str = ""
    how: tuple[str, ...] = ()
    counted: int = 0
    in_program_order: bool = False
    link_number: I32 = field(default_factory=lambda: np.zeros(0, np.int32))
    link_count: I64 = field(default_factory=_no_numbers)
    packets: PacketCounts | None = None     # of a medium of packets

    @property
    def makespan(self) -> int:
        """The last rank's finish, ps."""
        return int(np.maximum.reduce(self.finish, initial=0))


def outcome_of(columns: Mapping[str, Any]) -> Outcome:
    """The Outcome that the core wrote as a dict."""
    packets = columns.get("packets")
    return Outcome(**{**columns, "how": tuple(columns["how"]),
                      "packets": None if packets is None else PacketCounts(**packets)})


def link_counts(outcome: Outcome, npu_of: I32) -> I64:
    """[links] how many equal links each of an outcome represents; `npu_of` as in its Plan."""
    if outcome.link_count.size:
        return outcome.link_count
    npu = np.where(outcome.link_from >= 0, outcome.link_from, outcome.link_to)
    ranks = np.ones(int(max(npu.max(initial=0), npu_of.max(initial=0))) + 1, np.int64)    # of the row of each NPU's
    if outcome.folded:
        ranks[npu_of] = np.bincount(outcome.row, minlength=len(outcome.finish))[outcome.row]
    return ranks[npu]
