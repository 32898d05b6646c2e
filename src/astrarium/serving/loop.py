"""The clock of some servers, from event to event until every request is answered.

At one instant everything that ends comes first, then who arrives, in order of their numbers; then every idle server
begins a step, in order of the servers. Steps of the batch alone are taken many at a time: until a sequence ends, until
the cache is full, or until a request arrives that might be admitted.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np
from msgspec import Struct, field

from astrarium.arrays import I64
from astrarium.errors import InputError, InternalError
from astrarium.serving.fleet import Fleet, Instance
from astrarium.serving.health import DOWN, READY, Health
from astrarium.serving.job import Job
from astrarium.serving.outcome import InstanceRun, Served
from astrarium.serving.record import Gaps, Watch
from astrarium.serving.requests import Requests
from astrarium.serving.routing import Router, fewest
from astrarium.serving.server import CLOCK, Server

__all__ = ["Told", "run"]

Told = Callable[[int, int, int], None]      # requests answered, of how many, simulated time in ps
STEP, HANDED, LOADED, COME = 0, 1, 2, READY + 1     # in this order at one instant, and changes before who comes
MOST = 4096         # steps at a time


class _Run(Struct):
    """Who has come, and what has happened so far. `events`: (time, kind, order, server or instance or request, job).
    `parked`: requests that wait for an instance to be up."""

    requests: Requests
    fleet: Fleet
    servers: tuple[Server, ...]
    router: Router
    health: Health
    times: dict[str, I64]
    single: bool            # every step on its own
    gaps: Gaps = field(default_factory=Gaps)
    watch: Watch = field(default_factory=Watch)
    events: list[tuple[int, int, int, int, Job | None]] = field(default_factory=list)
    touched: set[int] = field(default_factory=set)
    roots: list[int] = field(default_factory=list)
    come: int = 0           # of the roots
    users: int = 0          # of a closed loop, at work
    parked: list[Job] = field(default_factory=list)
    answered: int = 0
    order: int = 0
    wasted: int = 0         # tokens of answers that began again

    def push(self, time: int, kind: int, number: int, job: Job | None = None) -> int:
        """Something that will end at `time`; its order."""
        if time > CLOCK:
            raise InputError("requests", "the run goes beyond 2^62 ps", expected="at most 53 days")
        self.order += 1
        heapq.heappush(self.events, (time, kind, self.order, number, job))
        return self.order

    def next_arrival(self) -> int:
        """When the next request comes whose time is known."""
        if self.come < len(self.roots) and self.requests.concurrency is None:
            return int(self.requests.arrival[self.roots[self.come]])
        return CLOCK

    def arrive(self, now: int) -> None:
        """Requests that have arrived by `now`."""
        limit = self.requests.concurrency
        while self.come < len(self.roots):
            number = self.roots[self.come]
            if limit is None:
                if int(self.requests.arrival[number]) > now:
                    return
                self._enter(number, int(self.requests.arrival[number]), now)
            else:
                if self.users >= limit:
                    return
                self.users += 1
                self._enter(number, now, now)
            self.come += 1

    def _enter(self, number: int, arrival: int, now: int) -> None:
        requests = self.requests
        self.times["arrival"][number] = arrival
        prompt, output = int(requests.prompt[number]), int(requests.output[number])
        segments, told = requests.segments(number)
        self._route(Job(number, prompt, output, prompt, segments, told, requests.priority_of(number), came=now), now)

    def _route(self, job: Job, now: int) -> None:
        place = self.router.place(job, now)
        if place is None:
            self.parked.append(job)
            return
        scheduler = self.servers[place].scheduler
        empty = not scheduler.waiting
        scheduler.add(job, job.todo if self._at(place).back else job.prompt + job.output - 1)
        self.touched.add(place)
        if empty or scheduler.policy.priorities or scheduler.gate is not None:
            self._cut(place, now)

    def _at(self, place: int) -> Instance:
        """The instance that a server is in."""
        return self.fleet.instances[self.router.owner[place]]

    def _cut(self, place: int, now: int) -> None:
        server = self.servers[place]
        if server.step is not None:
            end = server.cut(now)
            if end is not None:
                server.event = self.push(end, STEP, place)

    def begin(self, now: int) -> None:
        """Every idle server that has something to do begins a step."""
        for place in sorted(self.touched):
            server = self.servers[place]
            scheduler = server.scheduler
            while server.step is None and (scheduler.running or scheduler.waiting):
                before = scheduler.preemptions
                step = scheduler.next_step(now, server.known(now))
                for time, job in scheduler.loads:
                    self.push(time, LOADED, place, job)
                scheduler.loads.clear()
                if step.decode or step.prompts:     # who gave way in this step may be admitted to the next
                    alone = scheduler.preemptions > before or scheduler.early
                    most = 1 if alone else self._most(server, now)
                    server.event = self.push(server.begin(step, now, most), STEP, place)
                elif scheduler.preemptions == before:
                    break       # the head of the queue waits for blocks that a transfer still holds, or is being read
        self.touched.clear()

    def _most(self, server: Server, now: int) -> int:
        """How many steps to ask for: not many more than there are before the next arrival."""
        if self.single:
            return 1
        coming = self.next_arrival() - now
        if coming >= CLOCK - now or not server.pace:
            return MOST
        return min(MOST, len(self.router.open) * (coming // server.pace + 2))

    def end(self, now: int) -> None:
        """Everything that ends now."""
        while self.events and self.events[0][0] == now:
            _, kind, order, number, job = heapq.heappop(self.events)
            if kind == COME:
                self._enter(number, now, now) if number >= 0 else self._leave()
                continue
            if DOWN <= kind <= READY:
                self._changed(kind, order, number, now)
                continue
            server = self.servers[number]
            if kind == STEP:
                if order == server.event and server.step is not None:
                    self._done(number, server, now)
            elif job is not None:
                self._moved(kind, number, server, job, now)
            self.touched.add(number)

    def _leave(self) -> None:
        self.users -= 1

    def _moved(self, kind: int, number: int, server: Server, job: Job, now: int) -> None:
        """A cache has been read from a tier, or is where it is decoded."""
        if kind == LOADED:
            server.scheduler.loaded(job)
        else:
            server.scheduler.let_go(job)
            self._given(job, number, now)
            moved = Job(job.number, job.prompt, job.output, job.todo, job.segments, job.told, job.priority,
                        done=job.done, generated=job.generated, last=now, came=now)
            target = self.servers[job.target].scheduler
            target.handing -= 1
            target.add(moved, job.prompt + job.output - 1)
            self.touched.add(job.target)
            self._cut(job.target, now)
        self._cut(number, now)

    def _done(self, place: int, server: Server, now: int) -> None:
        step, ends = server.step, server.ends
        assert step is not None
        server.begun = server.start if ends is None or len(ends) < 2 else int(ends[-2])
        server.step, server.ends, server.ended = None, None, now
        scheduler, steps = server.scheduler, 1 if ends is None else len(ends)
        server.steps, server.busy = server.steps + steps, server.busy + now - server.start
        if step.decode:
            self._decoded(server, now if ends is None else int(ends[0]), ends, steps)
            for job in scheduler.batch.finished():
                self._answered(job, place, now)
        for job, tokens in step.prompts:
            server.tokens += tokens
            job.done += tokens
            if job.done == job.todo:
                self._first(job, place, now)

    def _decoded(self, server: Server, first: int, ends: I64 | None, steps: int) -> None:
        batch, gaps = server.scheduler.batch, self.gaps
        if batch.count > len(batch.late):
            gaps.add(first, first - batch.last, batch.count - len(batch.late))
        for last in batch.late.values():
            gaps.add(first, first - last, 1)
        batch.late.clear()
        if ends is not None and steps > 1:
            gaps.extend(ends, batch.count)
            server.pace = int(ends[-1] - ends[-2])
        else:
            server.pace = first - server.start
        batch.last = first if ends is None else int(ends[-1])
        server.tokens += steps * batch.count * (1 + batch.guesses)
        given = server.scheduler.advance(steps)
        if given > steps * batch.count:
            gaps.add(batch.last, 0, given - steps * batch.count)

    def _first(self, job: Job, place: int, now: int) -> None:
        """A prompt is done, and has given a token."""
        instance, scheduler = self._at(place), self.servers[place].scheduler
        scheduler.prompt_done(job)
        job.generated += 1
        if job.generated == 1:
            self.times["cached"][job.number] = job.cached or 0
        front = place - self.router.first[self.router.owner[place]]
        if job.generated < job.output and instance.links is not None and front < len(instance.front):
            self.times["preempted"][job.number] += job.preempted
            scheduler.hand_over(job)
            back = fewest(instance.back)
            job.target = place - front + len(instance.front) + back
            self.servers[job.target].scheduler.handing += 1
            self.push(now + instance.links.of(front, back, job.done, now), HANDED, place, job)
            return
        self._given(job, place, now)
        if job.generated == job.output:
            self._answered(job, place, now)
        else:
            scheduler.batch.join(job)

    def _given(self, job: Job, place: int, now: int) -> None:
        """The token that a prompt gave is on its way to the client."""
        if job.generated == 1:
            self.times["first"][job.number] = now + self._at(place).offset
        else:
            self.gaps.add(now, now - job.last, 1)
        job.last = now

    def _answered(self, job: Job, place: int, now: int) -> None:
        number, client = job.number, now + self._at(place).offset
        self.times["finish"][number] = client
        self.times["preempted"][number] += job.preempted
        self.times["instance"][number] = self.router.owner[place]
        self.servers[place].scheduler.finish(job)
        self.answered += 1
        next_turn = self.requests.next_turn(number)
        if next_turn is not None:
            self.push(client + next_turn[1], COME, next_turn[0])
        elif self.requests.concurrency is not None:
            if client == now:
                self._leave()
            else:
                self.push(client, COME, -1)

    def _changed(self, kind: int, order: int, number: int, now: int) -> None:
        """An instance goes down, begins to start, or is up."""
        up = self.health.change(kind, order, number, now, self.push)
        if up is None:
            return
        self.router.allow(self.health.up)
        if not up:
            self._lose(number, now)
        parked, self.parked = self.parked, []
        for job in parked:
            self._route(job, now)

    def _lose(self, number: int, now: int) -> None:
        """An instance is down: its caches are lost, and its requests go to others, in order of their numbers."""
        first = self.router.first[number]
        places = range(first, first + len(self.fleet.instances[number].servers))
        lost, kept = list[Job](), []
        for event in self.events:
            job = event[4]
            if job is None or event[3] not in places:
                kept.append(event)
                continue
            job.generated -= event[1] == HANDED         # its token was on the way with the cache
            lost.append(job)
        heapq.heapify(kept)
        self.events = kept
        for place in places:
            self._interrupt(self.servers[place], now)
            lost += self.servers[place].scheduler.lose()
        for job in sorted(lost, key=lambda each: each.number):
            self._again(job, now)

    def _interrupt(self, server: Server, now: int) -> None:
        """Steps in a row that are over count; the one in progress gives nothing."""
        ends = server.ends
        if ends is not None and (over := int(np.searchsorted(ends, now, side="right"))):
            server.steps += over
            self._decoded(server, int(ends[0]), ends[:over], over)
        if server.step is not None:
            server.busy += now - server.start
        server.step, server.ends, server.pace, server.event, server.ended = None, None, 0, 0, -1

    def _again(self, job: Job, now: int) -> None:
        """A request that was lost begins again, or goes on from the tokens that it was given."""
        number = job.number
        fresh = Job(number, job.prompt, job.output, job.prompt, job.segments, job.told, job.priority, came=now)
        if self.fleet.migrate:
            fresh.todo, fresh.generated, fresh.last = job.prompt + job.generated, job.generated, job.last
            fresh.cached = job.cached if job.generated else None
        else:
            self.wasted += job.generated
        self.times["preempted"][number] += job.preempted
        self.times["retried"][number] += 1
        self._route(fresh, now)

    def sample(self, now: int) -> None:
        """Write down, if it is time, what holds until the next event."""
        if now < self.watch.due:
            return
        waiting = running = used = 0
        for server in self.servers:
            scheduler = server.scheduler
            waiting += len(scheduler.waiting)
            running += len(scheduler.running)
            used += scheduler.cache.total - scheduler.cache.free
        self.watch.note((now, waiting, running, used))


def run(requests: Requests, fleet: Fleet, progress: Told | None = None, *, single: bool = False) -> Served:
    """Answer every request; `progress`: see `serve`; `single`: take every step on its own (the oracle of the jumps).
    Raises InputError for a request that cannot run at all, and beyond the clock's range."""
    names = ("arrival", "first", "finish", "preempted", "cached", "instance", "retried")
    servers = fleet.servers
    state = _Run(requests, fleet, servers, Router(fleet.instances, servers), Health(fleet),
                 {name: np.zeros(len(requests), np.int64) for name in names}, single)
    state.roots = requests.roots()
    state.router.allow(state.health.up)
    state.health.prepare(state.push)
    now = 0
    while state.answered < len(requests):
        state.end(now)
        state.arrive(now)
        state.begin(now)
        state.sample(now)
        if progress is not None:
            progress(state.answered, len(requests), now)
        if state.answered < len(requests):
            now = min(state.next_arrival(), state.events[0][0] if state.events else CLOCK)
            if now == CLOCK:
                if state.parked:
                    raise InputError("changes", f"no instance is up, and {len(state.parked):,} requests wait",
                                     expected="an instance that starts: {instance: 0, at: 60 s, up: true}")
                raise InternalError("requests wait for each other")
    return _served(state, now)


