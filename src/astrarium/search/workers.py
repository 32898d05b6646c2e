"""Who evaluates the points of a batch: threads, processes or a Ray cluster; the same answers in the same order."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import os
import pickle
import platform
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Literal

from astrarium.errors import InputError
from astrarium.lower.kept import BYTES
from astrarium.search.evaluate import Evaluator, Verdict
from astrarium.search.goal import Goal
from astrarium.search.inputs import Inputs, differing, inputs_of
from astrarium.search.limits import NO_LIMITS, Limits
from astrarium.search.ray_pool import RayPool
from astrarium.search.space import Point, Space

__all__ = ["Judges", "Workers"]

Kind = Literal["threads", "processes"]
PART, FASTEST = 1.0, 1e-4      # seconds that a part of a batch is to take; of a design, at least

Judges = Callable[[Sequence[Point]], Iterator[Verdict]]
"""What evaluates a batch: the verdicts in the order of its points."""


class Workers:
    """`jobs` of them, or those of the Ray cluster at `ray`; to be used with `with`, which an exception leaves within a
    design. `limits` are those of each design, `cache` the bytes that a process holds for later designs. Raises
    InputError for whatever is wrong with the goal."""

    def __init__(self, space: Space, goal: Goal, jobs: int = 1, kind: Kind = "threads", ray: str | None = None,
                 limits: Limits = NO_LIMITS, cache: int = BYTES):
        if jobs < 1:
            raise InputError("jobs", f"{jobs} is impossible", expected="1 or more")
        if limits.memory is not None and jobs > 1 and kind == "threads":
            raise InputError("limit", "threads share their memory, so that of one design cannot be limited",
                             expected=f"processes (--processes with -j {jobs}), or -j 1")
        self.evaluator = Evaluator(space, goal, limits=limits, cache=cache)
        self._space, self._goal, self.jobs, self.kind, self.ray, self._cache = space, goal, jobs, kind, ray, cache
        self._pool: Executor | None = None
        self._cluster: RayPool | None = None
        self._alive: Connection | None = None       # the end that processes watch: they end when it is closed
        self._shipped, self._pace = b"", PART

    def __enter__(self) -> Workers:
        if self.ray is not None:
            self._shipped = self._as_bytes(inputs_of(self._space, self._goal))
            self._cluster = RayPool(self.ray)
            self.jobs = self._cluster.cpus
        elif self.jobs > 1 and self.kind == "threads":
            self._pool = ThreadPoolExecutor(self.jobs)
        elif self.jobs > 1:
            self._shipped, context = self._as_bytes(), multiprocessing.get_context("spawn")
            watched, self._alive = context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(self.jobs, context, _end_with, (watched,))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if error is not None:
            self.evaluator.guard.stop()
            self._end_processes()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        if self._cluster is not None:
            self._cluster.close()
        self._end_processes()

    def _end_processes(self) -> None:
        if self._alive is not None:
            self._alive.close()

    def __call__(self, points: Sequence[Point]) -> Iterator[Verdict]:
        """What each point is worth, in their order."""
        size = max(1, min(len(points) // (2 * self.jobs), int(PART / self._pace)))
        parts = [points[at:at + size] for at in range(0, len(points), size)]
        if self._cluster is not None:
            found = self._cluster.map(_evaluate, self._shipped, parts)
        elif self._pool is None:
            yield from self.evaluator.all(points)
            return
        elif self.kind == "threads":
            found = self._pool.map(self._all, parts)
        else:
            found = self._pool.map(_evaluate, [self._shipped] * len(parts), parts)
        taken = 0.0
        for count, verdict in enumerate(itertools.chain.from_iterable(found), start=1):
            taken += verdict.seconds
            self._pace = max(FASTEST, taken / count)
            yield verdict

    def _as_bytes(self, inputs: Inputs | None = None) -> bytes:
        """Space, goal, limits and cache for another process; `inputs`: what another machine must have."""
        try:
            return pickle.dumps((self._space, self._goal, self.evaluator.guard.limits, self._cache, inputs))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError("jobs", f"the goal cannot go to another process ({error})",
                             expected="threads, or functions defined in a module") from None

    def _all(self, points: Sequence[Point]) -> list[Verdict]:
        return list(self.evaluator.all(points))


def _end_with(watched: Connection) -> None:
    """Ends this process, whatever it does, as soon as the one at the other end has closed it, or is gone."""
    def watch() -> None:
        watched.poll(None)
        os._exit(1)
    threading.Thread(target=watch, daemon=True).start()


@functools.lru_cache(maxsize=1)
def _evaluator(shipped: bytes) -> Evaluator:
    """What a worker process makes once. Raises InputError where its machine has other inputs."""
    space, goal, limits, cache, inputs = pickle.loads(shipped)
    if inputs is not None and (said := differing(inputs, inputs_of(space, goal))):
        raise InputError(f"worker on {platform.node()}", f"has other inputs: {said}",
                         expected="one Astrarium, catalog and set of files on every machine")
    return Evaluator(space, goal, limits=limits, cache=cache)


def _evaluate(shipped: bytes, points: Sequence[Point]) -> list[Verdict]:
    return list(_evaluator(shipped).all(points))
