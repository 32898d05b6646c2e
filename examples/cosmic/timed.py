"""Trials in processes, each with a limit of CPU time: a design that takes longer is a refused trial that says so."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from typing import Any

import astrarium as ar
from astrarium.search import Goal
from astrarium.search.evaluate import Evaluator
from astrarium.search.trial import Verdict

SLOW = "takes longer than the limit of CPU time"
_KEPT: list[tuple[Evaluator, float]] = []      # of this process


def _late(*_: object) -> None:
    raise ar.InputError("design", SLOW)


def _start(evaluator: Evaluator, limit: float) -> None:
    _KEPT[:] = [(evaluator, limit)]
    signal.signal(signal.SIGPROF, _late)


def _judge(point: Any) -> Verdict:
    evaluator, limit = _KEPT[0]
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        return evaluator(point)
    except ar.AstrariumError as error:      # the alarm rang outside of a run, or the engine says it is at fault
        return Verdict(None, problem=f"{type(error).__name__}: {error}"[:1000])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


class Timed:
    """What a study evaluates with: `jobs` processes and at most `limit` CPU seconds a design. Raises InputError for
    what is wrong with the goal."""

    def __init__(self, space: ar.Space, goal: Goal, jobs: int, limit: float):
        self.pool = multiprocessing.get_context("fork").Pool(jobs, _start, (Evaluator(space, goal), limit))

    def __enter__(self) -> Timed:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.terminate()
        self.pool.join()

    def __call__(self, points: Sequence[Any]) -> Iterator[Verdict]:
        """Verdicts in the order of the points."""
        return self.pool.imap(_judge, points)
