"""Runs a plan once: calls in recorded order, on a stream each, with the waits between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from astrarium.errors import InputError
from astrarium.profile.execute.comm import Awaited, Wire
from astrarium.profile.execute.real.checks import arguments, tensors_in
from astrarium.profile.execute.real.plan import Item, Plan
from astrarium.profile.execute.real.tensors import Memory
from astrarium.trace._torch import torch_module

__all__ = ["MARK", "Runner"]

MARK = "replay of item "      # annotations of items in a profile, with their number
LOOK = 256                    # items between reports of progress
Mark = Callable[[str], AbstractContextManager[Any]]
CYCLES = 20_000_000           # of the wait that tells how fast the GPU counts them


class Runner:
    """Runs a plan's items on `device`. On a CPU each is timed as it runs; kernels of a GPU are timed by a profiler
    around a run that has `marks`."""

    def __init__(self, plan: Plan, device: str, wire: Wire, progress: Callable[[int], None]) -> None:
        self._torch, self._plan, self._device, self._wire = torch_module(), plan, device, wire
        self._memory, self._progress, self._gpu = Memory(plan.storages, device), progress, device == "cuda"
        self._works: dict[int, tuple[Any, list[Any]]] = {}
        self._ends: dict[int, Any] = {}
        self._lanes: dict[tuple[object, ...], Any] = {}
        self._signals = {other for item in plan.items for other in item.waits if plan.items[other].message is None}
        self._per_us = self._calibrated() if self._gpu and any(item.fault for item in plan.items) else 0.0

    def begin(self) -> None:
        """What is there before the first call; then nothing is under way."""
        self._memory.begin()
        self._settle()

    def once(self, *, marks: bool = False) -> tuple[float, dict[int, float]]:
        """(seconds from the first start to the last end, item -> seconds of what a CPU ran)."""
        taken: dict[int, float] = {}
        started: dict[int, float] = {}
        begin = time.perf_counter()
        with self._torch.no_grad():
            for place, item in enumerate(self._plan.items):
                if not place % LOOK:
                    self._progress(place)
                self._enter(item)
                for other in item.waits:
                    self._wait(other, started, taken)
                started[place] = time.perf_counter()
                self._run(place, item, taken, self._torch.profiler.record_function if marks else nullcontext)
                if self._gpu and place in self._signals:
                    self._ends[place] = self._torch.cuda.current_stream().record_event()
        for other in list(self._works):
            self._wait(other, started, taken)
        self._works.clear()
        self._settle()
        return time.perf_counter() - begin, taken

    def _settle(self) -> None:
        if not self._gpu:
            return
        try:
            self._torch.cuda.synchronize()
        except RuntimeError as error:      # of a kernel: PyTorch says of which only with CUDA_LAUNCH_BLOCKING=1
            raise InputError(self._plan.source, f"a kernel failed: {_line(error)}",
                             expected="kernels that run with random contents (CUDA_LAUNCH_BLOCKING=1 names the "
                             "operator)") from None

    def _enter(self, item: Item) -> None:
        """The stream of the item; communications of a group are issued from one of their own."""
        if self._gpu:
            stream = self._lanes.get(item.lane)
            if stream is None:
                stream = self._lanes[item.lane] = self._torch.cuda.Stream()
            self._torch.cuda.set_stream(stream)

    def _wait(self, other: int, started: dict[int, float], taken: dict[int, float]) -> None:
        """The current stream waits for an item (on a CPU: the host); communications of one lane end in order."""
        item = self._plan.items[other]
        if item.message is None:
            if self._gpu:
                self._torch.cuda.current_stream().wait_event(self._ends[other])
            return
        if self._gpu:
            work, held = self._works[other]
            if work is not None:
                work.wait()
            self._wire.give_back(held)
            self._works[other] = work, []
            return
        for place in [each for each in self._works if each <= other and self._plan.items[each].lane == item.lane]:
            work, held = self._works.pop(place)
            if work is not None:
                work.wait()
            self._wire.give_back(held)
            if isinstance(work, Awaited):
                taken[place] = work.ended - started[place]

    def _run(self, place: int, item: Item, taken: dict[int, float], mark: Mark) -> None:
        if item.message is not None:
            with mark(f"{MARK}{place}"):
                work, held = (self._wire.batch([item.message, *item.more]) if item.more else
                              self._wire.issue(item.message))
            timed = work if self._gpu or work is None or isinstance(work, Awaited) else Awaited(work)
            self._works[place] = timed, held
        elif item.fault:
            self._pass(self._plan.recorded_us(item))
        else:
            self._call(place, item, taken, mark)

    def _call(self, place: int, item: Item, taken: dict[int, float], mark: Mark) -> None:
        call, memory, head = item.call, self._memory, item.head
        assert call is not None
        try:
            given, named = arguments(call, lambda ref: memory.tensor(head, ref), self._device)
            begin = time.perf_counter()
            with mark(f"{MARK}{place}"):
                result = call.known.op(*given, **named)
            if not self._gpu:
                taken[place] = time.perf_counter() - begin
        except Exception as error:      # of any kind: it is PyTorch's answer to these arguments
            raise InputError(self._plan.where(item), f"failed: {_line(error)}",
                             expected="an operator that runs with tensors of the recorded shapes") from None
        memory.ended(head, tensors_in(result, self._torch.Tensor))

    def _pass(self, micros: int) -> None:
        """Takes the recorded time: on the stream, or on the host."""
        if self._gpu:
            self._torch.cuda._sleep(round(micros * self._per_us))
            return
        end = time.perf_counter() + micros * 1e-6
        while time.perf_counter() < end:
            pass

    def _calibrated(self) -> float:
        """Cycles that the GPU counts in a us."""
        cuda = self._torch.cuda
        first, last = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda._sleep(CYCLES)
        first.record()
        cuda._sleep(CYCLES)
        last.record()
        cuda.synchronize()
        return CYCLES / (float(first.elapsed_time(last)) * 1e3)


def _line(error: BaseException) -> str:
    return (str(error).strip() or repr(error)).splitlines()[0]
