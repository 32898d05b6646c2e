"""How long a search waits for one point: lower, fold and run a pipeline of 4 stages without any file.

`PYTHONPATH=src python benchmarks/folded_lowering.py` prints CPU milliseconds (the best of several runs) of each step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

import astrarium as ar
from astrarium.engine import execute
from astrarium.engine.outcome import Outcome
from astrarium.lower import lower
from astrarium.lower.kept import Kept
from astrarium.lower.work import from_generated
from astrarium.trace.work import Generated, TraceClass
from astrarium.vocab import CommOp, NodeKind

TP, PP, MB = 8, 4, 1 << 20
COMP, COLL, SEND, RECV = (int(kind) for kind in (NodeKind.COMP, NodeKind.COMM_COLL, NodeKind.COMM_SEND,
                                                 NodeKind.COMM_RECV))


@dataclass
class Stage:
    """The nodes of one stage; `args` [slots]: kind, peer displacement in stages or group axis, tag."""

    kind: list[int] = field(default_factory=list)
    duration: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    after: list[tuple[int, ...]] = field(default_factory=list)
    slot: list[int] = field(default_factory=list)
    args: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, kind: int, duration: int, size: int, after: tuple[int, ...], args: tuple[int, int] = (0, 0)) -> int:
        """A node; its number."""
        self.kind.append(kind)
        self.duration.append(duration)
        self.size.append(size)
        self.after.append(after)
        if kind != COMP:
            whole = (kind, *args)
            if whole not in self.args:
                self.args.append(whole)
            self.slot.append(self.args.index(whole))
        return len(self.kind) - 1


def layers(stage: Stage, count: int, duration: int, after: tuple[int, ...]) -> int:
    """Forward or backward of one microbatch: two computations and two tensor-parallel sums per layer."""
    last = after
    for _ in range(2 * count):
        made = stage.add(COMP, duration, 0, last)
        last = (stage.add(COLL, 0, 8 * MB, (made,), (0, 0)),)
    return last[0]


def stage_of(number: int, depth: int, microbatches: int) -> Stage:
    """1F1B: warm-up, then forward and backward in turn, then the rest; a sum over data parallelism per layer."""
    stage, last = Stage(), ()
    warm = min(PP - number, microbatches)
    order = ["f"] * warm + ["b", "f"] * (microbatches - warm) + ["b"] * warm
    for word in order:
        back = 1 if word == "b" else 0
        peer = (-1 if back else 1, 1 if back else -1)       # to, from
        wait = last
        if 0 <= number + peer[1] < PP:
            wait = (*last, stage.add(RECV, 0, 4 * MB, (), (peer[1], back)))
        done = layers(stage, depth, 100 * (1 + back), wait)
        if 0 <= number + peer[0] < PP:
            stage.add(SEND, 0, 4 * MB, (done,), (peer[0], back))
        last = (done,)
    for _ in range(depth):
        last = (stage.add(COLL, 0, 32 * MB, last, (1, 0)),)
    return stage


def workload(dp: int, depth: int, microbatches: int) -> Generated:
    """Classes by stage; rank = tensor + 8 * (data + dp * stage)."""
    ranks = np.arange(TP * dp * PP, dtype=np.int32).reshape(PP, dp, TP)
    groups = [*ranks.reshape(-1, TP), *ranks.transpose(0, 2, 1).reshape(-1, dp)]
    classes = tuple(trace_class(stage_of(s, depth, microbatches), s, ranks) for s in range(PP))
    return Generated(classes, tuple(groups), tuple(str(g + 1) for g in range(len(groups))), (None,) * PP)


def trace_class(stage: Stage, number: int, ranks: np.ndarray) -> TraceClass:
    """The columns of one stage."""
    mine, dp, count = ranks[number].reshape(-1), ranks.shape[1], len(stage.kind)
    tensor = number * dp + (mine // TP) % dp
    data = PP * dp + number * TP + mine % TP
    slot_a = [mine + shift * TP * dp if kind != COLL else np.full(mine.size, -1) for kind, shift, _ in stage.args]
    slot_b = [(data if axis else tensor) if kind == COLL else np.full(mine.size, tag) for kind, axis, tag in stage.args]
    kind = np.array(stage.kind, np.uint8)
    return TraceClass(
        ranks=mine, node_id=np.arange(count, dtype=np.uint64), type=kind, is_cpu=np.zeros(count, np.bool_),
        duration_us=np.array(stage.duration, np.uint64), num_ops=np.full(count, np.nan),
        tensor_size=np.zeros(count, np.uint64),
        comm_type=np.where(kind == COLL, int(CommOp.ALL_REDUCE), -1).astype(np.int32),
        comm_size=np.array(stage.size, np.int64), involved=np.full(count, -1, np.int32),
        priority=np.zeros(count, np.int32), parent_ptr=np.cumsum([0, *map(len, stage.after)]).astype(np.int64),
        parent=np.array([p for after in stage.after for p in after], np.int32),
        slot_a=np.ascontiguousarray(np.stack(slot_a, axis=1), np.int32),
        slot_b=np.ascontiguousarray(np.stack(slot_b, axis=1), np.int32), slot=np.array(stage.slot, np.int32))


def design_of(dp: int) -> ar.Design:
    """A network with a dim per kind of parallelism."""
    sizes, rates = (TP, dp, PP), ("450 GB/s", "50 GB/s", "50 GB/s")
    network = ar.Network([ar.Switch(n, bandwidth=rate, latency="1 us") for n, rate in zip(sizes, rates, strict=True)])
    return ar.Design(workload=ar.Trace("generated"), network=network)


def best(run: Callable[[], object], times: int) -> float:
    """The least CPU time, ms."""
    found = []
    for _ in range(times):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return 1000 * min(found)


def measure(dp: int, depth: int, microbatches: int, times: int) -> Sequence[str]:
    """One row: nodes per class, ranks, and the steps' times."""
    work, design = workload(dp, depth, microbatches), design_of(dp)
    ranks = TP * dp * PP
    plan = lower(design, work)
    outcome: Outcome = execute(plan, record=False)
    assert outcome.folded, outcome.unfolded_because
    checked, kept = from_generated(work, ranks), Kept()
    steps = (lambda: from_generated(work, ranks), lambda: lower(design, checked, kept=kept),
             lambda: execute(plan, record=False), lambda: execute(plan, record=True),
             lambda: execute(lower(design, checked, kept=kept), record=False),
             lambda: execute(lower(design, work), record=False))
    nodes = sum(len(each.node_id) for each in work.classes) // PP
    return [f"{nodes:,}", f"{ranks:,}", *(f"{best(step, times):.2f}" for step in steps)]


def main() -> None:
    """Print the table."""
    heads = ("nodes/class", "ranks", "check", "lower", "run", "run, recorded", "lower and run", "check, lower, run")
    print("CPU ms: " + " | ".join(heads))
    for dp, depth, microbatches, times in ((32, 8, 18, 20), (1024, 8, 18, 5), (1024, 24, 255, 3)):
        print(" | ".join(measure(dp, depth, microbatches, times)))


if __name__ == "__main__":
    main()