def _served(state: _Run, now: int) -> Served:
    requests, times, servers, fleet = state.requests, state.times, state.servers, state.fleet
    gaps = state.gaps.table()
    parts = [InstanceRun(each.member, each.npus, len(each.servers), sum(server.steps for server in each.servers),
                         sum(server.busy for server in each.servers), sum(server.tokens for server in each.servers),
                         sum(server.scheduler.preemptions for server in each.servers), state.health.failed[number],
                         state.health.down(number, now), each.startup, each.links.busiest if each.links else 0)
             for number, each in enumerate(fleet.instances)]
    steps, busy, tokens, preemptions = (sum(getattr(part, name) for part in parts)
                                        for name in ("steps", "busy", "tokens", "preemptions"))
    return Served(times["arrival"], times["first"], times["finish"], requests.prompt, requests.output,
                  times["preempted"], *gaps, steps, busy, tokens, preemptions, len(servers),
                  times["cached"], state.watch.table(), sum(server.scheduler.cache.total for server in servers),
                  requests.group, requests.groups, requests.concurrency is not None, fleet.npus,
                  "; ".join(dict.fromkeys(server.times.how for server in servers)),
                  None if requests.turns is None else requests.turns.session, (*requests.notes, *fleet.notes),
                  times["instance"], times["retried"], parts, state.wasted)
