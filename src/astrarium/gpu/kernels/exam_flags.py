"""What packets (lines with flags) tell in the exam of kernels: which reads are over.

Who loads a packet knows of the loads that its store waited for: those of the same request of the operation, those of
the same thread (the same position of earlier operations since the threads of its workgroup last met), and all that the
workgroup knew when its threads last met. It does not know of other stores: a packet fences nothing. As this differs
from line to line, clocks of workgroups cannot hold it. So the exam logs what it executes, and asks here only about
accesses that its clocks leave unordered (`Doubt`).

Lines that all operations treat alike make one piece: ends of operations, carried over from buffer to buffer. Per piece,
knowledge is a set of reads, one bit each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from msgspec import Struct

from astrarium.errors import UnsupportedError
from astrarium.gpu.engine import Launch, Place

__all__ = ["Doubt", "Flags"]

Who = tuple[int, int]           # GPU, workgroup
Room = tuple[int, int]          # GPU, buffer
Line = tuple[int, int, int]     # GPU, buffer, request
MOST_PIECES = 1 << 17


class Doubt(Struct, frozen=True):
    """Requests `first` to `end` of a buffer that operation number `later` of the log touches after operation `earlier`,
    unordered by clocks. `starts`: where the access of each begins in the buffer. `writes`: the later one stores.
    `landed`: the earlier one has stored a packet, which must have come; else it has read, and that must be over."""

    earlier: int
    later: int
    room: Room
    first: int
    end: int
    starts: tuple[int, int]
    writes: bool
    landed: bool


class _Moved(Struct, frozen=True):
    """An operation with data: what it reads and writes, as (room, first request)."""

    who: Who
    at: int
    packets: bool
    size: int
    reads: tuple[tuple[Room, int], ...]
    writes: tuple[tuple[Room, int], ...]


class _Met(Struct, frozen=True):
    """A control operation. `key`: of a semaphore (GPU, number); `value`: how many releases an acquire has seen, None
    for a release."""

    who: Who
    key: tuple[int, int] | None = None
    value: int | None = None
    fence: bool = False


class Flags:
    """The log of an exam, and its doubts."""

    def __init__(self, launch: Launch, path: str):
        self.path = path
        self.flagged = [buffer.flagged for buffer in launch.buffers]
        self.log: list[_Moved | _Met] = []
        self.doubts: dict[int, list[Doubt]] = {}
        self.twice: dict[Room, list[tuple[int, int]]] = defaultdict(list)       # begins and ends

    def moved(self, who: Who, at: int, size: int, reads: Iterable[tuple[int, Place]],
              writes: Iterable[tuple[int, Place]]) -> int:
        """Log an operation with data, by (GPU, place on it) of what it reads and writes. Its number in the log."""
        sides = [tuple(((gpu, place.buffer), place.offset) for gpu, place in side) for side in (reads, writes)]
        packets = any(self.flagged[room[1]] for side in sides for room, _ in side)
        self.log.append(_Moved(who, at, packets, size, sides[0], sides[1]))
        return len(self.log) - 1

    def met(self, who: Who, key: tuple[int, int] | None = None, *, value: int | None = None,
            fence: bool = False) -> None:
        """Log a barrier; with `value` an acquire; with a semaphore alone a release."""
        self.log.append(_Met(who, key, value, fence))

    def doubt(self, doubt: Doubt) -> None:
        """Note what clocks leave open."""
        self.doubts.setdefault(doubt.later, []).append(doubt)

    def repeated(self, room: Room, first: int, size: int) -> None:
        """Note packets that were stored where they were loaded from: no reader can tell the one from the other."""
        self.twice[room].append((first, first + size))

    def again(self, room: Room, first: int) -> bool:
        """Whether the packet at request `first` was stored where it was loaded from."""
        return any(begin <= first < end for begin, end in self.twice.get(room, ()))

    def where(self, number: int) -> tuple[Who, int]:
        """Who made operation `number` of the log, and which of its operations it is."""
        entry = self.log[number]
        assert isinstance(entry, _Moved)
        return entry.who, entry.at

    def open(self) -> Doubt | None:
        """The first doubt that packets do not settle."""
        return next(_Walk(self).open(), None) if self.doubts else None


class _Walk:
    """The log, gone through once with the knowledge of threads, workgroups, semaphores and packets."""

    def __init__(self, flags: Flags):
        self.flags = flags
        doubts = [each for some in flags.doubts.values() for each in some]
        self.rooms = {each.room for each in doubts}
        self.landed = {each.room for each in doubts if each.landed}
        self.asked = {each.earlier for each in doubts if not each.landed}
        self.pieces = _pieces(flags, self.rooms)
        self.bits: dict[tuple[int, int], int] = {}                  # (operation, begin of the piece) -> its bit
        self.threads: dict[Who, dict[tuple[bool, int], int]] = defaultdict(dict)    # since they last met
        self.groups: dict[Who, int] = defaultdict(int)
        self.told: dict[Who, int] = defaultdict(int)                # at the last fence: what a release passes on
        self.raised: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.packets: dict[Line, int] = {}                          # what a packet tells, by the piece's first line
        self.taken: dict[Line, int] = {}                            # who has read the packet there

    def open(self) -> Iterator[Doubt]:
        """Doubts that stay."""
        for number, entry in enumerate(self.flags.log):
            if isinstance(entry, _Met):
                self._meet(entry)
                continue
            for begin, end in self.pieces[number]:
                yield from self._move(number, entry, begin, end)

    def _meet(self, entry: _Met) -> None:
        """Threads come together: what one of them knows of a piece, the workgroup then knows of all of it."""
        who, key = entry.who, entry.key
        for known in self.threads.pop(who, {}).values():
            self.groups[who] |= known
        if key is not None and entry.value is not None:
            for known in self.raised[key][:entry.value] if entry.fence else ():
                self.groups[who] |= known
        elif key is not None:
            if entry.fence:
                self.told[who] = self.groups[who]
            self.raised[key].append(self.told[who])

    def _move(self, number: int, moved: _Moved, begin: int, end: int) -> Iterator[Doubt]:
        thread = self.threads[moved.who]
        before = self.groups[moved.who] | thread.get((moved.packets, begin), 0)
        known = before
        for room, offset in moved.reads:
            known |= self.packets.get((*room, offset + begin), 0)
        for doubt in self.flags.doubts.get(number, ()):
            first = doubt.starts[1] + begin
            if first < doubt.end and doubt.first < doubt.starts[1] + end and not self._settled(
                    doubt, first, known if doubt.writes else before):
                yield doubt
        mine = self._bit(number, moved, begin)
        thread[moved.packets, begin] = known | mine
        for room, offset in moved.reads:
            if room in self.landed:
                line = *room, offset + begin
                self.taken[line] = self.taken.get(line, 0) | mine
        for room, offset in moved.writes:
            if self.flags.flagged[room[1]]:
                line = *room, offset + begin
                told = known | mine
                again = self.flags.again(room, offset + begin)      # a reader may have got the one or the other
                self.packets[line] = told & self.packets.get(line, told) if again else told
                self.taken[line] = 0

    def _bit(self, number: int, moved: _Moved, begin: int) -> int:
        if number not in self.asked and not any(room in self.landed for room, _ in moved.reads):
            return 0
        return 1 << self.bits.setdefault((number, begin), len(self.bits))

    def _settled(self, doubt: Doubt, first: int, known: int) -> bool:
        """Whether `known` settles a doubt for the piece that begins at request `first` of its buffer."""
        if doubt.landed:        # a known read of the packet shows that it came
            return not self.flags.again(doubt.room, first) and bool(self.taken.get((*doubt.room, first), 0) & known)
        place = self.bits.get((doubt.earlier, first - doubt.starts[0]))
        return place is not None and bool(known >> place & 1)


def _pieces(flags: Flags, rooms: set[Room]) -> dict[int, list[tuple[int, int]]]:
    """Per operation with data, its pieces: begins and ends among its own requests. An end in a buffer is one of every
    operation there, and of what the same threads do in the same positions."""
    frames: list[tuple[tuple[Who, int, bool], int, _Moved]] = []
    turns: dict[Who, int] = defaultdict(int)
    for number, entry in enumerate(flags.log):
        if isinstance(entry, _Met):
            turns[entry.who] += 1
        else:
            frames.append(((entry.who, turns[entry.who], entry.packets), number, entry))
    cuts = _Cuts(flags.path)
    for frame, _, entry in frames:
        for room, offset in (*entry.reads, *entry.writes):
            if room in rooms or flags.flagged[room[1]]:
                cuts.link(frame, room, entry.size, offset)
    for frame, _, entry in frames:
        cuts.cut(frame, 0, entry.size)
    return {number: [*pairwise(sorted(each for each in cuts.at[frame] if each <= entry.size))]
            for frame, number, entry in frames}


class _Cuts:
    """Ends of pieces, carried over along links: position p of `one` is position p + offset of `other`."""

    def __init__(self, path: str):
        self.path, self.count = path, 0
        self.at: dict[object, set[int]] = defaultdict(set)
        self.links: dict[object, set[tuple[object, int, int, int]]] = defaultdict(set)     # to, first, end, added

    def link(self, one: object, other: object, size: int, offset: int) -> None:
        """Positions 0 to `size` of one are positions from `offset` on of the other."""
        self.links[one].add((other, 0, size, offset))
        self.links[other].add((one, offset, offset + size, -offset))

    def cut(self, where: object, *positions: int) -> None:
        """Cut at some positions, and at all that these are linked to."""
        todo = [(where, each) for each in positions]
        while todo:
            here, position = todo.pop()
            if position in self.at[here]:
                continue
            self.at[here].add(position)
            self.count += 1
            if self.count > MOST_PIECES:
                raise UnsupportedError(self.path, "operations cut each other's chunks into too many pieces",
                                       expected=f"at most {MOST_PIECES}, which the exam orders")
            todo += [(other, position + added) for other, first, end, added in self.links[here]
                     if first <= position <= end]
