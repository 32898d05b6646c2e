"""An oracle of the scheduler and the clock: one server, every step and every sequence of it, no prefix cache."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from astrarium.serving import Policy
from astrarium.serving.requests import Requests
from astrarium.serving.shape import Shape


@dataclass(eq=False)
class Request:
    """`todo` tokens have to be in the cache before it gives a token; `done` are; it holds `blocks`."""

    number: int
    arrival: int
    prompt: int
    output: int
    todo: int = 0
    done: int = 0
    given: int = 0
    blocks: int = 0
    first: int = 0
    finish: int = 0
    last: int = 0

    @property
    def decodes(self) -> bool:
        return self.done >= self.todo > 0


class EveryStep:
    """The clock."""

    def __init__(self, stream: Requests, policy: Policy, blocks: int, of: Callable[[Shape], int]):
        self.policy, self.free, self.of, self.users = policy, blocks, of, stream.concurrency
        rows = zip(stream.arrival.tolist(), stream.prompt.tolist(), stream.output.tolist(), strict=True)
        self.all = [Request(number, *row) for number, row in enumerate(rows)]
        self.coming, self.waiting = deque(self.all), deque[Request]()
        self.running: list[Request] = []
        self.now = self.steps = self.preemptions = self.begun = self.known = 0
        self.gaps: list[int] = []

    def run(self) -> None:
        while self.coming or self.waiting or self.running:
            self.arrive()
            if not self.waiting and not self.running:
                self.now = self.begun = self.coming[0].arrival
                continue
            self.known = self.begun if self.policy.ahead and self.running else self.now
            decode, prompts = self.choose()
            if not decode and not prompts:
                continue
            parts = tuple((tokens, one.done, int(one.done + tokens == one.todo)) for one, tokens in prompts)
            self.begun = self.now
            self.now += self.of(Shape(len(decode), sum(one.done for one in decode), parts))
            self.steps += 1
            for one in decode:
                one.done += 1
                self.token(one)
            for one, tokens in prompts:
                one.done += tokens
                if one.done == one.todo:
                    self.token(one)

    def arrive(self) -> None:
        while self.coming:
            busy = len(self.waiting) + len(self.running)
            if self.coming[0].arrival > self.now if self.users is None else busy >= self.users:
                return
            one = self.coming.popleft()
            one.arrival = one.arrival if self.users is None else self.now
            one.todo = one.prompt
            self.waiting.append(one)

    def token(self, one: Request) -> None:
        one.given += 1
        if one.given == 1:
            one.first = self.now
        else:
            self.gaps.append(self.now - one.last)
        one.last = self.now
        if one.given == one.output:
            one.finish = self.now
            self.running.remove(one)
            self.free += one.blocks

    def choose(self) -> tuple[list[Request], list[tuple[Request, int]]]:
        policy, before = self.policy, self.preemptions
        if policy.schedule == "prefill_first":
            prompts = self.prompts(policy.max_tokens, admit=True)
            if prompts:
                return [], prompts
        decode = []
        for one in list(self.running):
            if one not in self.running or not one.decodes:
                continue
            while one.done + 1 > one.blocks * policy.block and not self.free and self.running[-1] is not one:
                self.preempt()
            if one.done + 1 > one.blocks * policy.block:
                if not self.free:
                    self.preempt()
                    continue
                one.blocks, self.free = one.blocks + 1, self.free - 1
            decode.append(one)
        if policy.schedule == "prefill_first":
            return decode, []
        return decode, self.prompts(policy.max_tokens - len(decode), admit=self.preemptions == before)

    def preempt(self) -> None:
        one = self.running.pop()
        self.free += one.blocks
        one.blocks, one.todo, one.done = 0, one.prompt + one.given, 0
        self.preemptions += 1
        self.waiting.appendleft(one)

    def prompts(self, left: int, *, admit: bool) -> list[tuple[Request, int]]:
        policy, found = self.policy, list[tuple[Request, int]]()
        for one in self.running:
            if not one.decodes and left > 0:
                found.append((one, min(left, one.todo - one.done, policy.chunk or left)))
                left -= found[-1][1]
        while admit and self.waiting and left > 0 and len(self.running) < min(policy.max_batch, policy.max_tokens):
            one = self.waiting[0]
            if one.arrival > self.known:
                break
            need = -(-one.todo // policy.block)
            ends = sum(-(-(each.prompt + each.output - 1) // policy.block) - each.blocks for each in self.running)
            later = ends + -(-(one.prompt + one.output - 1) // policy.block) - need
            if need + (later if policy.reserve else 0) > self.free or (policy.whole and one.todo > left):
                break
            self.waiting.popleft()
            one.blocks, self.free = need, self.free - need
            self.running.append(one)
            found.append((one, min(left, one.todo, policy.chunk or left)))
            left -= found[-1][1]
        return found
