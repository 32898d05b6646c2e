"""The loop that executes a program: sleeps are timers, products run in place, communication runs in parallel."""

from __future__ import annotations

import time
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct, field

from astrarium.errors import InputError
from astrarium.profile.execute.comm import Wire
from astrarium.profile.execute.program import Program
from astrarium.trace._torch import torch_module

__all__ = ["Loop", "Measured", "Settings"]

POLL = 50e-6         # s between looks at what is under way
MOST_SIDE = 4096     # of the square matrices whose products replace FLOPs
LEAST_SIDE = 16


class Settings(Struct, frozen=True):
    """`backend` of torch.distributed; `compute`: `sleep` for recorded durations, `matmul` for the FLOPs of nodes that
    say them (the others sleep); sleeps are `scale` times as long; `timeout` in seconds without any progress."""

    backend: str = "gloo"
    compute: str = "sleep"
    scale: float = 1.0
    timeout: float = 120.0

    def __post_init__(self) -> None:
        if self.compute not in ("sleep", "matmul"):
            raise InputError("compute", f"{self.compute!r}", expected="sleep or matmul")


class Measured(Struct):
    """One execution: seconds from begin to end; [node] -> seconds of what was measured (products, communication)."""

    makespan: float
    taken: dict[int, float] = field(default_factory=dict)


class Loop:
    """Executes a program once per `run`. Children begin when their parents ended; a timer's end is its begin plus its
    duration, so a chain of short sleeps does not drift. Collectives of a group are issued in one order on all ranks."""

    def __init__(self, program: Program, settings: Settings, wire: Wire) -> None:
        self.program, self.settings, self.wire = program, settings, wire
        self._squares: dict[int, Any] = {}

    def run(self) -> Measured:
        """One execution. InputError after `timeout` without progress."""
        self._begin()
        begin = self._now = time.perf_counter()
        for node in self.program.order:
            if not self.program.waits[node]:
                self._ready(node, begin)
        last = begin
        while self._left:
            self._start_messages()
            moved = self._look()
            now = time.perf_counter()
            last = now if moved else last
            if self._left and not moved:
                if now - last > self.settings.timeout + self._longest:
                    raise InputError(f"rank {self.program.rank}", f"nothing has ended for {self.settings.timeout:g} s",
                                     expected="traces whose messages fit each other (astrarium check)")
                due = self._timers[0][0] - now if self._timers else POLL
                time.sleep(max(min(due, POLL if self._flying else due), 0))
        return Measured(self._end - begin, self._taken)

    def _begin(self) -> None:
        program = self.program
        self._waits = list(program.waits)
        self._start = [0.0] * len(program.order)
        self._left, self._end = len(program.order), 0.0
        self._timers: list[tuple[float, int]] = []
        self._flying: list[tuple[int, Any, list[Any], float]] = []
        self._taken: dict[int, float] = {}
        self._free = {0: 0.0, 1: 0.0}
        self._longest = max(program.duration, default=0.0) * self.settings.scale
        self._turns: dict[Any, list[int]] = {}
        for node in reversed(program.order):
            if node in program.messages:
                self._turns.setdefault(self._queue(node), []).append(node)
        self._able: set[int] = set()

    def _queue(self, node: int) -> Any:
        """Collectives of a group take turns; messages of a pair and direction too."""
        message = self.program.messages[node]
        return message.group if message.op is not None else (message.peer, message.sends)

    def _ready(self, node: int, at: float) -> None:
        """Everything that `node` waits for has ended, the last at `at`."""
        program = self.program
        self._start[node] = at
        if node in program.messages:
            self._able.add(node)
        elif self.settings.compute == "matmul" and program.flops[node] > 0:
            self._product(node)
        else:
            lane = program.lane[node]
            begin = max(at, self._free.get(lane, 0.0))
            end = begin + program.duration[node] * self.settings.scale
            if lane >= 0:
                self._free[lane] = end
            heappush(self._timers, (end, node))

    def _start_messages(self) -> None:
        for queue in self._turns.values():
            while queue and queue[-1] in self._able:
                node = queue.pop()
                self._able.discard(node)
                begin = time.perf_counter()
                work, held = self.wire.issue(self.program.messages[node])
                self._flying.append((node, work, held, begin))

    def _look(self) -> bool:
        """Ends what is over; whether something was."""
        moved, still = False, []
        for flight in self._flying:
            node, work, held, begin = flight
            if work is None or work.is_completed():
                if work is not None:
                    work.wait()
                now = time.perf_counter()
                self.wire.give_back(held)
                self._taken[node] = now - begin
                self._ended(node, now)
                moved = True
            else:
                still.append(flight)
        self._flying = still
        while self._timers and self._timers[0][0] <= time.perf_counter():
            end, node = heappop(self._timers)
            self._ended(node, end)
            moved = True
        return moved

    def _product(self, node: int) -> None:
        """Square matrices whose products have about the node's FLOPs, at least one product."""
        flops = self.program.flops[node]
        side = int(min(max(round((flops / 2) ** (1 / 3)), LEAST_SIDE), MOST_SIDE))
        if side not in self._squares:
            self._squares[side] = torch_module().ones((side, side), device=self.wire.device)
        square = self._squares[side]
        begin = time.perf_counter()
        for _ in range(max(round(flops / (2 * side**3)), 1)):
            square @ square
        if self.wire.device != "cpu":
            torch_module().cuda.synchronize()
        now = time.perf_counter()
        self._taken[node] = now - begin
        heappush(self._timers, (now, node))

    def _ended(self, node: int, at: float) -> None:
        self._left -= 1
        self._end = max(self._end, at)
        for child in self.program.children[node]:
            self._waits[child] -= 1
            self._start[child] = max(self._start[child], at)
            if not self._waits[child]:
                self._ready(child, self._start[child])
