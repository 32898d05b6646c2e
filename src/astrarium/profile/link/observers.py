"""What the profilers cost an operator on the host, from a recording in which they ran."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.profile.link.host import HostTrace
from astrarium.profile.link.join import Join
from astrarium.profile.link.nodes import Draft
from astrarium.profile.link.records import DeviceTrace
from astrarium.profile.link.threads import CALL, IDLE, OPERATOR, REST

__all__ = ["Observed", "observed"]

VIEWS = frozenset(f"aten::{name}" for name in (
    "t", "transpose", "as_strided", "view", "_unsafe_view", "_reshape_alias", "reshape", "slice", "narrow", "select",
    "alias", "expand", "permute", "unsqueeze", "squeeze", "chunk", "split", "split_with_sizes", "linear", "matmul"))
"""Operators that move no data, and those that only call others: their recorded time is the profilers'. Not `KEPT`."""

LEAST = 1 / 3
"""Quantile of other stretches that take what the profilers do: the mean over recordings that have views (0.17 to 0.64:
eager training, decoding, ResNet, Megatron, a compiled model on a CPU)."""
KEPT = ("detach", "AccumulateGrad")
"""Parts of names around gradients that are kept: they follow each other, and cost the profilers 0.5 to 0.7 of what
others of their size do."""
OWN = 0.03           # of the time of such an operator that is its own: PyTorch 2.13 on a CPU, recorded and not
CLASS = 9            # stretches alike from which on their median counts
CLASSES = 6          # such classes from which on the cost is fitted
LONG = 200_000       # ns: what a stretch takes longer than the median of its class is the program's time from here on
STANDARD = (1.0, 1.0, 1.0, 3.0)
"""An operator of 100 bytes of inputs and 300 of inputs and outputs in the host trace, in which costs are compared."""

REFERENCE = (320.0, 2_920.0, 3_710.0, 1_620.0)
"""ns of entering an operator, per 100 bytes of its inputs in the host trace, of leaving it, per 100 bytes of all that
the trace says of it, from which on the profilers slow the program's own host work as well, by as much as they take
longer than this: they leave it less of the caches. Both profilers of PyTorch 2.11 on the host of one H100: a training
step whose host takes 46 ms unrecorded, and decode steps."""


class Observed(Struct, frozen=True, eq=False):
    """`left` [nodes of the draft]: ns that each host node takes unrecorded, its duration for others. `cost`: ns an
    operator, the mean; `standard`: ns of a standard operator; `operators`: how many paid it; `fitted`: whether the
    recording itself says it."""

    left: F64
    cost: float
    standard: float
    operators: int
    fitted: bool


_Classes = dict[tuple[str, ...], list[int]]
"""What began and ended in host nodes, by names, "" first where that are VIEWS only -> the nodes."""


class _Events(Struct, frozen=True, eq=False):
    """Begins and ends of a thread's operators in order: times (ns), what each costs in units of the fit, names."""

    time: npt.NDArray[np.int64]
    total: F64               # [events + 1, 4] running sums
    name: list[str]


def observed(trace: DeviceTrace, host: HostTrace | None, join: Join, draft: Draft) -> Observed:
    """Takes the profilers' cost from host nodes.

    Both profilers work when an operator begins and when it ends: what they do grows with the text that they write of
    it. Their cost is fitted to the medians of stretches in which nothing but `VIEWS` begin and end.
    """
    durations = _without_overhead(trace, draft)
    events = _events(trace, host, join)
    units, classes = _classes(trace, draft, events)
    cost, fitted = _fit(durations, units, classes, host is not None)
    standard = float(np.dot(cost, STANDARD))
    speed = min(1.0, float(np.dot(REFERENCE, STANDARD)) / max(standard, 1.0))
    left, more = durations.copy(), np.zeros_like(durations)
    for members in classes.values():
        left[members], more[members] = _usual(durations[members])
    on_host = np.array(sorted(chain.from_iterable(classes.values())), np.int64)
    work = left[on_host] - units[on_host] @ cost * (1 - OWN)
    kept = np.maximum(work, 0)
    kept *= max(work.sum(), 0) / max(kept.sum(), 1.0)      # what the fit takes too much of some
    left[on_host] = speed * np.minimum(kept, LONG) + np.maximum(kept - LONG, 0) + more[on_host]
    count = sum(len(each.name) for each in events.values()) // 2
    total = sum(each.total[-1] @ cost for each in events.values())
    return Observed(left, float(total) / max(count, 1), standard, count, fitted)


def _without_overhead(trace: DeviceTrace, draft: Draft) -> F64:
    """[nodes] ns without what the profiler itself recorded as its own."""
    start, end = np.frombuffer(draft.start, np.int64), np.frombuffer(draft.end, np.int64)
    out = (end - start).astype(np.float64)
    host = np.isin(np.frombuffer(draft.part, np.int8), (OPERATOR, REST, CALL))
    for begin, until in trace.overhead:
        out -= host * np.maximum(np.minimum(end, until) - np.maximum(start, begin), 0)
    return np.maximum(out, 0)


