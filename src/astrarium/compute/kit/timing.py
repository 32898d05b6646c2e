"""Times of calls: inside a CUDA graph of many, queued behind a busy GPU, or by the clock of a CPU.

A kernel's time is that of one call inside a CUDA graph of about 5 ms, the median of three replays after one, whose
calls rotate among sets of operands, so that small ones do not stay in the L2. Calls that no graph holds are queued
while the GPU is busy, and run one behind the other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from astrarium.compute.kit.calls import Call

__all__ = ["clocked_ns", "graphed_ns", "queued_ns", "sustained_ns"]

SPAN = 5e6          # ns that a graph takes about
REPLAYS = 3
MOST, QUEUED = 2000, 100        # calls of a graph, and in the queue of a GPU, which holds about 1,024 launches
LONG = 2e8          # ns of a call from which on it is measured once
CYCLES, TICKS = 2.0, 0.1        # a ns, of the clock that a waiting kernel counts: NVIDIA's fastest, and AMD's
SETTLED = 0.5       # of a sustained run, after which its clock counts
AT_ONCE = 40        # graphs in the queue of a sustained run: while they run, clocks are read


def clocked_ns(calls: Sequence[Call]) -> float:
    """Median ns of a call on a CPU, after one."""
    calls[0]()
    found = []
    for place in range(2 * REPLAYS):
        start = time.perf_counter_ns()
        calls[place % len(calls)]()
        found.append(time.perf_counter_ns() - start)
    return float(np.median(found))


def graphed_ns(torch: Any, calls: Sequence[Call]) -> float:
    """Median ns of a call inside a CUDA graph of many."""
    if (once := _slow(torch, calls[0])) > LONG:
        return once
    graph, count = graph_of(torch, calls)
    graph.replay()
    return float(np.median([_between(torch, graph.replay) for _ in range(REPLAYS)])) / count


def graph_of(torch: Any, calls: Sequence[Call]) -> tuple[Any, int]:
    """(a CUDA graph of about 5 ms, how many calls it has). Everything a first call makes (handles, workspaces, plans)
    is made before the capture, on its stream."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls:
            call()
        once = min(_between(torch, calls[0]) for _ in range(2))
        count = len(calls) * math.ceil(min(MOST, max(1.0, SPAN / max(once, 1.0))) / len(calls))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for place in range(count):
                calls[place % len(calls)]()
    torch.cuda.current_stream().wait_stream(stream)
    return graph, count


def queued_ns(torch: Any, calls: Sequence[Call]) -> float:
    """Median ns of a call among many that wait in the GPU's queue."""
    if (once := _slow(torch, calls[0])) > LONG:
        return once
    for call in calls:
        call()
    torch.cuda.synchronize()
    start = time.perf_counter_ns()
    device = min(_between(torch, calls[0]) for _ in range(2))
    host = (time.perf_counter_ns() - start) / 2
    count = len(calls) * math.ceil(min(QUEUED, max(1.0, SPAN / max(device, 1.0))) / len(calls))

    def all_of_them() -> None:
        for place in range(count):
            calls[place % len(calls)]()

    return float(np.median([_between(torch, all_of_them, busy=host * count) for _ in range(REPLAYS)])) / count


def _slow(torch: Any, call: Call) -> float:
    """ns of the second call, the first one having made what it needs."""
    call()
    return _between(torch, call)


def _between(torch: Any, run: Callable[[], object], busy: float = 0) -> float:
    """ns of the GPU between two events around what `run` launches, while it was kept `busy` (ns)."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    if busy:
        torch.cuda._sleep(int(1.5 * busy * (TICKS if getattr(torch.version, "hip", None) else CYCLES)))
    first.record()
    run()
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last)) * 1e6


def sustained_ns(torch: Any, calls: Sequence[Call], seconds: float,
                 read: Callable[[], tuple[float, float] | None]) -> tuple[float, float, float]:
    """(ns of a call, mean MHz, mean W) of calls without a pause. Clocks and power are read while the GPU works, in the
    second half; 0 if `read` knows none."""
    graph, count = graph_of(torch, calls)
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start, times, readings = time.monotonic(), list[float](), list[tuple[float, float]]()
    while (passed := time.monotonic() - start) < seconds or not times:
        first.record()
        for _ in range(AT_ONCE):
            graph.replay()
        last.record()
        counts = passed > SETTLED * seconds
        readings += filter(None, [read()]) if counts else ()
        last.synchronize()
        times += [float(first.elapsed_time(last)) * 1e6 / AT_ONCE / count] if counts else []
    clock, watts = np.array(readings).mean(axis=0) if readings else (0.0, 0.0)
    return float(np.median(times)), float(clock), float(watts)
