"""Programs on separate ranks that send each other messages, as one workload.

Receives come first in the order of a class's nodes, and everything that begins the unit of work they belong to waits
for them; sends come last, each after the unit that makes what they carry. Ranks of a class that send or receive other
sizes become a class of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from astrarium.arrays import I32, I64
from astrarium.trace.work import Generated, Phase, Tensors, TraceClass
from astrarium.vocab import NodeKind
from astrarium.workload.inference.link import Transfer, linked, moved_on

__all__ = ["PlacedProgram", "joined"]

Messages = Mapping[int, Sequence[Transfer]]     # by rank
Names = Sequence[tuple[str, float]]
Made = tuple[TraceClass, Tensors | None, tuple[Phase, ...]]


class PlacedProgram(Struct, frozen=True, eq=False):
    """A program on ranks 0, 1, ..., which become ranks from `start` on. Per class: first node and exit of every unit
    (-1: a unit without nodes).

    `phase` (0 or 1) is where its time counts; what it sends counts to the last.
    """

    start: int
    made: Generated
    offset: Sequence[I64]
    exit: Sequence[I64]
    phase: int

    @property
    def ranks(self) -> I32:
        """Its ranks."""
        count = sum(len(trace.ranks) for trace in self.made.classes)
        return np.arange(self.start, self.start + count, dtype=np.int32)


def joined(parts: Sequence[PlacedProgram], transfers: Sequence[Transfer], names: Names) -> Generated:
    """All parts and what passes between them. `names` of the two phases, with the tokens that each gives."""
    sends, receives = _by_rank(transfers, sending=True), _by_rank(transfers, sending=False)
    made: list[Made] = []
    groups: list[I32] = []
    for part in parts:
        made += _part(part, sends, receives, len(groups), names)
        groups += [*((group + part.start).astype(np.int32) for group in part.made.groups), part.ranks]
    return Generated(tuple(trace for trace, _, _ in made), tuple(groups),
                     tuple(str(number + 1) for number in range(len(groups))), tuple(held for _, held, _ in made),
                     tuple(phases for _, _, phases in made))


def _by_rank(transfers: Sequence[Transfer], *, sending: bool) -> Messages:
    """The messages that each rank sends or receives, in order."""
    found: dict[int, list[Transfer]] = {}
    for each in sorted(transfers, key=lambda each: (each.unit(sending=sending), each.peer(sending=sending), each.tag)):
        found.setdefault(each.peer(sending=not sending), []).append(each)
    return found


def _part(part: PlacedProgram, sends: Messages, receives: Messages, groups: int, names: Names) -> Iterator[Made]:
    """The classes of a part; ranks whose messages differ in size or place are separate classes."""
    for number, trace in enumerate(part.made.classes):
        kinds: dict[tuple[tuple[int, int], ...], list[int]] = {}
        for row, rank in enumerate((trace.ranks + part.start).tolist()):
            give, take = sends.get(rank, ()), receives.get(rank, ())
            key = (*((each.after, each.size) for each in give), (-1, -1), *((each.before, each.size) for each in take))
            kinds.setdefault(key, []).append(row)
        for rows in kinds.values():
            own = _moved(trace, rows, part, groups)
            ranks = own.ranks.tolist()
            given, taken = [sends.get(rank, ()) for rank in ranks], [receives.get(rank, ()) for rank in ranks]
            held, first, last = part.made.tensors[number], len(taken[0]), len(given[0])
            counts = (first + len(trace.type), last) if part.phase == 0 else (0, first + len(trace.type) + last)
            yield (linked(own, given, taken, part.offset[number], part.exit[number]),
                   None if held is None else moved_on(held, first),
                   tuple(Phase(name, count, tokens) for (name, tokens), count in zip(names, counts, strict=True)))


def _moved(trace: TraceClass, rows: list[int], part: PlacedProgram, groups: int) -> TraceClass:
    """Some ranks of a class, with numbers of ranks and groups as they are in the whole; all of the part is its last
    group."""
    kinds = (NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.COMM_RECV)
    comm = trace.type[np.isin(trace.type, np.array(kinds, np.uint8))]
    slot = np.arange(len(comm), dtype=np.int32) if trace.slot is None else trace.slot
    p2p = np.zeros(trace.slot_a.shape[1], np.bool_)
    p2p[slot] = comm != NodeKind.COMM_COLL
    a, b = trace.slot_a[rows].copy(), trace.slot_b[rows].copy()
    a[:, p2p] += part.start
    group = b[:, ~p2p]
    b[:, ~p2p] = np.where(group >= 0, group + groups, groups + len(part.made.groups))
    return replace(trace, ranks=(trace.ranks[rows] + part.start).astype(np.int32), slot_a=a, slot_b=b, slot=slot)