def _events(trace: DeviceTrace, host: HostTrace | None, join: Join) -> dict[int, _Events]:
    operators = trace.operators
    by_thread: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for number, thread in enumerate(operators.thread):
        by_thread[thread] += [(operators.start[number], 0, number), (operators.end[number], 1, number)]
    found = {}
    for thread, events in by_thread.items():
        events.sort()
        units = np.zeros((len(events) + 1, 4))
        for place, (_, leaves, number) in enumerate(events, 1):
            into, every = _bytes(host, join.host[number])
            units[place, 2 * leaves:2 * leaves + 2] = 1, (every if leaves else into) / 100
        found[thread] = _Events(np.array([at for at, _, _ in events], np.int64), units.cumsum(0),
                                [operators.name[number] for _, _, number in events])
    return found


def _bytes(host: HostTrace | None, node: int) -> tuple[int, int]:
    """Bytes that the host trace has of a node's inputs, and of inputs, outputs and schema."""
    if host is None or node < 0:
        return 0, 0
    raw = host.raw[node]
    sizes = [len(bytes(each)) for each in raw]
    return sum(sizes[:len(raw) // 2]), sum(sizes) + len(host.op_schema[node])


def _classes(trace: DeviceTrace, draft: Draft, events: dict[int, _Events]) -> tuple[F64, _Classes]:
    """[nodes, 4] what the profilers did in each host node, in units of the fit; and the classes of host nodes."""
    units = np.zeros((len(draft), 4))
    classes: _Classes = defaultdict(list)
    lanes: dict[int, list[int]] = defaultdict(list)
    for node, part in enumerate(draft.part):
        if part in (OPERATOR, REST, CALL, IDLE):
            lanes[draft.lane[node]].append(node)
    base = len(trace.operators.name)
    for lane, nodes in lanes.items():
        of = events.get(lane)
        nodes.sort(key=lambda node: (draft.start[node], draft.end[node], node))
        for node, after in zip(nodes, [*nodes[1:], -1], strict=True):
            own = _name(trace, draft.of[node], base)
            calls = after >= 0 and draft.part[after] == CALL
            names: Sequence[str] = ()
            if of is not None:
                first, last = np.searchsorted(of.time, (draft.start[node], draft.end[node]), side="right")
                units[node] = of.total[last] - of.total[first]
                names = of.name[first:last]
            free = not calls and draft.part[node] in (OPERATOR, REST) and VIEWS.issuperset((own, *names))
            what = ("" if free else "work", str(draft.part[node]), own, str(calls), *names)
            classes[what].append(node)
    return units, classes


def _name(trace: DeviceTrace, of: int, base: int) -> str:
    return "" if of < 0 else trace.operators.name[of] if of < base else trace.calls.name[of - base]


def _fit(durations: F64, units: F64, classes: _Classes, told: bool) -> tuple[F64, bool]:
    """ns per unit: those of the recording's own views; `REFERENCE` in proportion where it has few. None where no host
    trace was written (`told`): the other profiler alone takes about as long as such an operator itself."""
    free = [members for name, members in classes.items() if not name[0] and len(members) >= CLASS]
    if not told:
        return np.zeros(4), False
    if len(free) < CLASSES:
        return _in_proportion(durations, units @ np.array(REFERENCE), classes)
    weight = np.sqrt([len(members) for members in free])
    rows = np.array([units[members].mean(0) for members in free])
    target = np.array([np.median(durations[members]) for members in free])
    kept: npt.NDArray[np.bool_] = np.asarray(rows.any(axis=0), np.bool_)
    cost = np.zeros(4)
    while kept.any():
        cost[:] = 0
        cost[kept] = np.linalg.lstsq(rows[:, kept] * weight[:, None], target * weight, rcond=None)[0]
        if (cost >= 0).all():
            break
        kept[int(np.argmin(cost))] = False
    return cost, True


def _in_proportion(durations: F64, paid: F64, classes: _Classes) -> tuple[F64, bool]:
    """`REFERENCE`, times what stretches of views take of it (median), or others in which operators begin or end and
    nothing is launched (`LEAST`: the shortest of them do as little)."""
    views = [node for name, members in classes.items() for node in members if not name[0] and paid[node] > 0]
    others = [node for name, members in classes.items()
              if name[1] in (str(OPERATOR), str(REST)) and name[3] == str(False)
              and not any(part in each for part in KEPT for each in name[2:])
              for node in members if paid[node] > 0]
    found, share = (views, 0.5) if len(views) >= CLASS else (others, LEAST)
    if len(found) < CLASS:
        return np.array(REFERENCE), False
    return np.array(REFERENCE) * float(np.quantile(durations[found] / paid[found], share)), True


def _usual(durations: F64) -> tuple[F64, F64]:
    """The usual time of stretches of one class, and what some take much longer."""
    if len(durations) < CLASS:
        return durations, np.zeros_like(durations)
    usual = float(np.median(durations))
    return np.full_like(durations, usual), np.where(durations - usual > LONG, durations - usual, 0)
