"""The exam of collective executors: causal, indifferent to when the clock starts, and equal to another executor."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from astrarium.engine.plan import CollectivePlan
from astrarium.engine.plugins.exam import demand
from astrarium.engine.plugins.executor import CollectiveExecutor

__all__ = ["exam_executor"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


def exam_executor(executor: CollectiveExecutor, collectives: Sequence[tuple[CollectivePlan, Sequence[int]]], *,
                  rival: CollectiveExecutor | None = None, seed: int = 0, rounds: int = 3) -> None:
    """Examine `executor` on (collective, NPUs of its participants) pairs with random ready times.

    Equal to `rival` to the ps where one is given. Raises ExamError.
    """
    rng = random.Random(seed)
    for collective, npus in collectives:
        places = np.array(npus, np.int32)
        for spread in (0, 1, 10_000_000)[:rounds]:
            ready = np.array([rng.randint(0, spread) for _ in npus], np.int64)
            done = _done(executor, collective, places, ready)
            demand(bool((done >= ready).all()), f"a participant is done before it is ready ({ready} to {done} ps)")
            again = _done(executor, collective, places, ready)
            demand(bool((done == again).all()), "the same collective takes different times when asked again")
            late = _done(executor, collective, places, ready + 777)
            demand(bool((late == done + 777).all()), "a collective that starts 777 ps later does not end 777 ps later")
            if rival is not None:
                other = rival.done(collective, places, ready)
                demand(bool((done == other).all()),
                       f"collective op {collective.op} of {collective.size} bytes, ready {ready}: done at {done} ps, "
                       f"but {type(rival).__name__} says {other} ps")


def _done(executor: CollectiveExecutor, collective: CollectivePlan, npus: I32, ready: I64) -> I64:
    before = ready.copy()
    done: object = executor.done(collective, npus, ready)
    demand(isinstance(done, np.ndarray) and done.dtype == np.int64 and done.shape == ready.shape,
           f"done() gave {type(done).__name__}, not int64 of shape {ready.shape}")
    assert isinstance(done, np.ndarray)
    demand(bool((before == ready).all()), "done() changed the ready times that it was given")
    return done
