"""What the ranks of a microbenchmark run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from astrarium.arrays import I32
from astrarium.errors import InputError
from astrarium.trace.compose import ClassBuilder
from astrarium.trace.work import Generated, TraceClass
from astrarium.units import Bytes
from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.micro import Micro
from astrarium.workload.single import SingleCollective

__all__ = ["micro", "single"]

MOST = 1 << 22      # ranks squared: 16 bytes each


def micro(workload: Micro, ranks: int) -> Generated:
    """The columns. Raises InputError where the pattern does not fit the number of ranks."""
    if workload.pattern not in ("compute", "memory", "collectives") and ranks < 2:
        raise InputError("workload.pattern", f"{workload.pattern} of one rank", expected="at least 2 ranks")
    classes = _BUILD[workload.pattern](workload, np.arange(ranks, dtype=np.int32))
    return Generated(tuple(classes), (), (), (None,) * len(classes))


def single(workload: SingleCollective, ranks: int) -> Generated:
    """One collective."""
    return micro(Micro("collectives", ops=[workload.op], payload=workload.payload), ranks)


def _collectives(work: Micro, every: I32) -> list[TraceClass]:
    build, after = ClassBuilder(every), list[int]()
    for step in range(work.count):
        for op in work.operations:
            size = SingleCollective(op, Bytes.of(work.size)).shard(every.size)
            after = [build.coll(f"{op}.{step}", CommOp[op.upper()], size, after=after)]
    return [build.build()]


def _ring(work: Micro, every: I32) -> list[TraceClass]:
    return [_exchange(work, every, np.roll(every, -1), np.roll(every, 1))]


def _pairs(work: Micro, every: I32) -> list[TraceClass]:
    if every.size % 2:
        raise InputError("workload.pattern", f"pairs of {every.size} ranks", expected="an even number of ranks")
    return [_exchange(work, every, every ^ 1, every ^ 1)]


def _exchange(work: Micro, every: I32, to: I32, source: I32) -> TraceClass:
    """Every rank sends one way and receives from another; the next step waits for both."""
    build, after = ClassBuilder(every), list[int]()
    for step in range(work.count):
        after = [build.send(f"send.{step}", to, work.size, after=after),
                 build.recv(f"recv.{step}", source, work.size, after=after)]
    return build.build()


def _all_to_all(work: Micro, every: I32) -> list[TraceClass]:
    """The next round waits for all of a round: a node of type INVALID, which takes no time, joins it."""
    ranks = every.size
    if ranks * ranks > MOST:
        raise InputError("workload.pattern", f"all_to_all of {ranks} ranks", expected=f"at most {int(MOST**0.5)} ranks")
    build, after = ClassBuilder(every), list[int]()
    for step in range(work.count):
        if step:
            after = [build.other(f"joined.{step}", NodeKind.INVALID, after=after)]
        sent = [build.send(f"send.{step}.{shift}", (every + shift) % ranks, work.size, after=after)
                for shift in range(1, ranks)]
        after = [*sent, *(build.recv(f"recv.{step}.{shift}", (every - shift) % ranks, work.size, after=after)
                          for shift in range(1, ranks))]
    return [build.build()]


def _incast(work: Micro, every: I32) -> list[TraceClass]:
    return _one_and_others(work, every, ClassBuilder.recv, ClassBuilder.send)


def _outcast(work: Micro, every: I32) -> list[TraceClass]:
    return _one_and_others(work, every, ClassBuilder.send, ClassBuilder.recv)


def _one_and_others(work: Micro, every: I32, one: Callable[..., int], other: Callable[..., int]) -> list[TraceClass]:
    """Rank 0 does `one` with every other rank, which does `other` with it."""
    first, rest = ClassBuilder(every[:1]), ClassBuilder(every[1:])
    of_first, of_rest = list[int](), list[int]()
    for step in range(work.count):
        if step:
            of_first = [first.other(f"joined.{step}", NodeKind.INVALID, after=of_first)]
        of_first = [one(first, f"{one.__name__}.{step}.{peer}", peer, work.size, after=of_first)
                    for peer in every[1:].tolist()]
        of_rest = [other(rest, f"{other.__name__}.{step}", 0, work.size, after=of_rest)]
    return [first.build(), rest.build()]


def _compute(work: Micro, every: I32) -> list[TraceClass]:
    build, after = ClassBuilder(every), list[int]()
    for step in range(work.count):
        after = [_compute_node(work, build, f"compute.{step}", after)]
    return [build.build()]


def _compute_node(work: Micro, build: ClassBuilder, name: str, after: list[int]) -> int:
    return build.comp(name, work.microseconds, flops=work.flops, size=work.moved, after=after)


def _memory(work: Micro, every: I32) -> list[TraceClass]:
    build, after = ClassBuilder(every), list[int]()
    for step in range(work.count):
        after = [build.memory(f"load.{step}", work.size, after=after)]
        after = [build.memory(f"store.{step}", work.size, store=True, after=after)]
    return [build.build()]


def _every_type(work: Micro, every: I32) -> list[TraceClass]:
    build, after = ClassBuilder(every), list[int]()
    size = SingleCollective("all_reduce", Bytes.of(work.size)).shard(every.size)
    for step in range(work.count):
        after = [build.other(f"invalid.{step}", NodeKind.INVALID, after=after)]
        after = [build.other(f"metadata.{step}", NodeKind.METADATA, after=after)]
        after = [build.memory(f"load.{step}", work.size, after=after)]
        after = [_compute_node(work, build, f"compute.{step}", after)]
        after = [build.send(f"send.{step}", np.roll(every, -1), work.size, after=after),
                 build.recv(f"recv.{step}", np.roll(every, 1), work.size, after=after)]
        after = [build.coll(f"all_reduce.{step}", CommOp.ALL_REDUCE, size, after=after)]
        after = [build.memory(f"store.{step}", work.size, store=True, after=after)]
    return [build.build()]


_BUILD: Mapping[str, Callable[[Micro, I32], list[TraceClass]]] = MappingProxyType({
    "collectives": _collectives, "ring": _ring, "pairs": _pairs, "all_to_all": _all_to_all, "incast": _incast,
    "outcast": _outcast, "compute": _compute, "memory": _memory, "every_type": _every_type})
