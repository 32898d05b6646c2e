"""GPU operations whose record is broken: communication kernels without a correlation id, durations that run over the
next operation of a stream."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping

from astrarium.profile.link.comm import by_kernel, is_comm_kernel, operation
from astrarium.profile.link.records import KERNEL, DeviceTrace

__all__ = ["adopted", "cut_corrupt", "launches_of"]

RECORDED = "record_param_comms"
OUTLASTS = 100_000       # ns after the end of the next operation from which on a duration is corrupt


def adopted(trace: DeviceTrace, launcher: Mapping[int, int]) -> dict[int, int]:
    """Communication kernel without a launching call -> the `record_param_comms` that issued it.

    RCCL's kernels have correlation id 0. Kernels and records match in order where there are as many of both and no
    kernel begins before its record or is named after another operation; else none does.
    """
    gpu, operators = trace.gpu, trace.operators
    kernels = sorted((gpu.start[g], g) for g, name in enumerate(gpu.name)
                     if g not in launcher and gpu.kind[g] == KERNEL and is_comm_kernel(name))
    if not kernels:
        return {}
    joined = defaultdict[int, list[int]](list)       # thread -> when it launched what is joined
    for call in sorted(set(launcher.values()), key=lambda call: trace.calls.start[call]):
        joined[trace.calls.thread[call]].append(trace.calls.start[call])
    records = sorted((operators.start[number], number) for number, name in enumerate(operators.name)
                     if name == RECORDED and _moves(trace, number)
                     and not _within(joined[operators.thread[number]], operators.start[number], operators.end[number]))
    pairs = {g: number for (_, g), (_, number) in zip(kernels, records, strict=False)}
    good = len(kernels) == len(records) and all(_fits(trace, g, number) for g, number in pairs.items())
    return pairs if good else {}


def _moves(trace: DeviceTrace, number: int) -> bool:
    args = trace.op_comms.get(number)
    return args is None or (args.op is not None and operation(args.op) is not None)


def _within(times: list[int], start: int, end: int) -> bool:
    place = bisect_left(times, start)
    return place < len(times) and times[place] < end


def _fits(trace: DeviceTrace, g: int, number: int) -> bool:
    named, args = by_kernel(trace.gpu.name[g]), trace.op_comms.get(number)
    said = operation(args.op) if args is not None and args.op else None
    return trace.gpu.start[g] >= trace.operators.start[number] and (named is None or said is None or named == said)


def launches_of(trace: DeviceTrace, numbers: Iterable[int], launched: Mapping[int, list[int]]) -> dict[int, int]:
    """Operator -> the first call inside it that launches something and has no operation yet."""
    calls, operators = trace.calls, trace.operators
    free = defaultdict[int, list[tuple[int, int]]](list)
    for call, name in enumerate(calls.name):
        if "launch" in name.lower() and call not in launched:
            free[calls.thread[call]].append((calls.start[call], call))
    for each in free.values():
        each.sort()
    found = {}
    for number in numbers:
        inside = free[operators.thread[number]]
        place = bisect_left(inside, (operators.start[number], -1))
        if place < len(inside) and inside[place][0] < operators.end[number]:
            found[number] = inside[place][1]
    return found


def cut_corrupt(trace: DeviceTrace, launcher: Mapping[int, int], launched: Mapping[int, list[int]]) -> int:
    """Ends operations that outlast the next one of their stream by `OUTLASTS` where that begins; returns how many.

    A stream runs one operation after the other; only branches of a graph, which one call launches together, run at
    once.
    """
    gpu = trace.gpu
    alone = [g for g, call in launcher.items() if len(launched[call]) == 1 and not gpu.graph[g]]
    last: dict[int, int] = {}
    count = 0
    for g in sorted(alone, key=lambda g: (gpu.start[g], gpu.end[g], g)):
        before = last.get(gpu.stream[g], -1)
        if before >= 0 and gpu.end[before] > gpu.end[g] + OUTLASTS and gpu.start[g] > gpu.start[before]:
            gpu.end[before] = gpu.start[g]
            count += 1
        last[gpu.stream[g]] = g
    return count
