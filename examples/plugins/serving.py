"""A workload that decides as it runs: four ranks serve requests with continuous batching.

Requests arrive one by one. Before every step the server lets waiting requests join the batch (a prompt costs a longer
step), and each running request yields one token. What runs next depends on when the network was done: no trace could
say it beforehand.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from astrarium.collective.algorithms import Options, build
from astrarium.engine.plan import Algorithm, Backend, Chunk, CollectivePlan, Dim, NetworkPlan, Phase, Shape
from astrarium.engine.plugins.exams import exam_work
from astrarium.engine.plugins.work import Work, collective, compute, timer
from astrarium.engine.source import Stage
from astrarium.vocab import CommOp

RANKS, MOST = 4, 3
MS = 10**9                               # ps
PROMPT, TOKEN = 8 * MS, 2 * MS           # time of a step that takes in a prompt, and of one that does not


class Server:
    """Requests of (arrival ps, tokens). `done[i]` is when request i had its last token."""

    def __init__(self, requests: Sequence[tuple[int, int]]) -> None:
        self.requests = requests
        self.done: dict[int, int] = {}
        self.steps: list[tuple[int, int]] = []      # (start, requests in the batch)
        self._waiting: list[int] = []
        self._running: dict[int, int] = {}          # request -> tokens to go
        self._next = [0] * RANKS
        self._arrivals: set[int] = set()
        self._busy = 0                              # ranks that have not ended the step

    def start(self, t: int) -> list[Work]:
        self._arrivals = set(range(len(self.requests)))     # ids 0.. of rank 0 are the arrivals
        self._next[0] = len(self.requests)
        return [timer(number, 0, arrival - t) for number, (arrival, _) in enumerate(self.requests)]

    def completed(self, work: Work, t: int) -> list[Work]:
        if work.rank == 0 and work.id in self._arrivals:
            self._waiting.append(work.id)
            return self._step(t) if not self._busy else []
        if work.collective < 0:                     # this rank has computed: on to the all-reduce
            return [collective(self._id(work.rank), work.rank, 0)]
        self._busy -= 1
        return self._step_over(t) if not self._busy else []

    def unfinished(self) -> list[str]:
        return [f"request {number} has no answer" for number in range(len(self.requests)) if number not in self.done]

    def _step(self, t: int) -> list[Work]:
        joining = self._waiting[:MOST - len(self._running)]
        self._waiting = self._waiting[len(joining):]
        self._running.update({number: self.requests[number][1] for number in joining})
        if not self._running:
            return []
        self.steps.append((t, len(self._running)))
        self._busy = RANKS
        time = PROMPT if joining else TOKEN
        return [compute(self._id(rank), rank, time) for rank in range(RANKS)]

    def _step_over(self, t: int) -> list[Work]:
        for number in list(self._running):
            self._running[number] -= 1
            if not self._running[number]:
                del self._running[number]
                self.done[number] = t
        return self._step(t)

    def _id(self, rank: int) -> int:
        self._next[rank] += 1
        return self._next[rank] - 1


def stage() -> Stage:
    """Four NPUs on a switch, and one collective: all-reduce of 8 MiB, direct."""
    schedule = build("direct", CommOp.ALL_REDUCE, RANKS, Options())
    size = 8 << 20
    phase = Phase(0, CommOp.ALL_REDUCE, Algorithm.SCHEDULE, size, RANKS, 1, schedule=schedule,
                  block_size=size // schedule.blocks)
    return Stage(np.arange(RANKS, dtype=np.int32),
                 NetworkPlan(Backend.PORTS, (Dim(Shape.SWITCH, RANKS, 50.0, 500.0),)),
                 collectives=(CollectivePlan(CommOp.ALL_REDUCE, size, (Chunk(1, (phase,)),)),))


def main() -> None:
    rng = random.Random(7)
    arrivals = np.cumsum([rng.randrange(1, 12) * MS for _ in range(8)]).tolist()
    requests = [(arrival, rng.randrange(2, 9)) for arrival in arrivals]
    servers: list[Server] = []

    def make() -> Server:
        servers.append(Server(requests))
        return servers[-1]

    outcome = exam_work(make, stage())              # runs it twice: a source must be deterministic
    server = servers[-1]
    print(f"{len(outcome.work)} works, {len(server.steps)} steps, makespan {outcome.makespan / MS:.3f} ms")
    for number, (arrival, tokens) in enumerate(requests):
        print(f"request {number}: arrives {arrival / MS:5.1f} ms, {tokens} tokens, "
              f"answered after {(server.done[number] - arrival) / MS:6.3f} ms")


if __name__ == "__main__":
    main()
