"""How long a step takes: a simulation of it, done once per shape."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass

from astrarium.cluster.serving.policy import Buckets
from astrarium.cluster.serving.scheduler import Step
from astrarium.design import Design
from astrarium.simulate import simulate
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.program import Pass, Program, assemble
from astrarium.workload.inference.replica import Replica

__all__ = ["StepTimes", "shape_of"]


@dataclass(frozen=True)
class StepTimes:
    """Times in ps by shape. `known` keeps them: give one dict to several runs of one design."""

    design: Design
    replica: Replica
    buckets: Buckets
    known: MutableMapping[Packed, int]

    def of(self, step: Step) -> int:
        """Time of a step in ps."""
        shape = shape_of(step, self.buckets)
        if shape not in self.known:
            program = Program((self.replica,), (Pass("step", shape),))
            self.known[shape] = simulate(self.design, traces=assemble(program), record=False).makespan_ps
        return self.known[shape]


def shape_of(step: Step, buckets: Buckets) -> Packed:
    """The step, rounded up. Decoding sequences count by their number and their tokens in all, which is exact for
    attention to everything; under a window it counts some too many."""
    parts: list[Sequences] = []
    count = _up(len(step.decode), buckets.batch)
    if count:
        total = sum(job.done for job in step.decode) * count // len(step.decode)
        mean, rest = divmod(total, count)
        if buckets.context > 1:
            mean, rest = _up(mean + (rest > 0), buckets.context), 0
        parts += [Sequences(count - rest, 1, mean)] + ([Sequences(rest, 1, mean + 1)] if rest else [])
    parts += _prompts(step, buckets)
    return Packed(tuple(parts))


def _prompts(step: Step, buckets: Buckets) -> Sequence[Sequences]:
    """Prompts, or parts of them; equal ones together. The last part of one samples a token."""
    counts: dict[tuple[int, int, int], int] = {}
    for job, tokens in step.prefill:
        last = int(job.done + tokens == job.todo)
        key = (_up(tokens, buckets.chunk), _up(job.done, buckets.chunk), last)
        counts[key] = counts.get(key, 0) + 1
    return [Sequences(count, *key) for key, count in sorted(counts.items())]


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
