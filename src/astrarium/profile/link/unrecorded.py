"""What a recorded run takes without its profilers: host nodes without their cost, and the GPU after them."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.profile.launches import Operator
from astrarium.profile.link.calls import Calls
from astrarium.profile.link.host import HostTrace
from astrarium.profile.link.join import Join
from astrarium.profile.link.launches import operator_of
from astrarium.profile.link.nodes import GAP, Draft, Order, ordered
from astrarium.profile.link.observers import Observed, observed
from astrarium.profile.link.records import DeviceTrace
from astrarium.profile.link.replay import Replayed, rerun
from astrarium.profile.link.threads import CALL, IDLE, OPERATOR, REST

__all__ = ["Clock", "Ran", "Slower", "Unrecorded", "unrecorded"]

QUEUED = 500         # ns: see `gaps`
GAPS = 20            # gaps between kernels that queued from which on their median counts
USUAL = 1_200        # ns from one kernel to the next of its stream, where a recording has too few: one H100
MOST, HALVINGS = 4.0, 12      # times what host nodes are estimated to take, and steps of the search between 0 and that
PROFILER = "ProfilerStep#"
_DIGITS = re.compile(r"\d+")


class Ran(Struct, frozen=True):
    """What one call of an operator ran on the GPU: names and ns of its kernels together."""

    operator: Operator
    kernels: tuple[str, ...]
    ns: int


class Slower(Struct, frozen=True, eq=False):
    """`factor` [calls]: of their recorded ns that kernels take at the `clock` (GHz) that a limit of `watts` leaves."""

    factor: npt.NDArray[np.float64]
    clock: float
    watts: float


Clock = Callable[[str, Sequence[Ran], int, int], "Slower | None"]
"""(device, what ran, ns of the recorded run, ns of the run without profilers) -> how much longer kernels take in it."""


class Unrecorded(Struct, frozen=True, eq=False):
    """The draft with the gaps that kernels have when they queue, its order, when each place begins (ns), its replay.
    `finish`: ns of all; `recorded`: ns of the recording; `steps`: the steps in it, at least 1."""

    draft: Draft
    order: Order
    start: I64
    result: Replayed
    finish: int
    recorded: int
    steps: int
    observers: Observed
    measured: int | None = None      # ns of a step, as `collect` has timed it
    slower: Slower | None = None

    @property
    def step_ms(self) -> float:
        return self.finish / self.steps / 1e6

    @property
    def line(self) -> str:
        """What the report says of it."""
        per = " a step" if self.steps > 1 else ""
        seen = self.observers
        if self.measured is not None:
            return (f"unrecorded: {self.step_ms:.1f} ms{per} (recorded {self.recorded / self.steps / 1e6:.1f} ms); "
                    f"measured {self.measured / 1e6:.1f} ms, to which host operators were shortened")
        how = "as this recording shows" if seen.fitted else "assumed: this recording has too few operators to show it"
        found = (f"unrecorded: {self.step_ms:.1f} ms{per} (recorded {self.recorded / self.steps / 1e6:.1f} ms): the "
                 f"profilers took {seen.cost / 1000:.1f} us of each of {seen.operators:,} host operators ({how})")
        if self.slower is not None:
            return (f"{found}; products take {100 * (self.slower.factor.max() - 1):.1f} % longer than recorded, at "
                    f"{self.slower.clock:.2f} GHz, which {self.slower.watts:.0f} W leave a GPU that does not wait")
        return found + "; kernels keep their recorded times, and so the clock of a GPU that waited for its host"


def unrecorded(trace: DeviceTrace, host: HostTrace | None, join: Join, calls: Calls, parent: Sequence[int],
               draft: Draft, clock: Clock | None) -> Unrecorded | None:
    """Replays a finished draft without the profilers; None where nothing says what they took: too few operators, and no
    host trace. `parent` as `host_threads` gives it."""
    seen = observed(trace, host, join, draft)
    if not seen.cost and trace.alone is None:
        return None
    quiet = _copied(draft)
    for before, g, gap in _queue_gaps(trace, calls, draft):
        node = quiet.node(draft.end[before], draft.end[before] + gap, GAP, g, -2 - trace.gpu.stream[g])
        quiet.edge(before, node)
        quiet.edge(node, g)
    order, steps = ordered(quiet), _steps(trace)
    end, start = np.frombuffer(quiet.end, np.int64), np.frombuffer(quiet.start, np.int64)
    length = end - start
    length[:len(draft)] = np.round(seen.left)
    recorded = int(end.max() - start.min()) if len(quiet) else 0
    calling = _calling(trace, calls, parent) if clock is not None else {}
    ran = [Ran(operator_of(trace, host, join, number), tuple(trace.gpu.name[g] for g in each),
               sum(trace.gpu.end[g] - trace.gpu.start[g] for g in each)) for number, each in calling.items()]
    slower = None if clock is None else clock(trace.device, ran, recorded, rerun(order, length[order.node])[1].finish)
    if slower is not None:
        for each, factor in zip(calling.values(), slower.factor, strict=True):
            length[each] = np.round(length[each] * factor)
    if trace.alone:
        length = _scaled(quiet, order, length, trace.alone * steps)
    begin, result = rerun(order, length[order.node])
    return Unrecorded(quiet, order, begin, result, min(result.finish, recorded), recorded, steps, seen, trace.alone,
                      slower)


def _calling(trace: DeviceTrace, calls: Calls, parent: Sequence[int]) -> Mapping[int, list[int]]:
    """Operator -> the GPU operations that calls right inside it launched."""
    found: dict[int, list[int]] = {}
    for g, call in sorted(calls.launcher.items()):
        around = parent[len(trace.operators.name) + call]
        if around >= 0:
            found.setdefault(around, []).append(g)
    return found


def _scaled(draft: Draft, order: Order, length: I64, measured: int) -> I64:
    """Durations [nodes] with those of host nodes times the factor at which all take as long as measured (ns)."""
    host = np.isin(np.frombuffer(draft.part, np.int8), (OPERATOR, REST, CALL, IDLE))
    low, high = 0.0, MOST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        tried = np.where(host, np.round(length * middle), length).astype(np.int64)
        shorter = rerun(order, tried[order.node])[1].finish < measured
        low, high = (middle, high) if shorter else (low, middle)
    return np.where(host, np.round(length * low), length).astype(np.int64)


def _copied(draft: Draft) -> Draft:
    return Draft(*(array(column.typecode, column) for column in (
        draft.start, draft.end, draft.part, draft.of, draft.lane, draft.before, draft.after, draft.waits)))


def _queue_gaps(trace: DeviceTrace, calls: Calls, draft: Draft) -> list[tuple[int, int, int]]:
    """(operation, the next of its stream, ns between them if that had queued) of those that had not."""
    gpu, last = trace.gpu, dict[int, int]()
    queued, waited = list[int](), list[tuple[int, int]]()
    for g in sorted(range(len(gpu.name)), key=lambda g: (gpu.start[g], g)):
        before = last.get(gpu.stream[g], -1)
        last[gpu.stream[g]] = g
        call = calls.launcher.get(g, -1)
        if before < 0 or call < 0 or draft.end[before] > gpu.start[g]:
            continue
        if trace.calls.end[call] > gpu.end[before]:
            waited.append((before, g))
        elif gpu.start[g] - gpu.end[before] >= QUEUED:
            queued.append(gpu.start[g] - gpu.end[before])
    usual = int(np.median(queued)) if len(queued) >= GAPS else USUAL
    return [(before, g, usual) for before, g in waited if draft.end[before] + usual <= gpu.start[g]]


def _steps(trace: DeviceTrace) -> int:
    """Steps of the profiler; without, annotations that differ in a number only and name a step; else 1. One that lasts
    less than a tenth of the longest is what was left of a block after its last step."""
    operators, named = trace.operators, defaultdict[str, list[int]](list)
    for number, name in enumerate(operators.name):
        marked = number in operators.annotations or name.startswith(PROFILER)
        if marked and "step" in name.lower() and _DIGITS.search(name):
            named[_DIGITS.sub("#", name, count=1)].append(operators.end[number] - operators.start[number])
    found = named.get(f"{PROFILER}#") or max(named.values(), key=len, default=[])
    return max(sum(10 * length >= max(found) for length in found), 1)
