"""A collective algorithm as an MSCCL program (XML): thread blocks per peer, steps on chunks of buffers.

Reductions, gathers and broadcasts run in place. Operations that leave every participant its part have chunk x * k + j
for block j * n + x of the schedule (k blocks per participant), so that what belongs to a GPU is contiguous. In the
others any order of chunks will do: they take one in which messages carry neighbours. An all-to-all's items rest in
scratch on their way.

A thread block sends its steps one after the other, each delivered before the next begins. What the algorithm sends at
once to one peer therefore goes over several channels, each with a thread block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.collective.exam_order import chain_lengths, firing_order
from astrarium.collective.messages import Expanded, expand, message_blocks
from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu.msccl.text import algo_xml
from astrarium.gpu.msccl.xml import COLLS, Algo, Block, Gpu, Step
from astrarium.vocab import CommOp, Schedule

__all__ = ["msccl_xml"]

Place = tuple[str, int]         # buffer, chunk
Key = tuple[str, int, int]      # send or recv, peer, channel
SPREAD = (CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL, CommOp.GATHER, CommOp.SCATTER)
MOST_STEPS = 4_000_000
CHANNELS = 32           # MAXCHANNELS of NCCL 2.12 (src/include/devcomm.h), on which MSCCL is built


class _Message(Struct, frozen=True, eq=False):
    """What one message carries: where from at the sender, where to at the receiver, chunk by chunk; and the channel of
    each stretch of neighbours."""

    source: Sequence[Place]
    target: Sequence[Place]
    channels: Sequence[int] = ()


class _Gpu(Struct, eq=False):
    """One GPU while its steps are collected."""

    blocks: dict[Key, list[Step]] = field(default_factory=dict)
    number: dict[Key, int] = field(default_factory=dict)
    scratch: int = 0

    def block(self, key: Key) -> list[Step]:
        """The steps of the thread block of a direction, peer and channel."""
        self.number.setdefault(key, len(self.number))
        return self.blocks.setdefault(key, [])


def msccl_xml(schedule: Schedule, *, name: str = "") -> tuple[bytes, tuple[str, ...]]:
    """The program of `schedule` as an MSCCL XML file, and notes on what can make its time another one.

    InputError beyond MOST_STEPS steps; UnsupportedError for a barrier, which MSCCL lacks, and for a schedule whose
    messages between two participants overtake each other.
    """
    words = {op: word for word, op in reversed(COLLS.items())}
    if schedule.op not in words:
        raise UnsupportedError("msccl", f"MSCCL has no {schedule.op.name.lower()}",
                               expected="one of " + ", ".join(COLLS))
    if schedule.n * schedule.n > MOST_STEPS:
        raise _large(schedule.n)
    table = expand(schedule)
    gpus = [_Gpu() for _ in range(schedule.n)]
    messages = _items(schedule, table, gpus) if schedule.op == CommOp.ALL_TO_ALL else _in_place(schedule, table)
    messages, full = _channels(schedule, table, messages)
    made = 0
    for p, gpu in enumerate(gpus):
        _steps(p, gpu, table, messages)
        made += sum(map(len, gpu.blocks.values()))
        if made > MOST_STEPS:
            raise _large(schedule.n)
    algo = _algo(schedule, words[schedule.op], name or f"{schedule.algorithm} {words[schedule.op]}", gpus)
    return algo_xml(algo), _notes(messages, full)


def _large(n: int) -> InputError:
    return InputError("npus", f"a program of {n} GPUs has more than {MOST_STEPS:,} steps", expected="fewer GPUs")


# ------------------------------------------------------------ what messages carry
def _in_place(schedule: Schedule, table: Expanded) -> list[_Message]:
    n, per = schedule.n, schedule.blocks // schedule.n
    carried = [message_blocks(schedule, int(src), int(entry)).tolist()
               for src, entry in zip(table.src, table.entry, strict=True)]
    if schedule.op not in SPREAD:
        chunk = _neighbours(schedule.blocks, {frozenset(blocks) for blocks in carried})
    elif schedule.blocks % n == 0:
        chunk = [block % n * per + block // n for block in range(schedule.blocks)]
    else:
        chunk = list(range(schedule.blocks))
    buffer = "o" if schedule.op in (CommOp.ALL_GATHER, CommOp.GATHER) else "i"
    found = []
    for blocks in carried:
        places = sorted((buffer, chunk[block]) for block in blocks)
        found.append(_Message(places, places))
    return found


def _neighbours(blocks: int, sets: set[frozenset[int]]) -> list[int]:
    """Each block's chunk [blocks], so that the blocks of a set are neighbours: possible if any two of the sets are
    disjoint or one contains the other, as halves of halves are. Others may stay apart."""
    ordered = sorted(sets, key=lambda each: (-len(each), min(each, default=0)))
    if all(not each or max(each) - min(each) == len(each) - 1 for each in ordered):
        return list(range(blocks))
    classes = [list(range(blocks))]
    for each in ordered:
        split = []
        for members in classes:
            parts = [[block for block in members if (block in each) == inside] for inside in (True, False)]
            split += sorted(filter(None, parts))
        classes = split
    chunk = [0] * blocks
    for place, block in enumerate(block for members in classes for block in members):
        chunk[block] = place
    return chunk


def _items(schedule: Schedule, table: Expanded, gpus: Sequence[_Gpu]) -> list[_Message]:
    """Every message's items: a send that names a destination takes what the sender then holds for it."""
    n, per = schedule.n, schedule.blocks // schedule.n
    held: list[dict[int, list[tuple[int, Place]]]] = [
        {block: [(p, ("i", block % n * per + block // n))] for block in range(schedule.blocks)} for p in range(n)]
    arrived: list[dict[int, list[tuple[int, int, Place]]]] = [{} for _ in range(n)]
    taken, found = [0] * n, {}

    def fail(message: str, expected: str | None = None) -> InputError:
        return InputError("msccl", message, expected=expected)

    for m in firing_order(table, fail):
        p, q = int(table.src[m]), int(table.dst[m])
        while taken[p] < int(table.needs[m]):
            for block, origin, place in arrived[p].pop(taken[p]):
                held[p].setdefault(block, []).append((origin, place))
            taken[p] += 1
        carried = []
        for block in dict.fromkeys(message_blocks(schedule, p, int(table.entry[m])).tolist()):
            carried += [(block, origin, place) for origin, place in held[p].pop(block, [])]
        new = []
        for block, origin, _ in carried:
            home = block % n == q
            new.append((block, origin, ("o", origin * per + block // n) if home else ("s", gpus[q].scratch)))
            gpus[q].scratch += not home
        arrived[q][int(table.match[m])] = new
        found[m] = _Message([place for _, _, place in carried], [place for _, _, place in new])
    for p, gpu in enumerate(gpus):
        for j in range(per):
            gpu.block(("copy", -1, 0)).append(Step("cpy", ("i", p * per + j), ("o", p * per + j), 1, None, 0))
    return [found[m] for m in range(len(table.src))]


# ------------------------------------------------------------ channels
class _Lanes(Struct, eq=False):
    """The thread blocks of one GPU's sends, in order of first use."""

    peer: list[int] = field(default_factory=list)
    channel: list[int] = field(default_factory=list)
    last: dict[int, int] = field(default_factory=dict)      # round -> the last thread block that it uses
    count: dict[int, int] = field(default_factory=dict)     # peer -> its thread blocks
    full: int = 0           # sends that found all channels to their peer in use

    def take(self, peer: int, turn: int) -> int:
        """The channel of a send of round `turn`: of a thread block after those of the round's earlier sends, which
        go first."""
        after = self.last.get(turn, -1)
        found = next((at for at in range(after + 1, len(self.peer)) if self.peer[at] == peer), len(self.peer))
        if found == len(self.peer):
            have = self.count.get(peer, 0)
            if have == CHANNELS:
                self.full += 1
                return self.full % CHANNELS
            self.peer.append(peer)
            self.channel.append(have)
            self.count[peer] = have + 1
        self.last[turn] = found
        return self.channel[found]


def _channels(schedule: Schedule, table: Expanded, messages: Sequence[_Message]) -> tuple[list[_Message], int]:
    """The messages with a channel for each stretch, and how many stretches found none free: those that a GPU may send
    at once have different thread blocks.

    In a schedule that is the same for all participants only sends of one round meet; in others any two may.
    """
    def fail(message: str, expected: str | None = None) -> InputError:
        return InputError("msccl", message, expected=expected)

    rounds = [0] * len(messages)
    if len(set(schedule.program.tolist())) == 1:
        rounds = chain_lengths(table, firing_order(table, fail))
    lanes: dict[int, _Lanes] = defaultdict(_Lanes)
    found = [replace(message, channels=[lanes[int(table.src[m])].take(int(table.dst[m]), rounds[m])
                                        for _ in _runs(message)]) for m, message in enumerate(messages)]
    return found, sum(each.full for each in lanes.values())


# ------------------------------------------------------------ steps
def _steps(p: int, gpu: _Gpu, table: Expanded, messages: Sequence[_Message]) -> None:
    """Sends and receives of GPU `p`, a thread block per direction, peer and channel."""
    incoming = {int(table.match[m]): m for m in (table.dst == p).nonzero()[0].tolist()}
    first, count = int(table.recv_ptr[p]), int(table.recv_ptr[p + 1] - table.recv_ptr[p])
    ends: list[dict[Key, int]] = [{}]       # after the first r receives: thread block -> its last step
    writer: dict[Place, tuple[Key, int]] = {}
    last: dict[Key, int] = defaultdict(lambda: -1)
    for r in range(count):
        peer, message = int(table.recv_from[first + r]), messages[incoming[r]]
        kind = "rrc" if table.recv_reduce[first + r] else "r"
        ends.append(dict(ends[-1]))
        for channel, (_, place, length) in zip(message.channels, _runs(message), strict=True):
            key = ("recv", peer, channel)
            if incoming[r] < last[key]:
                raise UnsupportedError("msccl", f"messages from GPU {peer} to GPU {p} overtake each other")
            last[key] = incoming[r]
            before = {writer[each] for each in _span(place, length) if each in writer and writer[each][0] != key}
            at = _append(gpu, key, kind, place, place, length, before)
            writer.update(dict.fromkeys(_span(place, length), (key, at)))
            ends[-1][key] = at
    waited: dict[Key, dict[Key, int]] = defaultdict(dict)
    for m in range(int(table.send_ptr[p]), int(table.send_ptr[p + 1])):
        for channel, (place, _, length) in zip(messages[m].channels, _runs(messages[m]), strict=True):
            key = ("send", int(table.dst[m]), channel)
            needed = {(other, at) for other, at in ends[int(table.needs[m])].items()
                      if waited[key].get(other, -1) < at}
            waited[key].update(dict(needed))
            _append(gpu, key, "s", place, place, length, needed)


def _append(gpu: _Gpu, key: Key, kind: str, source: Place, target: Place, length: int,
            before: set[tuple[Key, int]]) -> int:
    """One step, after a nop for every step but one that it waits for; its place in the thread block."""
    steps = gpu.block(key)
    waits = [(gpu.number[other], at) for other, at in sorted(before)]
    for wait in waits[:-1]:
        steps.append(Step("nop", ("i", -1), ("o", -1), 0, wait, 0))
    steps.append(Step(kind, source, target, length, waits[-1] if waits else None, 0))
    return len(steps) - 1


def _runs(message: _Message) -> list[tuple[Place, Place, int]]:
    """(source, target, chunks) of stretches that are contiguous at both ends."""
    found: list[tuple[Place, Place, int]] = []
    for source, target in zip(message.source, message.target, strict=True):
        if found:
            (a, i), (b, j), length = found[-1]
            if (a, i + length) == source and (b, j + length) == target:
                found[-1] = ((a, i), (b, j), length + 1)
                continue
        found.append((source, target, 1))
    return found


def _span(place: Place, length: int) -> list[Place]:
    return [(place[0], place[1] + each) for each in range(length)]


# ------------------------------------------------------------ the whole
def _notes(messages: Sequence[_Message], full: int) -> tuple[str, ...]:
    """What MSCCL cannot express of the schedule."""
    parts = sum(len(message.channels) > 1 for message in messages)
    found = []
    if parts:
        found.append(f"{parts:,} of {len(messages):,} messages carry chunks that are not neighbours in their buffer: "
                     "MSCCL sends each in several parts, which can take another time than the algorithm")
    if full:
        found.append(f"{full:,} sends find all {CHANNELS} channels to their GPU in use: they wait for earlier ones, "
                     "which can take more time than the algorithm")
    return tuple(found)


def _algo(schedule: Schedule, coll: str, name: str, gpus: Sequence[_Gpu]) -> Algo:
    n, chunks = schedule.n, schedule.blocks
    shard = chunks // n if schedule.op in SPREAD and chunks % n == 0 else chunks
    inputs = shard if schedule.op in (CommOp.ALL_GATHER, CommOp.GATHER) else chunks
    outputs = shard if schedule.op in (CommOp.REDUCE_SCATTER, CommOp.SCATTER) else chunks
    made = []
    for p, gpu in enumerate(gpus):
        blocks = []
        for key, number in gpu.number.items():
            send, recv = (key[1] if key[0] == word else -1 for word in ("send", "recv"))
            blocks.append(Block(number, send, recv, key[2], tuple(gpu.blocks[key]), 0))
        made.append(Gpu(p, {"i": inputs, "o": outputs, "s": gpu.scratch}, tuple(blocks)))
    return Algo(name, coll, chunks, schedule.op != CommOp.ALL_TO_ALL, tuple(made))
