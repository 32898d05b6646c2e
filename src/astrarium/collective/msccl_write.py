"""A collective algorithm as an MSCCL program (XML): thread blocks per peer, steps on chunks of buffers.

Reductions, gathers and broadcasts run in place. Chunk x * k + j is block j * n + x of the schedule (k blocks per
participant), so that what belongs to a GPU is contiguous. An all-to-all's items rest in scratch on their way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct, field

from astrarium.collective.exam_order import firing_order
from astrarium.collective.messages import Expanded, expand, message_blocks
from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu.msccl.text import algo_xml
from astrarium.gpu.msccl.xml import COLLS, Algo, Block, Gpu, Step
from astrarium.vocab import CommOp, Schedule

__all__ = ["msccl_xml"]

Place = tuple[str, int]         # buffer, chunk
Key = tuple[str, int]           # send or recv, peer
SPREAD = (CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL, CommOp.GATHER, CommOp.SCATTER)
MOST_STEPS = 4_000_000


class _Message(Struct, frozen=True, eq=False):
    """What one message carries: where from at the sender, where to at the receiver, chunk by chunk."""

    source: Sequence[Place]
    target: Sequence[Place]


class _Gpu(Struct, eq=False):
    """One GPU while its steps are collected."""

    blocks: dict[Key, list[Step]] = field(default_factory=dict)
    number: dict[Key, int] = field(default_factory=dict)
    scratch: int = 0

    def block(self, key: Key) -> list[Step]:
        """The steps of the thread block of a direction and peer."""
        self.number.setdefault(key, len(self.number))
        return self.blocks.setdefault(key, [])


def msccl_xml(schedule: Schedule, *, name: str = "") -> bytes:
    """The program of `schedule` as an MSCCL XML file.

    UnsupportedError for a barrier, which MSCCL lacks, and for a schedule whose messages between two participants
    overtake each other.
    """
    words = {op: word for word, op in reversed(COLLS.items())}
    if schedule.op not in words:
        raise UnsupportedError("msccl", f"MSCCL has no {schedule.op.name.lower()}",
                               expected="one of " + ", ".join(COLLS))
    if schedule.n * schedule.n > MOST_STEPS:
        raise InputError("npus", f"{schedule.n} GPUs", expected="at most 2000")
    table = expand(schedule)
    gpus = [_Gpu() for _ in range(schedule.n)]
    messages = _items(schedule, table, gpus) if schedule.op == CommOp.ALL_TO_ALL else _in_place(schedule, table)
    for p, gpu in enumerate(gpus):
        _steps(p, gpu, table, messages)
    return algo_xml(_algo(schedule, words[schedule.op], name or f"{schedule.algorithm} {words[schedule.op]}", gpus))


# ------------------------------------------------------------ what messages carry
def _in_place(schedule: Schedule, table: Expanded) -> list[_Message]:
    n, per = schedule.n, schedule.blocks // schedule.n
    spread = schedule.op in SPREAD and schedule.blocks % n == 0
    buffer = "o" if schedule.op in (CommOp.ALL_GATHER, CommOp.GATHER) else "i"
    found = []
    for m in range(len(table.src)):
        blocks = message_blocks(schedule, int(table.src[m]), int(table.entry[m])).tolist()
        places = [(buffer, block % n * per + block // n if spread else block) for block in blocks]
        found.append(_Message(sorted(places), sorted(places)))
    return found


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
            gpu.block(("copy", -1)).append(Step("cpy", ("i", p * per + j), ("o", p * per + j), 1, None, 0))
    return [found[m] for m in range(len(table.src))]


# ------------------------------------------------------------ steps
def _steps(p: int, gpu: _Gpu, table: Expanded, messages: Sequence[_Message]) -> None:
    """Sends and receives of GPU `p`, those of a peer and direction in program order in one thread block."""
    incoming = {int(table.match[m]): m for m in (table.dst == p).nonzero()[0].tolist()}
    first, count = int(table.recv_ptr[p]), int(table.recv_ptr[p + 1] - table.recv_ptr[p])
    ends: list[dict[Key, int]] = [{}]       # after the first r receives: thread block -> its last step
    writer: dict[Place, tuple[Key, int]] = {}
    last: dict[Key, int] = defaultdict(lambda: -1)
    for r in range(count):
        key, message = ("recv", int(table.recv_from[first + r])), messages[incoming[r]]
        if incoming[r] < last[key]:
            raise UnsupportedError("msccl", f"messages from GPU {key[1]} to GPU {p} overtake each other")
        last[key] = incoming[r]
        kind = "rrc" if table.recv_reduce[first + r] else "r"
        for _, place, length in _runs(message):
            before = {writer[each] for each in _span(place, length) if each in writer and writer[each][0] != key}
            at = _append(gpu, key, kind, place, place, length, before)
            writer.update(dict.fromkeys(_span(place, length), (key, at)))
        ends.append({**ends[-1], key: len(gpu.block(key)) - 1})
    waited: dict[Key, dict[Key, int]] = defaultdict(dict)
    for m in range(int(table.send_ptr[p]), int(table.send_ptr[p + 1])):
        key = ("send", int(table.dst[m]))
        needed = {(other, at) for other, at in ends[int(table.needs[m])].items() if waited[key].get(other, -1) < at}
        waited[key].update(dict(needed))
        for place, _, length in _runs(messages[m]):
            _append(gpu, key, "s", place, place, length, needed)
            needed = set()


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
            blocks.append(Block(number, send, recv, 0, tuple(gpu.blocks[key]), 0))
        made.append(Gpu(p, {"i": inputs, "o": outputs, "s": gpu.scratch}, tuple(blocks)))
    return Algo(name, coll, chunks, schedule.op != CommOp.ALL_TO_ALL, tuple(made))
