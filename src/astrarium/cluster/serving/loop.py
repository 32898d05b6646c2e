"""The clock of a server: step after step until every request is answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from astrarium.cluster.serving.outcome import Served
from astrarium.cluster.serving.policy import Policy
from astrarium.cluster.serving.requests import Requests
from astrarium.cluster.serving.scheduler import Job, Scheduler, Step
from astrarium.errors import InputError

__all__ = ["run"]

I64 = npt.NDArray[np.int64]
CLOCK = 2**62       # ps


@dataclass
class _Run:
    """Who has come, and what has happened so far."""

    requests: Requests
    scheduler: Scheduler
    arrival: I64
    first: I64
    finish: I64
    last: I64
    gaps: list[int] = field(default_factory=list)
    come: int = 0
    answered: int = 0

    def arrive(self, now: int) -> None:
        """Everybody who has come by `now`."""
        requests, users = self.requests, self.requests.concurrency
        while self.come < len(requests):
            if users is not None and self.come - self.answered >= users:
                return
            if users is None and int(requests.arrival[self.come]) > now:
                return
            number = self.come
            self.arrival[number] = now if users is not None else requests.arrival[number]
            prompt, output = int(requests.prompt[number]), int(requests.output[number])
            self.scheduler.add(Job(number, prompt, output, todo=prompt))
            self.come += 1

    def token(self, job: Job, now: int) -> None:
        """The job has its next token."""
        job.generated += 1
        if job.generated == 1:
            self.first[job.number] = now
        else:
            self.gaps.append(now - int(self.last[job.number]))
        self.last[job.number] = now
        if job.generated == job.output:
            self.finish[job.number] = now
            self.scheduler.finish(job)
            self.answered += 1


def run(requests: Requests, policy: Policy, blocks: int, time_of: Callable[[Step], int]) -> Served:
    """Serve `requests` with a cache of `blocks`; `time_of` a step in ps. Raises InputError for a request that cannot
    run at all, and beyond the clock's range."""
    count, overhead = len(requests), round(float(policy.overhead) * 1000)
    arrival, first, finish, last, preempted = (np.zeros(count, np.int64) for _ in range(5))
    state = _Run(requests, Scheduler(policy, blocks), arrival, first, finish, last)
    now = steps = busy = tokens = 0
    while state.answered < count:
        state.arrive(now)
        if not state.scheduler.running and not state.scheduler.waiting:
            now = int(requests.arrival[state.come])
            continue
        step = state.scheduler.next_step()
        if not step.decode and not step.prefill:
            continue        # all that ran gave way; the queue's head is admitted next
        spent = time_of(step) + overhead
        now, busy, steps = now + spent, busy + spent, steps + 1
        tokens += len(step.decode) + sum(each for _, each in step.prefill)
        if now > CLOCK:
            raise InputError("requests", "the run goes beyond 2^62 ps", expected="at most 53 days")
        _done(state, step, now)
        for job in step.decode:
            preempted[job.number] = job.preempted
    return Served(state.arrival, state.first, state.finish, requests.prompt, requests.output, preempted,
                  np.array(state.gaps, np.int64), steps, busy, tokens, state.scheduler.preemptions)


def _done(state: _Run, step: Step, now: int) -> None:
    for job in step.decode:
        job.done += 1
        state.token(job, now)
    for job, tokens in step.prefill:
        job.done += tokens
        if job.done == job.todo:
            state.token(job, now)
