"""One server's choice of a step: who decodes, whose prompt goes on, who is admitted, who has to give way."""

from __future__ import annotations

import heapq
import math

from msgspec import Struct, field

from astrarium.errors import InputError
from astrarium.serving.batch import Batch
from astrarium.serving.cache import Blocks
from astrarium.serving.gate import Gate
from astrarium.serving.job import Job, Step
from astrarium.serving.policy import Policy

__all__ = ["Scheduler"]


class Scheduler(Struct):
    """Queue, cache and batch of one server.

    `waiting` is ordered by priority and arrival, so a request that gave way comes before those that arrived later;
    it holds `queued` tokens of prompts.
    `running`: admitted requests in that order; `prompts`: those of them whose prompt is not done; `loads`: (time in ps,
    job) of caches that began to be read from a tier; `handing`: requests whose cache is on its way from or to here, or
    from a tier. `early`: whether the head of the queue came too late for the step in progress. `growth`: blocks that
    running requests will still take at most. `taken`: blocks claimed for the step in progress. `swap`: ps per block
    that goes to the host or back. `gate`: when prompts begin, where they wait for others.
    """

    policy: Policy
    cache: Blocks
    batch: Batch
    swap: float = 0.0
    gate: Gate | None = None
    waiting: list[tuple[int, int, Job]] = field(default_factory=list)
    running: dict[int, Job] = field(default_factory=dict)
    prompts: dict[int, Job] = field(default_factory=dict)
    loads: list[tuple[int, Job]] = field(default_factory=list)
    queued: int = 0
    loading: int = 0
    handing: int = 0
    arrivals: int = 0
    preemptions: int = 0
    growth: int = 0
    taken: int = 0
    moving: float = 0.0
    early: bool = False

    @property
    def load(self) -> int:
        """Requests that it has."""
        return len(self.waiting) + len(self.running) + self.handing + self.loading

    @property
    def most(self) -> int:
        """Most sequences that run at once: every one of them has its tokens in every step of the batch."""
        return min(self.policy.max_batch, max(1, self.policy.max_tokens // (1 + self.batch.guesses)))

    def add(self, job: Job, most: int) -> None:
        """A new request, which takes `most` tokens of cache here. Raises InputError where it could never run."""
        if self.cache.of(most + self.batch.guesses) > self.cache.total:
            raise InputError("requests", f"request {job.number} needs {most + self.batch.guesses:,} tokens of cache",
                             expected=f"at most {self.cache.total * self.policy.block:,}, all that fit")
        if self.policy.whole and most > self.policy.max_tokens:
            raise InputError("policy.max_tokens", f"request {job.number} may have to prefill {most:,} tokens at once",
                             expected="as many, or prompts in chunks")
        self.arrivals += 1
        job.order = self.arrivals
        if self.gate is not None:
            self.gate.come(job)
        self._wait(job)

    def next_step(self, now: int, known: int) -> Step:
        """What the next step does, with requests that had come by `known`; cache blocks are taken for it."""
        self.moving, self.taken, before = 0.0, 0, self.preemptions
        self._resume()
        self.early = bool(self.waiting) and self.waiting[0][2].came > known
        opens = self.gate is None or self.gate.opens(self.batch.count, self.batch.count + self.queued)
        if self.policy.schedule == "prefill_first":
            prompts = self._choose(self.policy.max_tokens, now, known, admit=opens)
            if prompts:
                if self.gate is not None:
                    self.gate.began()
                return Step(False, prompts, round(self.moving))
            self._make_room()
            return Step(self.batch.count > 0, (), round(self.moving))
        self._make_room()
        left = self.policy.max_tokens - self.batch.count * (1 + self.batch.guesses)
        prompts = self._choose(left, now, known, admit=opens and self.preemptions == before)
        return Step(self.batch.count > 0, prompts, round(self.moving))

    def advance(self, steps: int) -> int:
        """The batch has made `steps` steps; tokens that they gave."""
        self.claim(steps)
        self.taken = 0
        if self.gate is not None:
            self.gate.advance(steps)
        return self.batch.advance(steps)

    def claim(self, steps: int) -> None:
        """Take the blocks of the next steps of the batch, as far as they are not taken."""
        more = self.batch.need(steps) - self.taken
        self.cache.claim(more)
        self.growth -= more
        self.taken += more

    def steps(self) -> int:
        """How many steps the batch can make before somebody is answered, has to give way, or has waited long enough for
        others, the first included."""
        steps = self.batch.next_end()
        if self.gate is not None and self.waiting:
            steps = min(steps, self.gate.left_over)
        return max(1, self.batch.fitting(steps, self.cache.free + self.taken))

    def prompt_done(self, job: Job) -> None:
        """A job's prompt is in the cache."""
        del self.prompts[job.number]

    def finish(self, job: Job) -> None:
        """The job is answered."""
        self._leave(job)
        self.cache.release(job.held, job.segments, job.done)

    def hand_over(self, job: Job) -> None:
        """The job is done here; its blocks are kept until `let_go`."""
        self._leave(job)
        self.handing += 1

    def let_go(self, job: Job) -> None:
        """The job's cache is where it has to be."""
        self.handing -= 1
        self.cache.release(job.held, job.segments, job.done)

    def loaded(self, job: Job) -> None:
        """The job's cache has been read from a tier."""
        self.loading -= 1
        self.running[job.number] = self.prompts[job.number] = job

    def lose(self) -> list[Job]:
        """Everything is lost but what tiers hold that all servers share; the jobs, those that decoded brought up to
        date. Jobs whose cache is on its way are not among them."""
        for job in self.running.values():
            if job.joined >= 0:
                self.batch.leave(job)
        lost = [*self.running.values(), *(job for _, _, job in self.waiting)]
        self.cache.clear([tier.shared for tier in self.policy.tiers])
        self.waiting.clear()
        self.running.clear()
        self.prompts.clear()
        self.loads.clear()
        self.queued = self.loading = self.handing = self.growth = self.taken = 0
        self.early = False
        if self.gate is not None:
            self.gate.clear()
        return lost

    def _wait(self, job: Job) -> None:
        heapq.heappush(self.waiting, (job.priority, job.order, job))
        self.queued += job.todo
        if self.gate is not None:
            self.gate.wait(job)

    def _next(self) -> None:
        job = heapq.heappop(self.waiting)[2]
        self.queued -= job.todo
        if self.gate is not None:
            self.gate.wait(job, -1)

    def _leave(self, job: Job) -> None:
        self._forget(job)
        if self.gate is not None:
            self.gate.left(job)

    def _final(self, job: Job) -> int:
        return self.cache.of(job.prompt + job.output - 1 + self.batch.guesses)

    def _forget(self, job: Job) -> None:
        del self.running[job.number]
        self.growth -= self._final(job) - job.held.blocks

    def _resume(self) -> None:
        """Jobs from the head of the queue whose cache has arrived, or is on the host."""
        while self.waiting and self.waiting[0][2].ready and len(self.running) + self.loading < self.most:
            job = self.waiting[0][2]
            need = self.cache.of(job.done + 1 + self.batch.guesses)
            if need > self.cache.free:
                return
            self._next()
            self.cache.take(job.held, need)
            self.moving += need * self.swap if job.preempted else 0
            self.growth += self._final(job) - need
            self.running[job.number] = job
            self.batch.join(job)

    def _make_room(self) -> None:
        """Take the blocks that the batch needs for its next step; who was admitted last, or has the last priority,
        gives way where they are too few."""
        while self.batch.count and self.batch.need() > self.cache.free:
            self._preempt()
        if self.batch.count:
            self.claim(1)

    def _preempt(self) -> None:
        """A job gives way and computes everything again, or has its cache moved to the host and back."""
        running = self.running
        number = (max(running, key=lambda each: (running[each].priority, running[each].order))
                  if self.policy.priorities else next(reversed(running)))
        job, swapped = running[number], False
        if job.joined >= 0:
            self.batch.leave(job)
            swapped = self.policy.preemption == "swap"
        else:
            del self.prompts[number]
        self._forget(job)
        if swapped:
            self.moving += self.cache.of(job.done) * self.swap
        self.cache.release(job.held, job.segments, 0 if swapped else job.done)
        if not swapped:
            job.todo, job.done = job.prompt + job.generated, 0
        job.preempted += 1
        self.preemptions += 1
        self._wait(job)

    def _choose(self, left: int, now: int, known: int, *, admit: bool) -> list[tuple[Job, int]]:
        """Parts of prompts within `left` tokens: those begun, then those from the head of the queue that fit."""
        found: list[tuple[Job, int]] = []
        for job in self.prompts.values():
            if left <= 0:
                break
            left -= self._part(job, left, found)
        while admit and self.waiting and left > 0 and len(self.running) + self.loading < self.most:
            job = self.waiting[0][2]
            self.early = job.came > known
            if job.ready or self.early or not self._admit(job, left, now):
                break
            self._next()
            if job.number in self.prompts:
                left -= self._part(job, left, found)
        return found

    def _part(self, job: Job, left: int, found: list[tuple[Job, int]]) -> int:
        """Add the next part of a job's prompt; its tokens."""
        tokens = min(left, job.todo - job.done, self.policy.chunk or left)
        found.append((job, tokens))
        if job.told:
            self.cache.tell(job.held, job.segments, job.done + tokens)
        return tokens

    def _admit(self, job: Job, left: int, now: int) -> bool:
        """Give a job the blocks of its whole prompt, and those of others that begin it; False: they do not fit."""
        cache = self.cache
        nodes, hit, idle = cache.match(job.segments, job.todo)
        reach, store = cache.stored(job.segments, job.todo, hit) if cache.stores else (hit, None)
        need, final = cache.of(job.todo) - cache.shared(hit), self._final(job)
        if self.policy.whole and job.todo - reach * cache.block > left:
            return False
        later = math.ceil(self.policy.reserve * (self.growth + final - cache.of(job.todo)))
        if need + idle + later > cache.free:
            rest = cache.rest(nodes, hit)
            if not rest or need + idle - rest + later > cache.free:
                return False
            cache.trim(nodes[-1], hit)
        cache.hold(job.held, nodes, hit, need)
        self.growth += final - job.held.blocks
        job.done = reach * cache.block
        if job.cached is None:
            job.cached = job.done
        if store is None:
            self.running[job.number] = self.prompts[job.number] = job
        else:
            self.loading += 1
            self.loads.append((store.read(reach - hit, now), job))
        return True
