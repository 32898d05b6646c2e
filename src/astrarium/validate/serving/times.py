"""Times of an engine's steps, from a simulation of each shape."""

from __future__ import annotations

from collections.abc import MutableMapping

from msgspec import Struct

from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.lower.kept import Kept
from astrarium.simulate import simulate
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.join import Part, joined
from astrarium.workload.inference.passes import replica_of
from astrarium.workload.inference.program import Pass, Program, assembled
from astrarium.workload.inference.replica import Replica

__all__ = ["Steps", "steps_of"]

NAMES = (("step", 1.0), ("", 1.0))


class Steps(Struct, frozen=True):
    """Times in ms of steps in which every attention replica does the same; `known` keeps them."""

    design: Design
    replica: Replica
    known: MutableMapping[tuple[Sequences, ...], float]
    kept: Kept

    def of(self, *parts: Sequences) -> float:
        """Milliseconds of a step of these sequences on every replica."""
        found = tuple(each for each in parts if each.count)
        if found not in self.known:
            made, tiles = assembled(Program((self.replica,), (Pass("step", Packed(found)),)))
            part = Part(0, made, [each.offset for each in tiles], [each.exit for each in tiles], 0)
            traces = joined([part], [], NAMES)
            self.known[found] = simulate(self.design, traces=traces, record=False,
                                         kept=self.kept).makespan_ps / 1e9
        return self.known[found]


def steps_of(design: Design) -> Steps:
    """The steps of an engine. Raises InputError where its workload is no inference."""
    work = design.workload
    if not isinstance(work, Inference):
        raise InputError("workload.source", "is no inference", expected="inference")
    return Steps(design, replica_of(work), {}, Kept())
