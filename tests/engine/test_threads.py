"""Runs on several threads: the core lets go of the GIL, results are those of one thread, errors come through."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import astrarium as ar
from astrarium import engine
from astrarium.engine import Plan
from astrarium.errors import InputError, StallError
from astrarium.lower import lower
from astrarium.simulate import simulate, simulate_many
from astrarium.trace import TraceBuilder, traces_of_bytes
from astrarium.vocab import CommOp

needs_core = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")


def ring(npus: int, *, workload: str = "in memory", bandwidth: int = 50) -> ar.Design:
    return ar.Design(workload=ar.Trace(workload), collective=ar.Collective(all_reduce=["ring"], chunks=8),
                     network=ar.Network([ar.Ring(npus, bandwidth=f"{bandwidth} GB/s", latency="500 ns")],
                                        backend="contention"))


def long_plan(npus: int) -> Plan:
    """One all-reduce, every message an event: about npus^2 * 64 of them."""
    builder = TraceBuilder()
    builder.coll("work", CommOp.ALL_REDUCE, 1 << 20)
    return lower(ring(npus), traces_of_bytes([builder.encode()] * npus))


@needs_core
def test_python_runs_while_the_core_does() -> None:
    """With no forced switches between threads, Python only runs beside the core if the core lets go of the GIL."""
    plan, seen, inside = long_plan(64), 0, [0.0, 0.0]
    engine.execute(plan, fold=False)    # what is imported at the first run is not what is measured

    def work() -> None:
        inside[0] = time.perf_counter()
        engine.execute(plan, fold=False)
        inside[1] = time.perf_counter()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    try:
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(work)
            while not job.done():
                seen += bool(inside[0]) and not inside[1]
                time.sleep(0)
            job.result()
    finally:
        sys.setswitchinterval(before)
    assert seen > 0


def write(folder: Path, name: str, *builders: TraceBuilder) -> str:
    for rank, builder in enumerate(builders):
        builder.write(folder / f"{name}.{rank}.et")
    return str(folder / name)


def collectives(ranks: int, sizes: list[int]) -> list[TraceBuilder]:
    builders = [TraceBuilder() for _ in range(ranks)]
    for rank, builder in enumerate(builders):
        builder.comp("work", 1 + rank)
        for size in sizes:
            builder.coll("sum", CommOp.ALL_REDUCE, size, after=[len(builder.nodes) - 1])
    return builders


@pytest.mark.parametrize("fold", ["auto", "off"])
def test_two_threads_give_what_one_gives(tmp_path: Path, fold: str) -> None:
    path = write(tmp_path, "t", *collectives(8, [1000, 65_536, 7]))
    designs = [ring(8, workload=path, bandwidth=n) for n in range(1, 13)]
    for many, design in zip(simulate_many(designs, workers=2, fold=fold, record=True), designs, strict=True):
        one = simulate(design, fold=fold)
        for name in ("row", "finish", "busy", "start", "end", "link_bytes", "link_busy"):
            np.testing.assert_array_equal(getattr(many.outcome, name), getattr(one.outcome, name), err_msg=name)


def test_the_first_error_comes_through(tmp_path: Path) -> None:
    fine = write(tmp_path, "fine", *collectives(2, [1000]))
    lonely = TraceBuilder()
    lonely.recv("wait", 1, 8)
    stalls = write(tmp_path, "stalls", lonely, TraceBuilder())
    designs = [ring(2, workload=fine), ring(2, workload=stalls), ring(2, workload=fine)]
    with pytest.raises(StallError, match="rank 0"):
        simulate_many(designs, workers=2)
    with pytest.raises(InputError, match="missing"):
        simulate_many([*designs, ring(2, workload=str(tmp_path / "missing"))], workers=2)
    assert len(simulate_many(designs[::2], workers=2)) == 2


@needs_core
@pytest.mark.exam
def test_two_runs_take_the_time_of_one() -> None:
    """Less than 1.3 times as long on idle cores; on busy ones at least more CPU seconds than seconds."""
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    if cores < 2:
        pytest.skip("needs two cores")
    plan = long_plan(512)

    def seconds(threads: int) -> tuple[float, float]:
        start, spent = time.perf_counter(), time.process_time()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda _: engine.execute(plan, fold=False), range(threads)))
        return time.perf_counter() - start, time.process_time() - spent

    one, two = ([seconds(threads) for _ in range(8)] for threads in (1, 2))
    assert max(spent / wall for wall, spent in two) > 1.05
    if load > 0.5 * cores:
        pytest.skip(f"wall times need idle cores: {cores} cores, load {load:.1f}")
    assert min(two)[0] < 1.3 * min(one)[0]
