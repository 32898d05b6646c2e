"""The clock of some servers: step after step until every request is answered.

At one instant everything that ends comes first, then who arrives, in order of their numbers; then every idle server
begins a step, in order of the servers.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from astrarium.errors import InputError, InternalError
from astrarium.serving.outcome import Served
from astrarium.serving.requests import Requests
from astrarium.serving.scheduler import Job, Scheduler, Step

__all__ = ["Fleet", "Server", "Told", "run"]

I64 = npt.NDArray[np.int64]
Told = Callable[[int, int, int], None]      # requests answered, of how many, simulated time in ps
CLOCK = 2**62       # ps
STEP, HANDED = 0, 1


class Server(Struct):
    """A scheduler with its cache, how long its steps take (ps), and the step that it is at."""

    scheduler: Scheduler
    time_of: Callable[[Step], int]
    step: Step | None = None

    @property
    def load(self) -> int:
        """Requests that it has."""
        return len(self.scheduler.waiting) + len(self.scheduler.running) + self.scheduler.handing


class Fleet(Struct, frozen=True):
    """Servers that take requests, and, where prefill and decode are apart, those that decode: `transfer(front, back,
    tokens)` is then the time in ps in which a cache gets from one to the other. `overhead` ps between two steps.
    `yielded()`: tokens that a decoding sequence gets in a step (1, but for speculation).

    A request goes to the server with the fewest requests, the first of equals; so does its cache.
    """

    front: Sequence[Server]
    back: Sequence[Server] = ()
    transfer: Callable[[int, int, int], int] = lambda front, back, tokens: 0
    overhead: int = 0
    yielded: Callable[[], int] = lambda: 1


class _Run(Struct):
    """Who has come, and what has happened so far. `events`: (time, kind, order, server, job)."""

    requests: Requests
    fleet: Fleet
    times: dict[str, I64]
    gaps: list[int] = field(default_factory=list)
    events: list[tuple[int, int, int, int, Job | None]] = field(default_factory=list)
    come: int = 0
    answered: int = 0
    order: int = 0
    steps: int = 0
    busy: int = 0
    tokens: int = 0

    def push(self, time: int, kind: int, server: int, job: Job | None = None) -> None:
        """Something that will end at `time`."""
        if time > CLOCK:
            raise InputError("requests", "the run goes beyond 2^62 ps", expected="at most 53 days")
        self.order += 1
        heapq.heappush(self.events, (time, kind, self.order, server, job))

    def next_time(self) -> int:
        """When something happens next."""
        waiting = self.come < len(self.requests) and self.requests.concurrency is None
        arrival = int(self.requests.arrival[self.come]) if waiting else CLOCK
        return min(arrival, self.events[0][0] if self.events else CLOCK)

    def arrive(self, now: int) -> None:
        """Everybody who has come by `now`."""
        requests, users = self.requests, self.requests.concurrency
        while self.come < len(requests):
            if users is not None and self.come - self.answered >= users:
                return
            if users is None and int(requests.arrival[self.come]) > now:
                return
            number = self.come
            self.times["arrival"][number] = now if users is not None else requests.arrival[number]
            prompt, output = int(requests.prompt[number]), int(requests.output[number])
            job = Job(number, prompt, output, todo=prompt)
            _least(self.fleet.front).scheduler.add(job, prompt if self.fleet.back else prompt + output - 1)
            self.come += 1

    def token(self, job: Job, scheduler: Scheduler, now: int) -> None:
        """The job has its next token."""
        times, number = self.times, job.number
        job.generated += 1
        if job.generated == 1:
            times["first"][number] = now
        else:
            self.gaps.append(now - int(times["last"][number]))
        times["last"][number] = now
        times["preempted"][number] = job.preempted
        if job.generated == job.output:
            times["finish"][number] = now
            scheduler.finish(job)
            self.answered += 1

    def begin(self, now: int) -> None:
        """Every idle server that has something to do begins a step."""
        for number, server in enumerate((*self.fleet.front, *self.fleet.back)):
            while server.step is None and (server.scheduler.running or server.scheduler.waiting):
                step = server.scheduler.next_step()
                if step.decode or step.prefill:
                    server.step = step
                    spent = server.time_of(step) + self.fleet.overhead
                    self.push(now + spent, STEP, number)
                    self.steps, self.busy = self.steps + 1, self.busy + spent
                    each = 1 + server.scheduler.guesses
                    self.tokens += len(step.decode) * each + sum(tokens for _, tokens in step.prefill)
                elif not server.scheduler.gave_way:
                    break       # the head of the queue waits for blocks that a transfer still holds

    def end(self, now: int) -> None:
        """Everything that ends now."""
        servers = (*self.fleet.front, *self.fleet.back)
        while self.events and self.events[0][0] == now:
            _, kind, _, number, job = heapq.heappop(self.events)
            server = servers[number]
            if kind == HANDED and job is not None:
                server.scheduler.let_go(job)
                moved = Job(job.number, job.prompt, job.output, job.todo, job.done, job.generated)
                target = self.fleet.back[job.target]
                target.scheduler.handing -= 1
                target.scheduler.add(moved, job.prompt + job.output - 1)
            elif server.step is not None:
                step, server.step = server.step, None
                self._done(step, number, server, now)

    def _done(self, step: Step, number: int, server: Server, now: int) -> None:
        for job in step.decode:
            for _ in range(min(self.fleet.yielded(), job.output - job.generated)):
                job.done += 1
                self.token(job, server.scheduler, now)
        for job, tokens in step.prefill:
            job.done += tokens
            if job.done < job.todo:
                continue
            self.token(job, server.scheduler, now)
            if self.fleet.back and number < len(self.fleet.front) and job.generated < job.output:
                server.scheduler.hand_over(job)
                target = _least(self.fleet.back)
                job.target = self.fleet.back.index(target)
                target.scheduler.handing += 1
                self.push(now + self.fleet.transfer(number, job.target, job.done), HANDED, number, job)


def _least(servers: Sequence[Server]) -> Server:
    return min(servers, key=lambda server: server.load)


def run(requests: Requests, fleet: Fleet, progress: Told | None = None) -> Served:
    """Answer every request; `progress`: see `serve`. Raises InputError for one that cannot run at all, and beyond the
    clock's range."""
    names = ("arrival", "first", "finish", "last", "preempted")
    state = _Run(requests, fleet, {name: np.zeros(len(requests), np.int64) for name in names})
    now = 0
    while state.answered < len(requests):
        state.end(now)
        state.arrive(now)
        state.begin(now)
        if progress is not None:
            progress(state.answered, len(requests), now)
        if state.answered < len(requests):
            now = state.next_time()
            if now == CLOCK:
                raise InternalError("requests wait for each other")
    servers, times = (*fleet.front, *fleet.back), state.times
    return Served(times["arrival"], times["first"], times["finish"], requests.prompt, requests.output,
                  times["preempted"], np.array(state.gaps, np.int64), state.steps, state.busy, state.tokens,
                  sum(server.scheduler.preemptions for server in servers), len(servers))
