"""The exam of MSCCL algorithms: run the steps on symbols, and refuse races.

A value is how often each (GPU, chunk) of the inputs is in a buffer's chunk. Two accesses of a chunk, one of them a
write, must be ordered by the steps' dependencies and messages, whatever the timing.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque

from msgspec import Struct

from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu.msccl.xml import RECEIVES, SENDS, Algo, Gpu, Step, check_blocks, msccl_op
from astrarium.vocab import CommOp

__all__ = ["check_ranges", "examine_msccl"]

Value = Counter[tuple[int, int]]
Place = tuple[int, str, int]             # GPU, buffer, chunk
MOST_VALUES = 1 << 22
_LOCAL = frozenset({"rrc", "rrs", "rrcs"})  # add the local source to what arrives


class _At(Struct, frozen=True):
    gpu: int
    block: int
    place: int
    step: Step

    def __str__(self) -> str:
        return f"rank {self.gpu}, threadblock {self.block}, step {self.place} ({self.step.type})"


def check_ranges(algo: Algo, *, path: str = "msccl") -> None:
    """Peers that exist, and chunks inside their buffers; InputError names GPU, thread block and step."""
    op, n = msccl_op(algo, path=path), len(algo.gpus)
    share = algo.chunks // n
    inputs, outputs = (share if op == each else algo.chunks for each in (CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER))
    for gpu in algo.gpus:
        most = {"i": inputs, "o": outputs, "s": gpu.chunks["s"]}
        for block in gpu.blocks:
            for peer in (block.send, block.recv):
                if peer >= n or peer == gpu.id:
                    raise InputError(f"{path}:{block.line}", f"rank {gpu.id}, threadblock {block.id}: peer {peer}",
                                     expected=f"another one of 0 to {n - 1}, or -1")
            for at, step in enumerate(block.steps):
                for buffer, first in _uses(step):
                    if first < 0 or step.count < 1 or first + step.count > most[buffer]:
                        raise InputError(f"{path}:{step.line}", f"{_At(gpu.id, block.id, at, step)}: chunks {first} to "
                                         f"{first + step.count} of buffer {buffer!r}",
                                         expected=f"at least one, up to {most[buffer]}")


def _uses(step: Step) -> list[tuple[str, int]]:
    """The ends of a step that name memory of its GPU."""
    kind = step.type
    ends = [step.source] if kind in {"s", "cpy", "re"} | _LOCAL else []
    return ends + ([step.target] if kind in ("r", "rrc", "rcs", "rrcs", "cpy", "re") else [])


def examine_msccl(algo: Algo, *, path: str = "msccl") -> None:
    """Prove an all_reduce, all_gather, reduce_scatter or all_to_all; InputError says what is wrong, with the line."""
    op = msccl_op(algo, path=path)
    if op not in (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL):
        raise UnsupportedError(path, f"no proof for {op.name.lower()}: the file does not name its root")
    n = len(algo.gpus)
    if algo.chunks * n * n > MOST_VALUES:
        raise UnsupportedError(path, f"nchunksperloop={algo.chunks} on {n} GPUs", expected="at most "
                               f"{MOST_VALUES // n // n} chunks: the proof records which GPU holds each")
    if op != CommOp.ALL_REDUCE and algo.chunks % n:
        raise InputError(path, f"nchunksperloop={algo.chunks} for {n} GPUs", expected="a multiple of the GPUs")
    for gpu in algo.gpus:
        check_blocks(gpu, path)
    steps, before, mate = _graph(algo, path)
    order = _sorted(steps, before, path)
    _check_races(algo, op, steps, before, order, path)
    held = _run(algo, op, steps, mate, order, path)
    _check_end(algo, op, held, path)


def _graph(algo: Algo, path: str) -> tuple[list[_At], list[list[int]], dict[int, int]]:
    """All steps, what each comes after, and which step's message each receiving step takes."""
    steps: list[_At] = []
    number: dict[tuple[int, int, int], int] = {}
    for gpu in algo.gpus:
        for block in gpu.blocks:
            for place, step in enumerate(block.steps):
                number[gpu.id, block.id, place] = len(steps)
                steps.append(_At(gpu.id, block.id, place, step))
    before: list[list[int]] = []
    for at in steps:
        parents = [number[at.gpu, at.block, at.place - 1]] if at.place else []
        if at.step.depends is not None:
            key = (at.gpu, *at.step.depends)
            if key not in number:
                raise InputError(f"{path}:{at.step.line}", f"{at}: depends on step {key[2]} of thread block {key[1]}, "
                                 "which does not exist")
            parents.append(number[key])
        before.append(parents)
    mate = _mates(algo, number, steps, path)
    for receiver, sender in mate.items():
        before[receiver].append(sender)
    return steps, before, mate


