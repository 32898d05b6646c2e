"""One server: the step or the successive steps that it is at, and what they take."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.errors import InputError
from astrarium.serving.job import Step
from astrarium.serving.log import Log
from astrarium.serving.policy import Policy
from astrarium.serving.scheduler import Scheduler
from astrarium.serving.shape import Shape, StepTimes

__all__ = ["CLOCK", "Costs", "Server", "costs_of"]

CLOCK = 2**62       # ps
DRAWN = 32      # steps in a row with speculation


class Costs(Struct, frozen=True):
    """Host time in ps of a step, and for each sequence in it; sizes of graphs to which steps are padded, those with
    prompts only if `mixed`. Sequences are on `ranks` ranks of dp, each with its own host and graphs. `launches`:
    ps in which the host launches the kernels of a decode step, and of a step with prompts, outside graphs."""

    step: int = 0
    sequence: int = 0
    graphs: I64 | None = None
    ranks: int = 1
    launches: tuple[int, int] = (0, 0)
    mixed: bool = True

    def launching(self, tokens: int, prompts: bool) -> int:
        """Least time of a step of `tokens` tokens, in which its kernels are launched, ps; 0 in a graph."""
        return 0 if self._graph(tokens, prompts) is not None else self.launches[prompts]

    def of(self, sequences: int) -> int:
        """Host time of a step."""
        return self.step + self.sequence * -(-sequences // self.ranks)

    def padding(self, tokens: int, prompts: bool) -> int:
        """Tokens that pad a step of `tokens` tokens."""
        size = self._graph(tokens, prompts)
        return 0 if size is None else size * self.ranks - tokens

    def _graph(self, tokens: int, prompts: bool) -> int | None:
        """The graph that a step runs in; None: its kernels are launched one by one."""
        if self.graphs is None or (prompts and not self.mixed):
            return None
        place = int(np.searchsorted(self.graphs, -(-tokens // self.ranks)))
        return int(self.graphs[place]) if place < len(self.graphs) else None


def costs_of(policy: Policy, ranks: int = 1, kernels: tuple[int, int] = (0, 0)) -> Costs:
    """What a policy says of host time and graphs, with sequences on `ranks` ranks of dp. `kernels` of a decode step,
    and of one with prompts."""
    graphs, launch = np.array(policy.graphs, np.int64) if policy.graphs else None, float(policy.launch or 0) * 1000
    decode, prompts = (round(launch * each) for each in kernels)
    return Costs(round(float(policy.overhead) * 1000), round(float(policy.sequence_overhead) * 1000), graphs, ranks,
                 (decode, prompts), policy.schedule == "chunked")


class Server(Struct):
    """A scheduler, how long its steps take, and the step that it is at; as many steps of the batch alone as nothing
    comes between, with `ends` of each in ps (then `step.prompts` is empty). `event`: the one with which they end.
    `pace`: what its last step took, ps; `begun`: when that one began, and `ended` when it ended. `log`: where steps are
    written down, if every step is taken on its own. So far the server was `busy` for as many ps, in `steps` with
    `tokens`."""

    scheduler: Scheduler
    times: StepTimes
    costs: Costs = Costs()
    step: Step | None = None
    ends: I64 | None = None
    start: int = 0
    pace: int = 0
    event: int = 0
    begun: int = 0
    ended: int = -1
    steps: int = 0
    busy: int = 0
    tokens: int = 0
    log: Log | None = None

    def begin(self, step: Step, now: int, most: int) -> int:
        """Begin a step, or up to `most` in a row that have no prompts; when the last of them ends, in ps."""
        batch, costs = self.scheduler.batch, self.costs
        self.step, self.start = step, now
        count, each = (batch.count if step.decode else 0), 1 + batch.guesses
        if step.prompts:
            parts = tuple((tokens, job.done, int(job.done + tokens == job.todo)) for job, tokens in step.prompts)
            tokens = count * each + sum(part[0] for part in parts)
            shape = Shape(count, batch.context if count else 0, parts, costs.padding(tokens, True))
            time = max(self.times.of(shape), costs.launching(tokens, True)) + costs.of(count + len(parts))
            self.ends, end = None, now + time + step.moving
            if self.log is not None:
                self.log.note(shape, step, self.scheduler.running, now, end)
            return end
        steps, pad = min(self.scheduler.steps(), most), costs.padding(count * each, False)
        if batch.draw is None:
            times = self.times.decoding(count, batch.context, steps, pad)
        else:
            shapes = (Shape(count, int(context), (), pad) for context in batch.contexts(min(steps, DRAWN)))
            times = np.array([self.times.of(shape) for shape in shapes], np.int64)
        times = np.maximum(times, costs.launching(count * each, False)) + costs.of(count)
        if now + step.moving + float(times.sum(dtype=np.float64)) > CLOCK:
            raise InputError("requests", "the run goes beyond 2^62 ps", expected="at most 53 days")
        self.ends = np.cumsum(times)
        self.ends += now + step.moving
        if self.log is not None:
            shape = Shape(count, int(batch.contexts(1)[0]) if batch.draw else batch.context, (), pad)
            self.log.note(shape, step, self.scheduler.running, now, int(self.ends[-1]))
        return int(self.ends[-1])

    def settle(self, now: int) -> None:
        """Take the cache blocks of all steps in a row that have begun before `now`, as if each had been on its own."""
        if self.ends is not None:
            self.scheduler.claim(min(len(self.ends), int(np.searchsorted(self.ends, now)) + 1))

    def known(self, now: int) -> int:
        """Until when a request must have come to be in a step that begins now: ps."""
        scheduler = self.scheduler
        return self.begun if scheduler.policy.ahead and scheduler.running and self.ended == now else now

    def cut(self, now: int) -> int | None:
        """Stop before the first step that may hold a request that comes at `now`; when that is, where there were
        others behind it."""
        if self.ends is None:
            return None
        kept = int(np.searchsorted(self.ends, now)) + 1 + self.scheduler.policy.ahead
        if kept >= len(self.ends):
            return None
        self.ends = self.ends[:kept]
        return int(self.ends[-1])
