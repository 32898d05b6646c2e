"""A space in parts that each have one floor: *heads*, choices of the knobs on which the dependency graph depends.

A single collective has one head, the whole space. Of any other workload a head chooses every knob of the space but
those of which floors are trees: shapes, bandwidths and latencies of the dims, and `collective`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field

from astrarium.collective.groups import SubDim
from astrarium.config import replace_all
from astrarium.design import Design
from astrarium.engine.plan import Plan
from astrarium.errors import InputError, UnsupportedError
from astrarium.lower import lower
from astrarium.lower.native_plugins import OWN, plugins_of
from astrarium.lower.native_work import rank_count
from astrarium.lower.placement import generated
from astrarium.search.bounds.collectives import CollectiveFloors
from astrarium.search.bounds.columns import dive, narrowed, vector
from astrarium.search.bounds.graph import Key, WorkGraph, bounds_of, graph_of, tree_of, without_collectives
from astrarium.search.bounds.objective import NATIVE, SAFE, collective_makespan, floor_dims, objective_floor
from astrarium.search.choice import plain
from astrarium.search.constraints import Component
from astrarium.search.evaluate import Judge
from astrarium.search.expression import Const, Node, bounds, make, names_in, put_all
from astrarium.search.space import Space
from astrarium.trace.read import read_traces
from astrarium.vocab import CommOp
from astrarium.workload.config import Trace
from astrarium.workload.generate import GENERATORS
from astrarium.workload.single import SingleCollective

__all__ = ["Head", "OneHead", "WorkHeads", "heads_of"]

HEADS = 1 << 17
FREE = re.compile(r"network\.dims\[(\d+|\*)\]\.(shape|bandwidth|bandwidth_per_npu|latency)|"
                  r"collective\.(?!custom|choice)[a-z_]+(\[(\d+|\*)\])?")
SIZE = re.compile(r"network\.dims\[(\d+|\*)\]\.npus")
PLAIN = {"collective.choice": "none", "collective.chunks": 1, "collective.composition": "baseline",
         "collective.active_chunks": None,
         **{f"collective.{op}": () for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast",
                                              "reduce", "gather", "scatter", "barrier")}}


class Head(Struct, frozen=True):
    """Axes that are chosen (axis -> index of its value), and the floor of the objective over the others. `quick`: one
    that is lower and simpler, nowhere below `least`."""

    choice: Mapping[int, int]
    tree: Node
    quick: Node
    least: float


class OneHead(Struct, frozen=True):
    """The whole space."""

    judge: Judge
    tree: Node
    parts: tuple[Component, ...] = ()

    def open(self, _best: float) -> Iterator[Head]:
        """The one head."""
        yield Head({}, self.tree, self.tree, bounds(self.tree, self.judge.ranges())[0])


def heads_of(judge: Judge, floor: str | None) -> OneHead | WorkHeads:
    """The heads of a search. `floor`: the makespan's, an expression that the caller vouches for. Raises InputError and
    UnsupportedError where there is no floor."""
    design = judge.space.base
    knobs = {path for axis in judge.space.axes for path in axis.paths}
    if floor is None and design is not None and (design.collective.model != "simulated" or "collective.model" in knobs):
        raise UnsupportedError("collective.model", "there is no floor of collectives whose time is measured",
                               expected="simulated")
    if floor is None and design is not None and (design.collective.kernels is not None
                                                 or any(path.startswith("collective.kernels") for path in knobs)):
        raise UnsupportedError("collective.kernels", "there is no floor of GPU kernels", expected="none")
    if floor is not None or design is None or isinstance(design.workload, SingleCollective):
        text = collective_makespan if floor is None else lambda *_: floor
        return OneHead(judge, objective_floor(judge, lambda design, judge: judge.scope.node(
            text(design, judge), "floor of makespan")))
    return WorkHeads(judge)


class WorkHeads(Struct):
    """The heads of a workload of nodes. `parts`: the components that a head chooses."""

    judge: Judge
    parts: tuple[Component, ...] = ()
    _alone: dict[tuple[int, ...], Node | None] = field(default_factory=dict)    # without collectives; None: refused
    _low: dict[tuple[int, ...], dict[str, Any]] = field(default_factory=dict)   # values of free knobs with a low floor
    _trees: dict[tuple[int, ...], Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        space, base = self.judge.space, self.judge.space.base
        assert base is not None
        floor_dims(base, self.judge)      # these refuse what has no floor before the first trial
        _refuse(base)
        objective_floor(self.judge, lambda *_: Const(0.0))
        chosen = {place for place, axis in enumerate(space.axes) if not all(map(FREE.fullmatch, axis.paths))}
        place_of = {axis.name: place for place, axis in enumerate(space.axes)}
        for path in space.scope.derived:
            if not FREE.fullmatch(path):
                chosen |= {place_of[name] for name in names_in(space.scope.meaning(path)[0])}
        self.parts = tuple(part for part in space.components if chosen & set(part.places))
        if math.prod(part.diagram.count for part in self.parts) > HEADS:
            raise InputError("agent", "exact would look at "
                             f"{math.prod(part.diagram.count for part in self.parts)} dependency graphs",
                             expected=f"at most {HEADS} combinations of knobs of workload, compute, memory and sizes")

    def open(self, best: float) -> Iterator[Head]:
        """Heads with a floor below `best`, those with the least floors first."""
        found, ranges = [], self.judge.ranges()
        for numbers in itertools.product(*(range(part.diagram.count) for part in self.parts)):
            choice = {place: index for part, number in zip(self.parts, numbers)
                      for place, index in zip(part.places, part.diagram.choice(number))}
            quick = self._without(choice)
            if quick is not None:
                floor = bounds(*narrowed(self._values(choice), quick, ranges))[0]
                if floor * SAFE < best:
                    found.append((floor, numbers, choice, quick))
        for floor, numbers, choice, quick in sorted(found, key=lambda each: each[:2]):
            if numbers not in self._trees:
                self._trees[numbers] = self._floor(choice)
            yield Head(choice, self._trees[numbers], self._chosen(quick, choice), floor)

    def _without(self, choice: Mapping[int, int]) -> Node | None:
        """The floor of the objective if collectives took no time; the same for all sizes of dims."""
        key = self._key(choice)
        if key not in self._alone:
            plan = self._plan(self._design(choice))
            self._alone[key] = None
            if plan is not None:
                least = Const(without_collectives(graph_of(plan, ordered=False)))
                self._alone[key] = objective_floor(self.judge, lambda *_: least)
        return self._alone[key]

    def _values(self, choice: Mapping[int, int]) -> dict[str, Any]:
        """What a head chooses, by name."""
        return {self.judge.space.axes[place].name: _value(self.judge.space, place, index)
                for place, index in choice.items()}

    def _chosen(self, tree: Node, choice: Mapping[int, int]) -> Node:
        """A tree with what a head chooses put in."""
        return put_all(tree, {name: Const(value) for name, value in self._values(choice).items()})

    def _key(self, choice: Mapping[int, int]) -> tuple[int, ...]:
        """What a head chooses but the sizes of dims."""
        axes = self.judge.space.axes
        return tuple(index for place, index in choice.items() if not SIZE.fullmatch(axes[place].name))

    def _floor(self, choice: Mapping[int, int]) -> Node:
        """The floor over the free knobs: bounds that are high where collectives are quick, and where this is low."""
        design = self._design(choice)
        plan = self._plan(design)
        assert design is not None
        assert plan is not None
        rates = plan.reduce_bandwidth if plan.reduce_bandwidth.size else [plan.policy.reduce_bandwidth]
        groups = [plan.npu_of, *(plan.npu_of[group] for group in plan.groups)]
        ascending = all(bool((np.diff(group) > 0).all()) for group in groups)
        floors = CollectiveFloors(self.judge, design, 0.0 if min(rates) == 0 else float(max(rates)) / 1e9, ascending)
        graph, ranges = graph_of(plan), self.judge.ranges()
        least = {key: _cheapest([_of(floors.least, plan, index) for index in key]) for key in _keys(graph)}
        own = {key: _cheapest([_of(floors.own, plan, index) for index in key]) for key in _keys(graph)}
        found = bounds_of(graph, {key: bounds(tree, ranges)[0] for key, tree in least.items()},
                          {key: bounds(tree, ranges)[0] for key, tree in own.items()})
        known = self._key(choice)
        if known not in self._low:
            makespan = tree_of(found, least, own)
            self._low[known] = self._low_values(self._chosen(objective_floor(self.judge, lambda *_: makespan), choice))
        at = self._low[known]
        found += bounds_of(graph, {key: float(vector(tree, at)) for key, tree in least.items()},
                           {key: float(vector(tree, at)) for key, tree in own.items()})
        highest = tree_of(found, least, own)
        return self._chosen(objective_floor(self.judge, lambda *_: highest), choice)

    def _low_values(self, tree: Node) -> dict[str, Any]:
        """Values of the free knobs where a floor is low."""
        space = self.judge.space
        rest = [part for part in space.components if part not in self.parts]
        return {space.axes[place].name: _value(space, place, index)
                for place, index in dive(space, tree, rest).items()}

    def _design(self, choice: Mapping[int, int]) -> Design | None:
        """A design of a head, with plain collectives; None where the configuration refuses its workload."""
        space = self.judge.space
        point: list[Any] = list(space.point(0))
        for place, index in choice.items():
            point[place] = index
        try:
            design = replace_all(space.design(tuple(point)), PLAIN)
        except InputError as error:
            if error.path.startswith(("workload", "memory.placement")):
                return None
            raise
        _refuse(design)
        return design

    def _plan(self, design: Design | None) -> Plan | None:
        """What the ranks run; None where the workload cannot be made."""
        if design is None:
            return None
        work = design.workload
        if isinstance(work, Trace):
            return lower(design, read_traces(work.path, rank_count(design)), plugins_of(design, None))
        try:
            made = generated(design)
        except InputError:
            return None
        return lower(design, made, plugins_of(design, None))


def _refuse(design: Design) -> None:
    """Raises UnsupportedError for a design of which no floor is known."""
    network, choice, kind = design.network.backend, design.collective.choice, design.workload.tag
    native = NATIVE[design.compat]
    if not native or network not in ("closed_form", "contention"):
        raise UnsupportedError("network.backend", "there is no floor of the makespan but in the native rule book, on "
                               "closed_form and contention", expected="one of these, and compat: none")
    if choice not in OWN["choice"]:
        raise UnsupportedError("collective.choice", f"there is no floor of what {choice} picks", expected="none, auto")
    if kind not in GENERATORS and not isinstance(design.workload, Trace):
        raise UnsupportedError("workload.source", f"there is no floor of {kind!r}, whose work is made as it runs",
                               expected="one of " + ", ".join(("trace", *GENERATORS)))


def _keys(graph: WorkGraph) -> list[Key]:
    return list(dict.fromkeys(key for key in graph.key if key is not None))


def _of(floor: Any, plan: Plan, index: int) -> Node:
    """The floor of a collective of a plan."""
    made = plan.collectives[index]
    phases = made.chunks[0].phases if made.custom is None else ()
    parts = sorted((phase.dim, phase.stride, phase.n) for phase in phases if phase.n > 1)
    found: Node = floor(CommOp(made.op), made.size, tuple(SubDim(dim, n, stride) for dim, stride, n in parts))
    return found


def _cheapest(trees: Sequence[Node]) -> Node:
    return make("min", trees)


def _value(space: Space, place: int, index: int) -> Any:
    axis = space.axes[place]
    return plain(axis.otherwise if index == -1 else axis.values[index])