def _mates(algo: Algo, number: dict[tuple[int, int, int], int], steps: list[_At], path: str) -> dict[int, int]:
    queues: dict[tuple[int, int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for gpu in algo.gpus:
        for block in gpu.blocks:
            for place, step in enumerate(block.steps):
                if step.type in SENDS:
                    queues[gpu.id, block.send, block.channel][0].append(number[gpu.id, block.id, place])
                if step.type in RECEIVES:
                    queues[block.recv, gpu.id, block.channel][1].append(number[gpu.id, block.id, place])
    mate: dict[int, int] = {}
    for (source, target, channel), (sends, receives) in queues.items():
        if len(sends) != len(receives):
            more = sends if len(sends) > len(receives) else receives
            odd = steps[more[min(len(sends), len(receives))]]
            raise InputError(f"{path}:{odd.step.line}", f"{odd}: GPU {source} sends {len(sends)} messages to GPU "
                             f"{target} on channel {channel}, which receives {len(receives)}")
        mate.update(zip(receives, sends))
    return mate


def _sorted(steps: list[_At], before: list[list[int]], path: str) -> list[int]:
    children: dict[int, list[int]] = defaultdict(list)
    left = [len(parents) for parents in before]
    for child, parents in enumerate(before):
        for parent in parents:
            children[parent].append(child)
    ready, order = deque(i for i, count in enumerate(left) if not count), []
    while ready:
        i = ready.popleft()
        order.append(i)
        for child in children[i]:
            left[child] -= 1
            if not left[child]:
                ready.append(child)
    if len(order) < len(steps):
        stuck = steps[next(i for i, count in enumerate(left) if count)]
        raise InputError(f"{path}:{stuck.step.line}", f"deadlock: step {stuck.place} of thread block {stuck.block} of "
                         f"GPU {stuck.gpu} waits for itself through other steps")
    return order


def _place(algo: Algo, op: CommOp, gpu: int, buffer: str, chunk: int) -> Place:
    """The memory behind a buffer's chunk: in place, input and output overlap."""
    share = algo.chunks // len(algo.gpus)
    if algo.inplace and op == CommOp.ALL_GATHER and buffer == "i":
        return gpu, "o", gpu * share + chunk
    if algo.inplace and op == CommOp.REDUCE_SCATTER and buffer == "o":
        return gpu, "i", gpu * share + chunk
    if algo.inplace and op in (CommOp.ALL_REDUCE, CommOp.ALL_TO_ALL) and buffer == "o":
        return gpu, "i", chunk
    return gpu, buffer, chunk


def _accesses(algo: Algo, op: CommOp, at: _At) -> tuple[list[Place], list[Place]]:
    """Chunks that a step reads and writes."""
    def span(end: tuple[str, int]) -> list[Place]:
        return [_place(algo, op, at.gpu, end[0], end[1] + k) for k in range(at.step.count)]

    kind = at.step.type
    reads = span(at.step.source) if kind in {"s", "cpy", "re"} | _LOCAL else []
    reads += span(at.step.target) if kind == "re" else []
    writes = span(at.step.target) if kind in ("r", "rrc", "rcs", "rrcs", "cpy", "re") else []
    return reads, writes


def _check_races(algo: Algo, op: CommOp, steps: list[_At], before: list[list[int]], order: list[int],
                 path: str) -> None:
    past = [0] * len(steps)
    touched: dict[Place, list[tuple[int, bool]]] = defaultdict(list)
    for i in order:
        for parent in before[i]:
            past[i] |= past[parent] | (1 << parent)
        reads, writes = _accesses(algo, op, steps[i])
        for place, write in [(p, False) for p in reads] + [(p, True) for p in writes]:
            for other, wrote in touched[place]:
                if (write or wrote) and other != i and not past[i] >> other & 1:
                    raise InputError(
                        f"{path}:{steps[i].step.line}", f"{steps[i]}: nothing orders this step and the one on line "
                        f"{steps[other].step.line}, and both use chunk {place[2]} of buffer {place[1]!r}")
        for place, write in [(p, False) for p in reads] + [(p, True) for p in writes]:
            touched[place].append((i, write))


def _run(algo: Algo, op: CommOp, steps: list[_At], mate: dict[int, int], order: list[int],
         path: str) -> dict[Place, Value]:
    held = _start(algo, op)
    payload: dict[int, list[Value]] = {}
    for i in order:
        at = steps[i]
        reads, writes = _accesses(algo, op, at)
        missing = next((place for place in reads if place not in held), None)
        if missing:
            raise InputError(f"{path}:{at.step.line}", f"{at}: GPU {at.gpu} reads chunk {missing[2]} of "
                             f"buffer {missing[1]!r}, which holds nothing yet")
        local = [held[place] for place in reads]
        if i in mate:
            arrived = payload.pop(mate[i])
            if len(arrived) != at.step.count:
                raise InputError(f"{path}:{at.step.line}",
                                 f"{at}: receives {at.step.count} chunks of the {len(arrived)} sent")
            result = [a + b for a, b in zip(arrived, local)] if local else arrived
        elif at.step.type == "re":
            half = len(local) // 2
            result = [a + b for a, b in zip(local[:half], local[half:])]
        else:
            result = local
        held.update(zip(writes, result))
        if at.step.type in SENDS:
            payload[i] = result
    return held


def _start(algo: Algo, op: CommOp) -> dict[Place, Value]:
    count = algo.chunks // len(algo.gpus) if op == CommOp.ALL_GATHER else algo.chunks
    return {_place(algo, op, gpu.id, "i", j): Counter({(gpu.id, j): 1}) for gpu in algo.gpus for j in range(count)}


def _wanted(algo: Algo, op: CommOp, gpu: Gpu) -> list[Value]:
    """The output buffer of `gpu`, chunk by chunk."""
    n, share = len(algo.gpus), algo.chunks // len(algo.gpus)
    if op == CommOp.ALL_REDUCE:
        return [Counter({(r, j): 1 for r in range(n)}) for j in range(algo.chunks)]
    if op == CommOp.ALL_GATHER:
        return [Counter({(r, j): 1}) for r in range(n) for j in range(share)]
    if op == CommOp.REDUCE_SCATTER:
        return [Counter({(r, gpu.id * share + j): 1 for r in range(n)}) for j in range(share)]
    return [Counter({(r, gpu.id * share + j): 1}) for r in range(n) for j in range(share)]


def _check_end(algo: Algo, op: CommOp, held: dict[Place, Value], path: str) -> None:
    for gpu in algo.gpus:
        for j, want in enumerate(_wanted(algo, op, gpu)):
            has = held.get(_place(algo, op, gpu.id, "o", j), Counter())
            if has != want:
                extra, lacks = has - want, want - has
                what = f"lacks chunk {min(lacks)[1]} of GPU {min(lacks)[0]}" if lacks else \
                    f"holds chunk {min(extra)[1]} of GPU {min(extra)[0]} too often"
                raise InputError(path, f"{op.name.lower()}: GPU {gpu.id}'s output chunk {j} {what}")
