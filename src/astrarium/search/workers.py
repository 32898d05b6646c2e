"""Evaluate the points of a batch in threads, processes or on a Ray cluster; verdicts come in the points' order."""

from __future__ import annotations

import contextlib
import functools
import itertools
import multiprocessing
import os
import pickle
import platform
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Literal, Protocol

from astrarium.errors import AstrariumError, InputError
from astrarium.lower.kept import BYTES
from astrarium.search.agents.base import needed
from astrarium.search.axes import Point
from astrarium.search.evaluate import Evaluator
from astrarium.search.goal import Goal
from astrarium.search.inputs import Inputs, differing, inputs_of
from astrarium.search.limits import NO_LIMITS, Limits
from astrarium.search.space import Space
from astrarium.search.trial import Verdict
from astrarium.units import Bytes

__all__ = ["RETRIES", "Judges", "RayPool", "Workers", "cache_of"]

Kind = Literal["threads", "processes"]
PART, FASTEST = 1.0, 1e-4      # target seconds of a part of a batch; least seconds of a design
RETRIES = 10        # times that one part of a batch may lose its worker
LOCAL = "local"



class Judges(Protocol):
    """Evaluates a batch: yields the verdicts in the order of its points. `cap`: see `Evaluator.all`."""

    def __call__(self, points: Sequence[Point], cap: float | None = None) -> Iterator[Verdict]:
        """The verdicts of a batch."""


