"""The exams of compute models, remote memory, workloads and scheduling."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from astrarium.engine.plan import Dim, Shape
from astrarium.engine.plugins.compute import ComputeModel, ComputeNodes, durations_of
from astrarium.engine.plugins.exam import demand, demand_int
from astrarium.engine.plugins.given import Plugins
from astrarium.engine.plugins.memory import RemoteMemory
from astrarium.engine.plugins.system import CollectiveChoice, Scheduling
from astrarium.engine.plugins.work import WorkSource
from astrarium.engine.source import RunContext, SourceOutcome, run_source
from astrarium.errors import AstrariumError
from astrarium.vocab import CommOp

__all__ = ["exam_choice", "exam_compute", "exam_memory", "exam_scheduling", "exam_work"]


def exam_compute(model: ComputeModel, *, nodes: int = 64, seed: int = 0) -> None:
    """Examine a compute model on random nodes: whole times of 0 or more, pure, and row by row. Raises ExamError."""
    rng = random.Random(seed)
    rows = ComputeNodes(num_ops=np.array([rng.choice([0.0, 1e3, 1e12]) for _ in range(nodes)]),
                        tensor_bytes=np.array([rng.choice([1, 4096, 1 << 30]) for _ in range(nodes)], np.int64),
                        duration=np.array([rng.randrange(1, 10**9) for _ in range(nodes)], np.int64),
                        name=[f"node {i}" for i in range(nodes)], host=np.zeros(nodes, np.bool_), rank_type=0)
    try:
        found = durations_of(model, rows)
    except AstrariumError as error:
        demand(False, str(error))
    demand(bool((found == durations_of(model, rows)).all()), "the same nodes take different times when asked again")
    order = np.array(rng.sample(range(nodes), nodes))
    mixed = ComputeNodes(rows.num_ops[order], rows.tensor_bytes[order], rows.duration[order],
                         [rows.name[i] for i in order.tolist()], rows.host[order], 0)
    demand(bool((durations_of(model, mixed) == found[order]).all()), "a node's time depends on the nodes around it")
    none = ComputeNodes(rows.num_ops[:0], rows.tensor_bytes[:0], rows.duration[:0], [], rows.host[:0], 0)
    demand(durations_of(model, none).shape == (0,), "no nodes do not give no times")


def exam_memory(make: Callable[[], RemoteMemory], *, ranks: int = 8, seed: int = 0, accesses: int = 200) -> None:
    """Examine remote memories made by `make()`: whole times of 0 or more, the same for the same accesses. Raises
    ExamError."""
    rng, now, asked = random.Random(seed), 0, []
    for _ in range(accesses):
        now += rng.choice([0, 0, 1, 10**6])
        asked.append((rng.choice([0, 1, 4096, 1 << 30]), rng.randrange(ranks), now))
    asked.sort(key=lambda access: (access[2], access[1]))
    first, second = make(), make()
    for size, rank, at in asked:
        taken = demand_int(first.access_time(size, rank, at), f"access_time({size}, {rank}, {at})")
        demand(taken == second.access_time(size, rank, at), "two memories given the same accesses take different times")


def exam_scheduling(make: Callable[[], Scheduling], *, seed: int = 0, questions: int = 200) -> None:
    """Examine scheduling policies made by `make()`: a place in the list, the same for the same questions. Raises
    ExamError."""
    rng, now = random.Random(seed), 0
    first, second = make(), make()
    for _ in range(questions):
        now += rng.choice([0, 5, 1000])
        nodes = sorted(rng.sample(range(10_000), rng.randint(2, 9)))
        asked = list(nodes)
        chosen = demand_int(first.pick(3, 1, asked, now), "pick()")
        demand(asked == nodes, "pick() changed the list that it was given")
        demand(chosen < len(nodes), f"pick() gave {chosen}, of {len(nodes)} nodes")
        again = second.pick(3, 1, list(nodes), now)
        demand(chosen == again, "two policies given the same questions answer differently")


def exam_choice(choice: CollectiveChoice, known: Sequence[str]) -> None:
    """Examine a choice of algorithms; `known` are the names that there are (registry.names("algorithm")). Raises
    ExamError."""
    dims = (Dim(Shape.RING, 4, 50.0, 500.0), Dim(Shape.SWITCH, 2, 25.0, 1000.0))
    for op in CommOp:
        for size in (0, 1, 1 << 20, 1 << 40):
            for npus in ((0, 1, 2, 3), tuple(range(8)), (0, 4)):
                chosen: tuple[object, ...] = tuple(choice.algorithms(op, size, npus, dims))
                what = f"algorithms({op.name}, {size}, {npus}) gave {chosen!r}"
                demand(len(chosen) in (0, 1, len(dims)), f"{what}; expected none, one, or one per dim ({len(dims)})")
                for name in chosen:
                    found = isinstance(name, str) and name.partition(":")[0] in known
                    demand(found, f"{what}; {name!r} is not known")
                again = tuple(choice.algorithms(op, size, npus, dims))
                demand(again == chosen, f"{what}, and another answer next time")


def exam_work(make: Callable[[], WorkSource], context: RunContext, plugins: Plugins | None = None) -> SourceOutcome:
    """Examine workloads made by `make()` on `context`: they come to their end, twice in the same way, and in the
    pure-Python engine too. Gives the outcome. Raises ExamError."""
    runs = []
    for pure in (False, False, True):
        try:
            runs.append(run_source(make(), context, plugins, pure=pure))
        except AstrariumError as error:
            demand(False, str(error))
    first, *others = runs
    for second in others:
        demand(first.work == second.work, "two sources hand out different work in the same run")
        demand(bool((first.start == second.start).all() and (first.end == second.end).all()),
               "two sources' work runs at different times")
    demand(bool((first.end >= first.start).all()), "work ends before it starts")
    return first
