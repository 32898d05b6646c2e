"""The decoding sequences of a server, without work per sequence in a step.

Every step gives each of them its next token, so a sequence that joins at step k with n tokens to come ends with step
k + n, and needs a cache block whenever its tokens fill the last one: both are known when it joins. Blocks needed at a
step are counted in an array over steps; ends are in a heap. With speculation the tokens of each step are drawn when a
sequence joins, and the tokens of all are counted in a second array.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np
from msgspec import Struct, field

from astrarium.arrays import I64
from astrarium.serving.job import Job
from astrarium.workload.inference.footprint import CacheBlocks

__all__ = ["Batch"]

Draw = Callable[[int], I64]         # tokens that a sequence gets in each of its next steps, at least as many in all
ROOM = 4096


class Batch(Struct):
    """`count` sequences with `context` tokens in the cache in all, after `clock` steps. `block` tokens a cache block;
    `guesses` of a draft, with `draw`. `last`: time in ps of the last step, which gave every sequence its last token
    but those that joined at another time (`late`: request -> ps). `held`: blocks of a sequence, where these are not in
    proportion to its tokens."""

    block: int
    guesses: int = 0
    draw: Draw | None = None
    held: CacheBlocks | None = None
    count: int = 0
    context: int = 0
    clock: int = 0
    base: int = 0
    last: int = 0
    joins: int = 0
    late: dict[int, int] = field(default_factory=dict)
    ends: list[tuple[int, int, Job]] = field(default_factory=list)
    needs: I64 = field(default_factory=lambda: np.zeros(ROOM, np.int64))
    gains: I64 = field(default_factory=lambda: np.zeros(0, np.int64))

    def join(self, job: Job) -> None:
        """A job whose next token needs one more token in the cache."""
        left = job.output - job.generated
        if self.draw is not None:
            job.given = _until(self.draw, left)
            left = len(job.given)
        job.joined, job.ends = self.clock, self.clock + left
        self._room(left)
        self._count(job, 0, 1)
        self.count += 1
        self.context += job.done
        self.joins += 1
        if job.last != self.last:
            self.late[job.number] = job.last
        heapq.heappush(self.ends, (job.ends, self.joins, job))

    def leave(self, job: Job) -> None:
        """A job that gives way; it is brought up to date."""
        self._count(job, self.clock - job.joined, -1)
        job.last = self.late.pop(job.number, self.last)
        self.progress(job)
        self.count -= 1
        self.context -= job.done

    def finished(self) -> list[Job]:
        """Jobs whose last token came with the last step; they leave."""
        found = []
        while self.ends and self.ends[0][0] <= self.clock:
            end, _, job = heapq.heappop(self.ends)
            if job.joined < 0 or job.ends != end:
                continue                                # it gave way meanwhile
            self.progress(job)
            self.count -= 1
            self.context -= job.done
            found.append(job)
        return found

    def progress(self, job: Job) -> None:
        """Bring a job up to date as it leaves: tokens in the cache and given, blocks of its own."""
        steps = self.clock - job.joined
        tokens = steps if job.given is None else int(job.given[:steps].sum())
        job.held.own += self._blocks(job, steps)
        job.done += tokens
        job.generated += tokens
        job.joined, job.given = -1, None

    def next_end(self) -> int:
        """Steps until the first job ends."""
        while True:
            end, _, job = self.ends[0]
            if job.joined >= 0 and job.ends == end:
                return end - self.clock
            heapq.heappop(self.ends)

    def need(self, steps: int = 1) -> int:
        """Blocks that the next steps need."""
        at = self.clock - self.base
        return int(self.needs[at]) if steps == 1 else int(self.needs[at:at + steps].sum())

    def fitting(self, steps: int, free: int) -> int:
        """How many of the next `steps` steps `free` blocks are enough for."""
        if free >= self.count * (-(-steps * (1 + self.guesses) // self.block) + 1):
            return steps
        at = self.clock - self.base
        return int(np.searchsorted(np.cumsum(self.needs[at:at + steps]), free, side="right"))

    def contexts(self, steps: int) -> I64:
        """Tokens in the cache before each of the next steps, with speculation [steps]."""
        at = self.clock - self.base
        gains = self.gains[at:at + steps]
        found: I64 = self.context + np.cumsum(gains) - gains
        return found

    def advance(self, steps: int) -> int:
        """Some steps are made; tokens that they gave."""
        at = self.clock - self.base
        given = self.count * steps if self.draw is None else int(self.gains[at:at + steps].sum())
        self.context += given
        self.clock += steps
        return given

    def _first(self, job: Job) -> int:
        """Steps from the one at which a job joined to the first that needs a block."""
        return max(0, job.held.blocks * self.block - job.done)

    def _blocks(self, job: Job, steps: int) -> int:
        """Blocks that a job took in its first `steps` steps."""
        if job.given is None and self.held is None:
            return len(range(self._first(job), steps, self.block))
        return int(self._taken(job)[:steps].sum())

    def _taken(self, job: Job) -> I64:
        """Blocks that a job takes in each of its steps."""
        given = np.ones(job.ends - job.joined, np.int64) if job.given is None else job.given
        after = job.done + np.cumsum(given) - given + 1 + self.guesses
        held = np.maximum(-(-after // self.block) if self.held is None else self.held.of_each(after), job.held.blocks)
        taken: I64 = np.diff(held, prepend=job.held.blocks)
        return taken

    def _count(self, job: Job, skip: int, sign: int) -> None:
        """Count what a job needs from its step `skip` on, or no more."""
        at, end = job.joined - self.base, job.ends - self.base
        if job.given is None and self.held is None:
            first = self._first(job)
            if first < skip:
                first += -(-(skip - first) // self.block) * self.block
            self.needs[at + first:end:self.block] += sign
            return
        self.needs[at + skip:end] += sign * self._taken(job)[skip:]
        if job.given is not None:
            self.gains[at + skip:end] += sign * job.given[skip:]

    def _room(self, steps: int) -> None:
        """Make the arrays long enough for `steps` steps from now."""
        at = self.clock - self.base
        if at + steps < len(self.needs) and (self.draw is None or len(self.gains)):
            return
        longer = max(ROOM, 2 * (len(self.needs) - at), 2 * steps)
        needs, gains = np.zeros(longer, np.int64), np.zeros(longer if self.draw else 0, np.int64)
        needs[:len(self.needs) - at] = self.needs[at:]
        if len(self.gains):
            gains[:len(self.gains) - at] = self.gains[at:]
        self.needs, self.gains, self.base = needs, gains, self.clock


def _until(draw: Draw, tokens: int) -> I64:
    """Tokens of the steps that a sequence with `tokens` to come takes; the last gives no more than are missing."""
    given = draw(tokens)
    total = np.cumsum(given)
    last = int(np.searchsorted(total, tokens))
    given = given[:last + 1]
    given[last] -= int(total[last]) - tokens
    return given
