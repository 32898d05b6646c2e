"""Communication on torch.distributed: every operation asynchronous, on buffers that are used again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from astrarium.errors import UnsupportedError
from astrarium.profile.execute.program import Message, Program
from astrarium.trace._torch import torch_module
from astrarium.vocab import CommOp

__all__ = ["Awaited", "Wire"]

SILENT = (CommOp.REDUCE_SCATTER, CommOp.REDUCE_SCATTER_BLOCK)     # and messages: see Awaited
WIDTH = 4      # bytes of the elements that are sent: float32


class Awaited:
    """An operation that a thread waits for: when it `ended` (perf_counter), and whether, which gloo cannot be asked
    about some (`is_completed` stays False)."""

    def __init__(self, work: Any) -> None:
        self.ended = 0.0
        self._done, self._fault = threading.Event(), list[BaseException]()
        self._work = work
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        try:
            self._work.wait()
        except BaseException as error:      # raised where the operation ends
            self._fault.append(error)
        self.ended = time.perf_counter()
        self._done.set()

    def is_completed(self) -> bool:
        return self._done.is_set()

    def wait(self) -> None:
        self._done.wait()
        if self._fault:
            raise self._fault[0]


class _Together:
    """Several operations as one."""

    def __init__(self, works: Sequence[Any]) -> None:
        self._works = works

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def wait(self) -> None:
        for work in self._works:
            work.wait()


class Wire:
    """Process groups and buffers of one rank. `issue` starts an operation and gives what is asked whether it is done,
    and the buffers that it holds until then."""

    def __init__(self, program: Program, device: str) -> None:
        self.torch, self.dist = torch_module(), torch_module("torch.distributed")
        self.device, self.ranks, self.rank = device, program.ranks, program.rank
        self.groups: dict[tuple[int, ...], Any] = {(): None}
        for ranks in program.groups:
            self.groups[ranks] = self.dist.new_group(list(ranks))
        self._spare: dict[int, list[Any]] = {}
        self._gather_all = _named(self.dist, "all_gather_single", "all_gather_into_tensor")
        self._scatter_sums = _named(self.dist, "reduce_scatter_single", "reduce_scatter_tensor")
        self._calls: dict[CommOp, Callable[..., Any]] = {
            CommOp.ALL_REDUCE: self._all_reduce, CommOp.ALL_GATHER: self._all_gather,
            CommOp.REDUCE_SCATTER: self._reduce_scatter, CommOp.REDUCE_SCATTER_BLOCK: self._reduce_scatter,
            CommOp.ALL_TO_ALL: self._all_to_all, CommOp.BROADCAST: self._broadcast, CommOp.REDUCE: self._reduce,
            CommOp.GATHER: self._gather, CommOp.SCATTER: self._scatter, CommOp.BARRIER: self._barrier}

    def batch(self, messages: Sequence[Message]) -> tuple[Any, list[Any]]:
        """Starts sends and receives that go on together, as one kernel of NCCL ran them; else as `issue`."""
        buffers = [self.buffer(max(-(-message.size // WIDTH), 1)) for message in messages]
        calls = [self.dist.P2POp(self.dist.isend if message.sends else self.dist.irecv, buffer, message.peer,
                                 tag=message.tag) for message, buffer in zip(messages, buffers, strict=True)]
        return self._asked(_Together(self.dist.batch_isend_irecv(calls))), buffers

    def issue(self, message: Message) -> tuple[Any, list[Any]]:
        """Starts a message. UnsupportedError where the back end does not know the operation."""
        count = -(-message.size // WIDTH)
        if message.op is None:
            buffer = self.buffer(max(count, 1))
            call = self.dist.isend if message.sends else self.dist.irecv
            return self._asked(call(buffer, message.peer, tag=message.tag)), [buffer]
        members = message.group or tuple(range(self.ranks))
        try:
            work, held = self._calls[message.op](count, members, self.groups[message.group])
        except (RuntimeError, NotImplementedError) as error:
            raise UnsupportedError(f"rank {self.rank}", f"{message.op.name.lower()}: {str(error).splitlines()[0]}",
                                   expected="an operation that the back end has") from None
        return (self._asked(work) if message.op in SILENT else work), held

    def _asked(self, work: Any) -> Any:
        return Awaited(work) if self.device == "cpu" else work

    def buffer(self, count: int) -> Any:
        """`count` elements, of zeros when new."""
        spare = self._spare.get(count)
        return spare.pop() if spare else self.torch.zeros(count, device=self.device)

    def give_back(self, buffers: list[Any]) -> None:
        """Buffers of an operation that is done."""
        for buffer in buffers:
            self._spare.setdefault(buffer.numel(), []).append(buffer)

    def _all_reduce(self, count: int, _members: tuple[int, ...], group: Any) -> tuple[Any, list[Any]]:
        data = self.buffer(max(count, 1))
        return self.dist.all_reduce(data, group=group, async_op=True), [data]

    def _all_gather(self, count: int, members: tuple[int, ...], group: Any) -> tuple[Any, list[Any]]:
        data, out = self.buffer(max(count, 1)), self.buffer(max(count, 1) * len(members))
        return self._gather_all(out, data, group=group, async_op=True), [data, out]

    def _reduce_scatter(self, count: int, members: tuple[int, ...], group: Any) -> tuple[Any, list[Any]]:
        each = max(-(-count // len(members)), 1)
        data, out = self.buffer(each * len(members)), self.buffer(each)
        return self._scatter_sums(out, data, group=group, async_op=True), [data, out]

    def _all_to_all(self, count: int, members: tuple[int, ...], group: Any) -> tuple[Any, list[Any]]:
        whole = max(-(-count // len(members)), 1) * len(members)
        data, out = self.buffer(whole), self.buffer(whole)
        return self.dist.all_to_all_single(out, data, group=group, async_op=True), [data, out]

    def _broadcast(self, count: int, members: tuple[int, ...], group: Any) -> tuple[Any, list[Any]]:
        data = self.buffer(max(count, 1))
        return self.dist.broadcast(data, members[0], group=group, async_op=True), [data]

    def _reduce(self, count: int, members: tuple[int, ...], group: Any) -> tuple[Any, list[Any]]:
        data = self.buffer(max(count, 1))
        return self.dist.reduce(data, members[0], group=group, async_op=True), [data]

    def _gather(self, count: int, members: tuple[int, ...], group: Any) -> tuple[Any, list[Any]]:
        data = self.buffer(max(count, 1))
        parts = [self.buffer(max(count, 1)) for _ in members] if self.rank == members[0] else []
        return self.dist.gather(data, parts or None, members[0], group=group, async_op=True), [data, *parts]

    def _scatter(self, count: int, members: tuple[int, ...], group: Any) -> tuple[Any, list[Any]]:
        data = self.buffer(max(-(-count // len(members)), 1))
        parts = [self.buffer(data.numel()) for _ in members] if self.rank == members[0] else []
        return self.dist.scatter(data, parts or None, members[0], group=group, async_op=True), [data, *parts]

    def _barrier(self, _count: int, _members: tuple[int, ...], group: Any) -> tuple[Any, list[Any]]:
        return self.dist.barrier(group=group, async_op=True), []


def _named(module: Any, new: str, old: str) -> Any:
    """A function by its name since PyTorch 2.13, else by the one before, which warns there."""
    return getattr(module, new, None) or getattr(module, old)
