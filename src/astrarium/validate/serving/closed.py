"""An engine under a closed loop, event by event: requests are asked for as soon as others are answered."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import deque
from typing import Literal

import numpy as np
from msgspec import Struct, field

from astrarium.validate.serving.deployment import Deployment
from astrarium.validate.serving.times import Steps
from astrarium.workload.graph.packed import Sequences

__all__ = ["Filling", "closed_loop"]

GRID = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
CHUNKS = (1, 64, 256, 1024, 2048, 4096, 8192, 16384, 32768)


class Filling(Struct, frozen=True):
    """How an engine fills steps: at most `tokens` of them for `batch` sequences."""

    kind: Literal["chunked", "whole", "alone"]
    tokens: int
    batch: int = 4096
    cached: float = float("inf")        # tokens
    poll: int = 1       # steps between looks for new requests


class Lines(Struct):
    """Straight lines between values at `places`."""

    places: tuple[int, ...]
    values: list[float]

    def at(self, place: float) -> float:
        places, values = self.places, self.values
        if len(places) == 1:
            return values[0]
        number = min(max(bisect_right(places, place) - 1, 0), len(places) - 2)
        low, high = places[number], places[number + 1]
        return values[number] + (values[number + 1] - values[number]) * (place - low) / (high - low)


class Times(Struct):
    """Times in ms between those of some simulated steps."""

    near: Lines
    slope: Lines
    mixed: Lines
    alone: Lines
    context: int

    def plain(self, count: int, context: float) -> float:
        """A step of decoding sequences with so much context in all."""
        return self.near.at(count) + self.slope.at(count) * (context - count * self.context)


def times_of(steps: Steps, meant: Deployment, batch: int, tokens: int) -> Times:
    """Times of an engine around what a deployment asks of it."""
    prompt, output = round(meant.prompt.mean), round(meant.output.mean)
    near, far = prompt, prompt + output
    places = (*(each for each in GRID if each < batch), batch)
    base = [steps.of(Sequences(count, 1, near)) for count in places]
    slopes = [(steps.of(Sequences(count, 1, far)) - found) / (count * (far - near))
              for count, found in zip(places, base, strict=True)]
    mid = prompt + output // 2
    plain = steps.of(Sequences(batch, 1, mid))
    sizes = sorted({*(each for each in CHUNKS if each < min(tokens, prompt)), min(prompt, tokens),
                    *(min(tokens, batch * prompt) // prompt * prompt,)} - {0})
    mixed, alone = [0.0], [0.0]
    for size in sizes:
        whole, rest = divmod(size, prompt)
        parts = [Sequences(whole, prompt, 0)] if whole else []
        parts += [Sequences(1, rest, 0)] if rest else []
        alone.append(steps.of(*parts))
        mixed.append(steps.of(Sequences(batch, 1, mid), *parts) - plain)
    return Times(Lines(places, base), Lines(places, slopes), Lines((0, *sizes), mixed), Lines((0, *sizes), alone), near)


class _Job(Struct):
    number: int
    prompt: int
    output: int
    left: int


class Engine(Struct):
    """One engine and its clock."""

    times: Times
    filling: Filling
    waiting: deque[_Job] = field(default_factory=deque)
    running: list[tuple[int, int, _Job]] = field(default_factory=list)      # (step of its end, number, job)
    step: int = 0
    looked: int = 0     # step of the last look
    context: float = 0.0
    held: float = 0.0
    now: float = 0.0


def closed_loop(meant: Deployment, steps: Steps, filling: Filling, seed: int = 0, waves: int = 10
                ) -> tuple[float, float]:
    """(mean TTFT, mean TPOT) in ms of `waves` requests for each in flight on one attention replica."""
    users = max(1, -(-meant.concurrency // meant.layout.dp))
    generator, count = np.random.Generator(np.random.PCG64(seed)), waves * users
    prompts = generator.integers(meant.prompt.low, meant.prompt.high + 1, count)
    outputs = generator.integers(meant.output.low, meant.output.high + 1, count)
    engine = Engine(times_of(steps, meant, min(users, filling.batch), filling.tokens), filling)
    first, last, came = np.zeros(count), np.zeros(count), np.zeros(count)
    asked = 0

    def ask() -> None:
        nonlocal asked
        if asked < count:
            came[asked] = engine.now
            engine.waiting.append(_Job(asked, int(prompts[asked]), int(outputs[asked]), int(prompts[asked])))
            asked += 1

    for _ in range(users):
        ask()
    while engine.waiting or engine.running:
        done, ended = _advance(engine)
        for job in done:
            first[job.number] = engine.now
        for job in ended:
            last[job.number] = engine.now
            ask()
    tpot = (last - first) / np.maximum(outputs - 1, 1)
    return float((first - came).mean()), float(tpot.mean())


def _advance(engine: Engine) -> tuple[list[_Job], list[_Job]]:
    """(jobs that have their first token now, jobs that have their last)."""
    filling, running = engine.filling, engine.running
    alone = filling.kind == "alone"
    budget = filling.tokens - (0 if alone else len(running))
    chosen: list[tuple[_Job, int]] = []
    for job in engine.waiting if _looks(engine) else ():
        new = job.left == job.prompt
        room = len(running) + len(chosen) < filling.batch and (
            not new or engine.held + job.prompt + job.output <= filling.cached)
        if not room or budget <= 0 or (filling.kind == "whole" and chosen and job.left > budget):
            break
        size = job.left if filling.kind == "whole" else min(job.left, budget)
        if new:
            engine.held += job.prompt + job.output
        chosen.append((job, size))
        budget -= size
    if not chosen:
        return [], _decode(engine)
    tokens = sum(size for _, size in chosen)
    count = len(running)
    if alone:
        engine.now += engine.times.alone.at(tokens)
    else:
        engine.now += (engine.times.plain(count, engine.context) + engine.times.mixed.at(tokens) if count
                       else engine.times.alone.at(tokens))
        engine.step += 1
        engine.context += count
    ended = [] if alone else _ended(engine)
    done = []
    engine.looked = engine.step - filling.poll
    for job, size in chosen:
        job.left -= size
        if not job.left:
            engine.waiting.popleft()
            done.append(job)
            engine.context += job.prompt
            heapq.heappush(running, (engine.step + job.output - 1, job.number, job))
    return done, ended


def _looks(engine: Engine) -> bool:
    """Whether the engine looks for new requests before this step: after a prompt, and every `poll` steps."""
    if engine.running and engine.step - engine.looked < engine.filling.poll:
        return False
    engine.looked = engine.step
    return True


def _decode(engine: Engine) -> list[_Job]:
    """Steps without prompts until a request ends."""
    running, count = engine.running, len(engine.running)
    steps = running[0][0] - engine.step
    if engine.waiting:
        steps = min(steps, max(1, engine.looked + engine.filling.poll - engine.step))
    middle = engine.context + count * (steps - 1) / 2
    engine.now += steps * engine.times.plain(count, middle)
    engine.step += steps
    engine.context += count * steps
    return _ended(engine)


def _ended(engine: Engine) -> list[_Job]:
    found = []
    while engine.running and engine.running[0][0] <= engine.step:
        _, _, job = heapq.heappop(engine.running)
        engine.context -= job.prompt + job.output - 1
        engine.held -= job.prompt + job.output
        found.append(job)
    return found