class Workers:
    """Evaluates batches of points in threads, processes or on a Ray cluster. Use it in a `with` block; an exception in
    the block stops the designs that are running.

    Args:
        space: The space of the points.
        goal: Objectives, requirements and cases.
        jobs: Designs evaluated at a time.
        kind: `threads` or `processes`.
        ray: Address of a Ray cluster; None: this machine alone.
        limits: CPU time and memory of each design.
        cache: Bytes that each process caches for later designs.

    Raises:
        InputError: for fewer than one job, a goal that does not fit the space, and a memory limit in several threads.
    """

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
        self._begun: deque[tuple[int, Point]] = deque()
        self._running: dict[Future[list[Verdict]], int] = {}

    def __enter__(self) -> Workers:
        if self.ray is not None:
            self._shipped = self._as_bytes(inputs_of(self._space, self._goal))
            self._cluster = RayPool(self.ray, _evaluate, self._shipped)
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

    def __call__(self, points: Sequence[Point], cap: float | None = None) -> Iterator[Verdict]:
        """Evaluate points; verdicts come in their order. `cap`: see `Evaluator.all`."""
        size = max(1, min(len(points) // (2 * self.jobs), int(PART / self._pace)))
        parts = [points[at:at + size] for at in range(0, len(points), size)]
        if self._cluster is not None:
            found = self._cluster.map([(part, cap) for part in parts])
        elif self._pool is None:
            yield from self.evaluator.all(points, cap)
            return
        elif self.kind == "threads":
            found = self._pool.map(lambda part: list(self.evaluator.all(part, cap)), parts)
        else:
            found = self._pool.map(_evaluate, [self._shipped] * len(parts), [(part, cap) for part in parts])
        taken = 0.0
        for count, verdict in enumerate(itertools.chain.from_iterable(found), start=1):
            taken += verdict.seconds
            self._pace = max(FASTEST, taken / count)
            yield verdict

    def begin(self, number: int, point: Point) -> None:
        """Let a point run by itself, as soon as a worker is free."""
        if self._cluster is not None:
            self._cluster.begin(number, ([point], None))
        elif self._pool is None:
            self._begun.append((number, point))
        elif self.kind == "threads":
            self._running[self._pool.submit(lambda: list(self.evaluator.all([point])))] = number
        else:
            self._running[self._pool.submit(_evaluate, self._shipped, ([point], None))] = number

    def finished(self) -> tuple[int, Verdict]:
        """Wait for a point that was begun; returns its number and its verdict."""
        if self._cluster is not None:
            number, found = self._cluster.finished()
            return number, found[0]
        if self._pool is None:
            number, point = self._begun.popleft()
            return number, self.evaluator(point)
        done = wait(self._running, return_when=FIRST_COMPLETED).done
        first = min(done, key=self._running.__getitem__)
        return self._running.pop(first), first.result()[0]

    def _as_bytes(self, inputs: Inputs | None = None) -> bytes:
        """Encode space, goal, limits and cache for another process; `inputs`: those that another machine must have."""
        try:
            return pickle.dumps((self._space, self._goal, self.evaluator.guard.limits, self._cache, inputs))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError("jobs", f"the goal cannot go to another process ({error})",
                             expected="threads, or functions defined in a module") from None


def cache_of(given: str | int) -> int:
    """Convert the size of a cache ("512 MiB", or bytes) to bytes. Raises InputError unless it is above 0."""
    try:
        size = int(Bytes(given)) if isinstance(given, str) else given
    except InputError:
        size = 0
    if size <= 0:
        raise InputError("cache", f"{given!r} is not a size", expected='one such as "2 GB"')
    return size


def _end_with(watched: Connection) -> None:
    """End this process as soon as the process at the other end closes the connection, or is gone."""
    def watch() -> None:
        watched.poll(None)
        os._exit(1)
    threading.Thread(target=watch, daemon=True).start()


@functools.lru_cache(maxsize=1)
def _evaluator(shipped: bytes) -> Evaluator:
    """Make the evaluator of a worker process, once. Raises InputError if its machine has other inputs."""
    space, goal, limits, cache, inputs = pickle.loads(shipped)
    if inputs is not None and (said := differing(inputs, inputs_of(space, goal))):
        raise InputError(f"worker on {platform.node()}", f"has other inputs: {said}",
                         expected="one Astrarium, catalog and set of files on every machine")
    return Evaluator(space, goal, limits=limits, cache=cache)


def _evaluate(shipped: bytes, part: tuple[Sequence[Point], float | None]) -> list[Verdict]:
    return list(_evaluator(shipped).all(*part))


class RayPool:
    """A connection to a cluster: `local` starts one on this machine, `auto` takes the one that runs here, else
    `host:port` or `ray://host:port`. A connection that the process has already is used, and left open. Every machine
    needs the same Astrarium. It runs `function(shared, part)`; function and `shared` go to the cluster once, not with
    each part. Raises InputError if Ray is not installed, or no cluster answers at the address."""

    def __init__(self, address: str, function: Callable[[bytes, Any], Any], shared: bytes):
        self._ray: Any = needed("evaluation over Ray", "ray", "ray")
        self._own = not self._ray.is_initialized()
        self._running: dict[Any, int] = {}      # task -> its number
        if self._own:
            more: dict[str, Any] = {"include_dashboard": False} if address == LOCAL else {}
            if address == LOCAL:        # no usage reports from a cluster of ours, unless its user says otherwise
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            try:
                with _own_signals():
                    self._ray.init(address=address, log_to_driver=False, logging_level="ERROR", **more)
            except (ConnectionError, ValueError, RuntimeError, OSError) as error:
                first = (str(error).strip().splitlines() or [type(error).__name__])[0]
                raise InputError(f"ray {address}", f"no cluster answers ({first[:200]})",
                                 expected="local, auto, host:port or ray://host:port") from error
        self.cpus = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._task = self._ray.remote(num_cpus=1, max_retries=RETRIES)(function)
        self._shared = self._ray.put(shared)

    def map(self, parts: Sequence[Any]) -> Iterator[Any]:
        """Yield the answer of every part, in their order; the cluster runs as many at a time as it has CPUs."""
        return self._answers([self._task.remote(self._shared, part) for part in parts])

    def _answers(self, asked: Sequence[Any]) -> Iterator[Any]:
        left = list(asked)
        try:
            while left:
                found = self._answer(left[0])
                del left[0]         # before the answer goes out, as no other may follow
                yield found
        finally:
            for each in left:       # what ended the batch here ends its other parts there
                self._ray.cancel(each, force=True)

    def _answer(self, task: Any) -> Any:
        """Wait for the answer of a task. Raises the error of the task, and InputError if the cluster has lost it."""
        try:
            return self._ray.get(task)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, AstrariumError):
                raise error.cause from None
            raise
        except self._ray.exceptions.RayError as error:
            raise InputError("ray", f"a part of a batch has no answer after {RETRIES} more tries "
                             f"({type(error).__name__})",
                             expected="workers that live; the same command goes on with this study") from error

    def begin(self, number: int, part: Any) -> None:
        """Let a part run."""
        self._running[self._task.remote(self._shared, part)] = number

    def finished(self) -> tuple[int, Any]:
        """Wait for a task that was begun; returns its number and its answer."""
        [task], _ = self._ray.wait(list(self._running), num_returns=1)
        answer = self._answer(task)
        return self._running.pop(task), answer

    def close(self) -> None:
        """Leave the cluster, if this pool joined it."""
        for task in self._running:
            self._ray.cancel(task, force=True)
        if self._own:
            self._ray.shutdown()


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Restore the handler of SIGTERM after the block: Ray replaces it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
