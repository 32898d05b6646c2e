"""One step's choice: who decodes, whose prompt goes on, who is admitted, who has to give way."""

from __future__ import annotations

from collections import deque

from msgspec import Struct, field

from astrarium.errors import InputError
from astrarium.serving.policy import Policy
from astrarium.serving.shape import Shape
from astrarium.workload.inference.footprint import CacheBlocks

__all__ = ["Job", "Scheduler", "Step"]


class Job(Struct, eq=False):
    """A request in progress. `todo` tokens must be in the cache before it gives a token: its prompt, and after a
    preemption what it had generated; `done` of them are. `target`: the server that its cache goes to."""

    number: int
    prompt: int
    output: int
    todo: int
    done: int = 0
    generated: int = 0
    blocks: int = 0
    preempted: int = 0
    target: int = 0

    @property
    def decoding(self) -> bool:
        """Whether its next token needs one more token in the cache, and nothing else."""
        return self.generated > 0 and self.done == self.prompt + self.generated - 1


class Step(Struct, frozen=True):
    """`decode` jobs, and (job, tokens) of prompts."""

    decode: tuple[Job, ...]
    prefill: tuple[tuple[Job, int], ...]

    @property
    def shape(self) -> Shape:
        """What decides how long it takes. The last part of a prompt samples a token."""
        return Shape(len(self.decode), sum(job.done for job in self.decode),
                     tuple((tokens, job.done, int(job.done + tokens == job.todo)) for job, tokens in self.prefill))


class Scheduler(Struct, dict=True):
    """The queue and the cache of one server. `free` blocks of the cache; `handing` requests whose cache is on its way
    here; `blocks`: how many a sequence holds (left out: those of its tokens);
    `guesses` of a draft that every decoding sequence has verified in a step; `gave_way`: whether the last step
    preempted somebody."""

    policy: Policy
    free: int
    waiting: deque[Job] = field(default_factory=deque)
    running: list[Job] = field(default_factory=list)
    preemptions: int = 0
    handing: int = 0
    guesses: int = 0
    gave_way: bool = False
    blocks: CacheBlocks | None = None

    def __post_init__(self) -> None:
        self.total = self.free

    def add(self, job: Job, most: int) -> None:
        """A new request, which takes `most` tokens of cache here. Raises InputError where it could never run."""
        if self._blocks(most + self.guesses) > self.total:
            raise InputError("requests", f"request {job.number} needs {most + self.guesses:,} tokens of cache",
                             expected=f"at most {self.total:,} blocks of {self.policy.block} tokens, all that fit")
        if self.policy.schedule == "prefill_first" and most > self.policy.max_tokens:
            raise InputError("policy.max_tokens", f"request {job.number} may have to prefill {most:,} tokens at once",
                             expected="as many, or schedule: chunked")
        self.waiting.append(job)

    def next_step(self) -> Step:
        """What the next step does; cache blocks are taken for it."""
        before, self.gave_way = self.preemptions, False
        self._admit_ready()
        if self.policy.schedule == "prefill_first":
            prompts = self._admit(self.policy.max_tokens, whole=True)
            if prompts:
                return Step((), prompts)
        decode = self._decode()
        self.gave_way = self.preemptions > before
        left = self.policy.max_tokens - len(decode) * (1 + self.guesses)
        prefill = []
        for job in self.running:
            if not job.decoding and left > 0:
                prefill.append((job, min(left, job.todo - job.done)))
                left -= prefill[-1][1]
        if self.policy.schedule == "chunked" and not self.gave_way:
            prefill += self._admit(left, whole=False)
        return Step(decode, tuple(prefill))

    def finish(self, job: Job) -> None:
        """The job is answered."""
        self.running.remove(job)
        self._release(job)

    def hand_over(self, job: Job) -> None:
        """The job is done here; its blocks are kept until `let_go`."""
        self.running.remove(job)
        self.handing += 1

    def let_go(self, job: Job) -> None:
        """The job's cache is where it has to be."""
        self.handing -= 1
        self._release(job)

    def _admit_ready(self) -> None:
        """Jobs from the head of the queue whose cache has arrived."""
        while self.waiting and self.waiting[0].decoding and len(self.running) < self.policy.max_batch:
            job = self.waiting[0]
            need = self._blocks(job.done + 1 + self.guesses)
            if need > self.free:
                return
            self.waiting.popleft()
            self.free -= need
            job.blocks = need
            self.running.append(job)

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.policy.block) if self.blocks is None else self.blocks.of(tokens)

    def _release(self, job: Job) -> None:
        self.free += job.blocks
        job.blocks = 0

    def _decode(self) -> tuple[Job, ...]:
        """All decoding jobs within the budget of tokens, each with room for its next token and its guesses."""
        chosen: list[Job] = []
        each, most = 1 + self.guesses, self.policy.max_tokens
        for job in list(self.running):
            if not job.decoding or (len(chosen) + 1) * each > most or not job.blocks:
                continue        # without blocks: it gave way in this very step
            need = max(0, self._blocks(job.done + each) - job.blocks)
            while need > self.free and self.running[-1] is not job:
                self._preempt(self.running[-1])
            if need > self.free:
                self._preempt(job)
                continue
            self.free -= need
            job.blocks += need
            chosen.append(job)
        return tuple(chosen)

    def _preempt(self, job: Job) -> None:
        """The job admitted last gives way and computes everything again."""
        self.running.remove(job)
        self._release(job)
        job.todo, job.done = job.prompt + max(0, job.generated), 0
        job.preempted += 1
        self.preemptions += 1
        self.waiting.appendleft(job)

    def _admit(self, left: int, *, whole: bool) -> tuple[tuple[Job, int], ...]:
        """Jobs from the head of the queue, as long as they fit."""
        found: list[tuple[Job, int]] = []
        while self.waiting and left > 0 and len(self.running) < self.policy.max_batch:
            job = self.waiting[0]
            if job.decoding:
                break
            need = self._blocks(job.todo)
            if need > self.free or (whole and job.todo > left):
                break
            self.waiting.popleft()
            self.free -= need
            job.blocks = need
            self.running.append(job)
            found.append((job, min(left, job.todo)))
            left -= found[-1][1]
        return tuple(found)
