"""Which step times a design has: tables where its nodes follow each other, else simulations."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from astrarium.arrays import I64
from astrarium.design import Design, npu_types
from astrarium.lower.plan import placement_of
from astrarium.serving.policy import Buckets
from astrarium.serving.shape import Shape, StepTimes
from astrarium.serving.steps.exact import Times, class_of
from astrarium.serving.steps.lockstep import Lockstep, busiest
from astrarium.serving.steps.nodes import InseparableError, nodes_of
from astrarium.serving.steps.simulated import Known, Simulated, packed_of
from astrarium.serving.steps.tables import Tables
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.replica import Replica
from astrarium.workload.inference.speculative import guessing

__all__ = ["WHOLE", "Summed", "classes_of", "exactly", "times_of"]

WHOLE = "whole steps"
PROBES = (Packed((Sequences(2, 1, 100),)), Packed((Sequences(1, 8, 0), Sequences(2, 1, 100))))


class Summed:
    """Times in ps of the steps of a replica as sums over their nodes: from tables, and where these do not have a step,
    node by node. With a `draft`, over the passes of both models.

    `how` says in words where times come from. Raises InseparableError, when made, where they are no sums.
    """

    def __init__(self, steps: Simulated) -> None:
        models = (steps.replica,) if steps.draft is None else (steps.replica, steps.draft)
        self._steps = steps
        self._times = [Times(steps.design, model, steps.start, steps.kept) for model in models]
        for times in self._times:
            for probe in PROBES:
                nodes_of(times.replica, probe, times.forms)
        self._target = Tables(self._times[0], 1 if steps.draft is None else steps.guesses + 1)
        self._drafts: dict[int, Tables] = {}
        self._known: dict[Shape, int] = {}
        self._classes: dict[str, tuple[Times, Tables]] = {}
        self._missing = ""

    @property
    def how(self) -> str:
        """Where the times so far came from."""
        return "steps from tables" + (f", some summed one by one: {self._missing}" if self._missing else "")

    def of(self, shape: Shape, /) -> int:
        """Time of a step."""
        try:
            if self._steps.draft is None:
                return self._target.of(shape)
            self._no_padding(shape.padding)
            return self._target.of(shape) + sum(tables.of(each) for tables, each in self._guesses(shape))
        except InseparableError as why:
            self._missing = self._missing or str(why)
        if shape not in self._known:
            self._known[shape] = sum(int(self._times[each.model].of_passes([each.packed], shape.shared)[0])
                                     for each in self._steps.passes(shape))
        return self._known[shape]

    def decoding(self, count: int, context: int, steps: int, padding: int = 0, /) -> I64:
        """Times of successive decode steps [steps]."""
        try:
            if self._steps.draft is None:
                return self._target.decoding(count, context, steps, padding)
            self._no_padding(padding)
            found = self._target.decoding(count, context, steps)
            for tables, each in self._guesses(Shape(count, context)):
                found = found + tables.decoding(count, each.context, steps)
            return found
        except InseparableError:
            return np.array([self.of(Shape(count, context + step * count, (), padding)) for step in range(steps)],
                            np.int64)

    def exactly(self, shapes: Sequence[Shape]) -> I64:
        """Times of some steps [shapes], node by node and all at once: cheaper than tables for a few steps of an engine
        that never serves. Raises InseparableError with a draft."""
        if self._steps.draft is not None:
            raise InseparableError("a step with a draft is several passes")
        alike = [each for each in shapes if each.shared is None]
        found = dict(zip(alike, self._times[0].of_passes([packed_of(each) for each in alike]).tolist(), strict=True))
        return np.array([found[each] if each in found else
                         self._times[0].of_passes([packed_of(each)], each.shared)[0] for each in shapes], np.int64)

    def classes(self, shape: Shape) -> Mapping[str, float]:
        """The time of a step in ps by class of kernel and collective, in the shares that tables of each class have.
        Raises InseparableError with a draft."""
        if self._steps.draft is not None:
            raise InseparableError("a step with a draft is several passes")
        if not self._classes:
            times = self._times[0]
            names = {class_of(node.step) for probe in PROBES for node in nodes_of(times.replica, probe, times.forms)}
            only = [replace(times, only=name) for name in sorted(names)]
            self._classes = {each.only: (each, Tables(each)) for each in only}
        found = {name: self._class(*each, shape) for name, each in self._classes.items()}
        scale = self.of(shape) / max(1, sum(found.values()))
        return {name: time * scale for name, time in found.items()}

    def _class(self, times: Times, tables: Tables, shape: Shape) -> int:
        try:
            return tables.of(shape)
        except InseparableError:
            return int(times.of_passes([packed_of(shape)], shape.shared)[0])

    def _no_padding(self, padding: int) -> None:
        if padding:
            raise InseparableError("padding of speculation is sequences with several tokens")

    def _guesses(self, shape: Shape) -> Iterator[tuple[Tables, Shape]]:
        """The passes of the draft, each with its tables."""
        steps, count = self._steps, shape.count
        assert steps.draft is not None
        for guess in range(steps.guesses if count else 1):
            each = guessing(1, 0, guess, steps.guesses, module=steps.draft.module)
            if each.new not in self._drafts:
                self._drafts[each.new] = Tables(self._times[1], each.new)
            yield self._drafts[each.new], Shape(count, shape.context + each.past * count,
                                                () if guess else shape.prompts)


def times_of(design: Design, replica: Replica, start: int, buckets: Buckets, known: Known, draft: Replica | None = None,
             guesses: int = 0, *, pool: int = 0) -> Simulated | Summed:
    """The step times of a replica on ranks from `start` on: tables, or where nodes overlap, simulations, whose `how`
    says why. Replicas of one pool (whose first rank is `pool`) on like NPUs share tables, which `known` keeps."""
    key = ("tables", pool, *_place(design, start, replica.mesh.ranks))
    if key not in known:
        steps = Simulated(design, replica, start, buckets, known, draft, guesses)
        try:
            known[key] = Summed(steps)
        except InseparableError as why:
            known[key] = f"simulated: {why}"
    found: Summed | str = known[key]
    if isinstance(found, Summed):
        return found
    return Simulated(design, replica, start, buckets, known, draft, guesses, how=found)


def exactly(times: StepTimes, shapes: Sequence[Shape]) -> I64:
    """Times in ps of some steps of a server [shapes], without tables where a step is a sum over its nodes."""
    if isinstance(times, Lockstep):
        return exactly(times.times, [busiest(each, times.ranks) for each in shapes])
    if isinstance(times, Summed):
        return times.exactly(shapes)
    return np.array([times.of(each) for each in shapes], np.int64)


def classes_of(times: StepTimes, shape: Shape) -> Mapping[str, float]:
    """The time of a step of a server in ps by class of kernel and collective; all of it is of class WHOLE if it is not
    a sum over nodes, or has a draft."""
    if isinstance(times, Lockstep):
        return classes_of(times.times, busiest(shape, times.ranks))
    if isinstance(times, Summed):
        with contextlib.suppress(InseparableError):
            return times.classes(shape)
    return {WHOLE: float(times.of(shape))}


def _place(design: Design, start: int, ranks: int) -> tuple[object, ...]:
    """What steps on some ranks depend on: their place relative to the first, and their types. Links of a fabric may
    differ."""
    npus = placement_of(design)[start:start + ranks].astype(np.int64)
    types = npu_types(design)[0][npus]
    if design.network.fabric is not None:
        return start, types.tobytes()
    places = np.stack(np.unravel_index(npus, [dim.npus for dim in design.network.flat], order="F"))
    return (places - places[:, :1]).tobytes(), types.tobytes()
