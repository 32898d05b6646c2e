"""A workload that decides as it runs: four ranks serve requests with continuous batching.

Requests arrive one by one. Before every step the server lets waiting requests join the batch (a prompt costs a longer
step), and each running request yields one token. What runs next depends on when the network was done: no trace could
say it beforehand. `Serving` is what the entry point `workload.serving` names; then a design file may say
`workload: {source: serving, requests: 100}`.

The model: LLaMA 3 8B in bf16 (32 layers of width 4,096), the two all-reduces of all layers as one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate
from typing import Annotated, ClassVar

import astrarium as ar
from astrarium.plugins import Config, Desk, Knob, Work, collective, compute, exam_work, stage_of, timer
from astrarium.workload import Live

PARAMETERS, LAYERS, WIDTH, BYTES = 8_030_000_000, 32, 4096, 2
PROMPT = 512                             # tokens
MS = 10**9                               # ps


class Serving(Live, frozen=True, kw_only=True):
    """A server with continuous batching, and the requests that it gets."""

    tag: ClassVar[str] = "serving"
    requests: Annotated[int, Knob("How many requests come.", ge=1)] = 8
    batch: Annotated[int, Knob("Requests that run at once.", ge=1)] = 3
    seed: Annotated[int, Knob("Seed of their arrivals and lengths.")] = 7

    def feed(self, desk: Desk) -> Server:
        """The server of one run."""
        rng = random.Random(self.seed)
        arrivals = accumulate(rng.randrange(1, 12) * MS for _ in range(self.requests))
        return Server([(arrival, rng.randrange(2, 9)) for arrival in arrivals], desk, self.batch)


class Server:
    """Requests of (arrival ps, tokens). `done[i]` is when request i had its last token."""

    def __init__(self, requests: Sequence[tuple[int, int]], desk: Desk, batch: int = 3) -> None:
        self.requests = requests
        self.done: dict[int, int] = {}
        self.steps: list[tuple[int, int]] = []      # (start, requests in the batch)
        self._desk, self._batch = desk, batch
        sizes = {prompts * PROMPT + others for prompts in range(batch + 1) for others in range(batch + 1 - prompts)}
        self._sums = {tokens: desk.collective("all_reduce", 2 * LAYERS * WIDTH * BYTES * tokens)
                      for tokens in sorted(sizes)}
        self._waiting: list[int] = []
        self._running: dict[int, int] = {}          # request -> tokens to go
        self._next = [0] * desk.ranks
        self._arrivals: set[int] = set()
        self._tokens = 0                            # in this step
        self._busy = 0                              # ranks that have not ended it

    def start(self, t: int) -> list[Work]:
        self._arrivals = set(range(len(self.requests)))     # ids 0.. of rank 0 are the arrivals
        self._next[0] = len(self.requests)
        return [timer(number, 0, arrival - t) for number, (arrival, _) in enumerate(self.requests)]

    def completed(self, work: Work, t: int) -> list[Work]:
        if work.rank == 0 and work.id in self._arrivals:
            self._waiting.append(work.id)
            return self._step(t) if not self._busy else []
        if work.collective < 0:                     # this rank has computed: on to the all-reduce
            return [collective(self._id(work.rank), work.rank, self._sums[self._tokens])]
        self._busy -= 1
        return self._step_over(t) if not self._busy else []

    def unfinished(self) -> list[str]:
        return [f"request {number} has no answer" for number in range(len(self.requests)) if number not in self.done]

    def _step(self, t: int) -> list[Work]:
        joining = self._waiting[:self._batch - len(self._running)]
        self._waiting = self._waiting[len(joining):]
        self._tokens = len(self._running) + PROMPT * len(joining)
        self._running.update({number: self.requests[number][1] for number in joining})
        if not self._running:
            return []
        self.steps.append((t, len(self._running)))
        self._busy = ranks = self._desk.ranks
        time = self._desk.duration(2 * PARAMETERS * self._tokens / ranks, BYTES * PARAMETERS // ranks)
        return [compute(self._id(rank), rank, time) for rank in range(ranks)]

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


def design(workload: Config) -> ar.Design:
    """Four NPUs of an H100's figures on a switch."""
    return ar.Design(workload=workload, compute=ar.Roofline(peak="989 TFLOP/s"),
                     memory=ar.Memory(bandwidth="3.35 TB/s"), collective=ar.Collective(all_reduce=["direct"]),
                     network=ar.Network([ar.Switch(4, bandwidth="50 GB/s", latency="500 ns")]))


def main() -> None:
    workload = Serving()
    chosen = design(workload)
    stage = stage_of(chosen)[1]
    servers: list[Server] = []

    def make() -> Server:
        servers.append(stage_of(chosen)[0])
        return servers[-1]

    exam_work(make, stage)          # a source must be deterministic, and the same to both engines
    server, result = servers[-1], ar.simulate(chosen)
    print(f"{len(server.steps)} steps, makespan {result.makespan}, exposed communication {result.exposed_comm}")
    for number, (arrival, tokens) in enumerate(server.requests):
        print(f"request {number}: arrives {arrival / MS:5.1f} ms, {tokens} tokens, "
              f"answered after {(server.done[number] - arrival) / MS:6.3f} ms")


if __name__ == "__main__":
    main()
