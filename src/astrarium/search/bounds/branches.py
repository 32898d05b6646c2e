"""Branches of a space: parts of it, each with one tree per objective for its lower bound.

A branch chooses the knobs on which the dependency graph depends: every knob of the space but shapes, bandwidths and
latencies of the dims, and `collective`, which stay free as names in the tree. For a single collective the whole space
is one branch.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field

from astrarium.collective.groups import SubDim
from astrarium.config import replace_all
from astrarium.design import Design
from astrarium.engine.plan import Plan
from astrarium.errors import InputError, UnsupportedError
from astrarium.lower import lower
from astrarium.lower.placement import generated
from astrarium.lower.plugins import OWN, plugins_of
from astrarium.lower.work import rank_count
from astrarium.search.bounds.archive import Archive
from astrarium.search.bounds.collectives import CollectiveBounds
from astrarium.search.bounds.columns import dive, narrowed, vector
from astrarium.search.bounds.graph import Key, WorkGraph, bounds_of, graph_of, tree_of, without_collectives
from astrarium.search.bounds.objective import NATIVE, SAFE, bounded_dims, collective_makespan, objective_bound
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

__all__ = ["Branch", "OneBranch", "WorkBranches", "branches_of"]

BRANCHES = 1 << 17
FREE = re.compile(r"network\.dims\[(\d+|\*)\]\.(shape|bandwidth|bandwidth_per_npu|latency)|"
                  r"collective\.(?!custom|choice)[a-z_]+(\[(\d+|\*)\])?")
SIZE = re.compile(r"network\.dims\[(\d+|\*)\]\.npus")
PLAIN = {"collective.choice": "none", "collective.chunks": 1, "collective.composition": "baseline",
         "collective.active_chunks": None,
         **{f"collective.{op}": () for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast",
                                              "reduce", "gather", "scatter", "barrier")}}


class Branch(Struct, frozen=True):
    """Axes that are chosen (axis -> index of its value), and the lower bounds over the others: `trees`, one per
    objective, and `quick`, a lower and simpler one of the first that is nowhere below `least`."""

    choice: Mapping[int, int]
    trees: tuple[Node, ...]
    quick: Node
    least: float

    @property
    def tree(self) -> Node:
        """The lower bound of the first objective."""
        return self.trees[0]


class OneBranch(Struct, frozen=True):
    """The whole space as one branch."""

    judge: Judge
    trees: tuple[Node, ...]
    parts: tuple[Component, ...] = ()

    def open(self, _archive: Archive) -> Iterator[Branch]:
        """Yield the branch."""
        yield Branch({}, self.trees, self.trees[0], bounds(self.trees[0], self.judge.ranges())[0])


def branches_of(judge: Judge, floor: str | None) -> OneBranch | WorkBranches:
    """The branches of a search. `floor`: a lower bound of the makespan in ns, an expression for which the caller
    vouches (None: the built-in one). Raises InputError and UnsupportedError if there is no lower bound."""
    design = judge.space.base
    knobs = {path for axis in judge.space.axes for path in axis.paths}
    if floor is None and not any(callable(tree) or "makespan" in names_in(tree) for tree in judge.objectives):
        return OneBranch(judge, _every_bound(judge, lambda *_: Const(0.0)))     # of designs alone: no graph
    if floor is None and design is not None and (design.collective.model != "simulated" or "collective.model" in knobs):
        raise UnsupportedError("collective.model", "collectives whose time is measured have no lower bound",
                               expected="simulated")
    if floor is None and design is not None and (design.collective.kernels is not None
                                                 or any(path.startswith("collective.kernels") for path in knobs)):
        raise UnsupportedError("collective.kernels", "GPU kernels have no lower bound", expected="none")
    if floor is not None or design is None or isinstance(design.workload, SingleCollective):
        text = collective_makespan if floor is None else lambda *_: floor
        return OneBranch(judge, _every_bound(judge, lambda design, judge: judge.scope.node(
            text(design, judge), "lower bound of makespan")))
    return WorkBranches(judge)


def _every_bound(judge: Judge, makespan: Callable[[Design, Judge], Node]) -> tuple[Node, ...]:
    """The lower bound of each objective."""
    return tuple([objective_bound(judge, makespan, place) for place in range(len(judge.objectives))])


class WorkBranches(Struct):
    """The branches of a workload of nodes. `parts`: the components of which a branch chooses a combination."""

    judge: Judge
    parts: tuple[Component, ...] = ()
    _alone: dict[tuple[int, ...], tuple[Node, ...]] = field(default_factory=dict)     # without collectives; (): refused
    _low: dict[tuple[int, ...], dict[str, Any]] = field(default_factory=dict)   # values of free knobs with a low bound
    _trees: dict[tuple[int, ...], tuple[Node, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        space, base = self.judge.space, self.judge.space.base
        assert base is not None
        bounded_dims(base, self.judge)      # these refuse what has no lower bound before the first trial
        _refuse(base)
        _every_bound(self.judge, lambda *_: Const(0.0))
        chosen = {place for place, axis in enumerate(space.axes) if not all(map(FREE.fullmatch, axis.paths))}
        place_of = {axis.name: place for place, axis in enumerate(space.axes)}
        for path in space.scope.derived:
            if not FREE.fullmatch(path):
                chosen |= {place_of[name] for name in names_in(space.scope.meaning(path)[0])}
        self.parts = tuple(part for part in space.components if chosen & set(part.places))
        if math.prod(part.diagram.count for part in self.parts) > BRANCHES:
            raise InputError("agent", "exact would look at "
                             f"{math.prod(part.diagram.count for part in self.parts)} dependency graphs",
                             expected=f"at most {BRANCHES} combinations of knobs of workload, compute, memory, sizes")

    def open(self, archive: Archive) -> Iterator[Branch]:
        """Yield the branches that the values of an archive do not beat, by ascending bound of the first objective."""
        found, ranges = [], self.judge.ranges()
        for numbers in itertools.product(*(range(part.diagram.count) for part in self.parts)):
            choice = {place: index for part, number in zip(self.parts, numbers)
                      for place, index in zip(part.places, part.diagram.choice(number))}
            if quick := self._without(choice):
                leasts = [bounds(*narrowed(self._values(choice), tree, ranges))[0] for tree in quick]
                if not archive.beaten([least * SAFE for least in leasts]):
                    found.append((leasts[0], numbers, choice, quick[0]))
        for least, numbers, choice, first in sorted(found, key=lambda each: each[:2]):
            if numbers not in self._trees:
                self._trees[numbers] = self._tree(choice)
            yield Branch(choice, self._trees[numbers], self._chosen(first, choice), least)

    def _without(self, choice: Mapping[int, int]) -> tuple[Node, ...]:
        """The lower bounds of the objectives if collectives took no time; equal for all sizes of dims. Empty: refused.
        """
        key = self._key(choice)
        if key not in self._alone:
            plan = self._plan(self._design(choice))
            self._alone[key] = ()
            if plan is not None:
                least = Const(without_collectives(graph_of(plan, ordered=False)))
                self._alone[key] = _every_bound(self.judge, lambda *_: least)
        return self._alone[key]

    def _values(self, choice: Mapping[int, int]) -> dict[str, Any]:
        """Axis name -> value that the branch chooses."""
        return {self.judge.space.axes[place].name: _value(self.judge.space, place, index)
                for place, index in choice.items()}

    def _chosen(self, tree: Node, choice: Mapping[int, int]) -> Node:
        """A tree with the values that the branch chooses put in."""
        return put_all(tree, {name: Const(value) for name, value in self._values(choice).items()})

    def _key(self, choice: Mapping[int, int]) -> tuple[int, ...]:
        """The branch's choices but the sizes of dims."""
        axes = self.judge.space.axes
        return tuple(index for place, index in choice.items() if not SIZE.fullmatch(axes[place].name))

    def _tree(self, choice: Mapping[int, int]) -> tuple[Node, ...]:
        """The lower bounds over the free knobs: the largest of those that are high where collectives are fast, and of
        those that are high where the former are low."""
        design = self._design(choice)
        plan = self._plan(design)
        assert design is not None
        assert plan is not None
        rates = plan.reduce_bandwidth if plan.reduce_bandwidth.size else [plan.policy.reduce_bandwidth]
        groups = [plan.npu_of, *(plan.npu_of[group] for group in plan.groups)]
        ascending = all(bool((np.diff(group) > 0).all()) for group in groups)
        collectives = CollectiveBounds(self.judge, design, 0.0 if min(rates) == 0 else float(max(rates)) / 1e9,
                                       ascending)
        graph, ranges = graph_of(plan), self.judge.ranges()
        least = {key: _cheapest([_of(collectives.least, plan, index) for index in key]) for key in _keys(graph)}
        own = {key: _cheapest([_of(collectives.own, plan, index) for index in key]) for key in _keys(graph)}
        found = bounds_of(graph, {key: bounds(tree, ranges)[0] for key, tree in least.items()},
                          {key: bounds(tree, ranges)[0] for key, tree in own.items()})
        known = self._key(choice)
        if known not in self._low:
            makespan = tree_of(found, least, own)
            self._low[known] = self._low_values(self._chosen(objective_bound(self.judge, lambda *_: makespan), choice))
        at = self._low[known] | self._values(choice)
        found += bounds_of(graph, {key: float(vector(tree, at)) for key, tree in least.items()},
                           {key: float(vector(tree, at)) for key, tree in own.items()})
        highest = tree_of(found, least, own)
        return tuple([self._chosen(tree, choice) for tree in _every_bound(self.judge, lambda *_: highest)])

    def _low_values(self, tree: Node) -> dict[str, Any]:
        """Values of the free knobs for which a bound is low."""
        space = self.judge.space
        rest = [part for part in space.components if part not in self.parts]
        return {space.axes[place].name: _value(space, place, index)
                for place, index in dive(space, tree, rest).items()}

    def _design(self, choice: Mapping[int, int]) -> Design | None:
        """A design of a branch, with plain collectives; None where the configuration refuses its workload."""
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
    """Raise UnsupportedError for a design that has no known lower bound."""
    network, choice, kind = design.network.backend, design.collective.choice, design.workload.tag
    native = NATIVE[design.compat]
    if not native or network not in ("closed_form", "contention"):
        raise UnsupportedError("network.backend", "the makespan has a lower bound in the native rule book only, on "
                               "closed_form and contention", expected="one of these, and compat: none")
    if choice not in OWN["choice"]:
        raise UnsupportedError("collective.choice", f"what {choice} picks has no lower bound", expected="none, auto")
    if kind not in GENERATORS and not isinstance(design.workload, Trace):
        raise UnsupportedError("workload.source", f"{kind!r}, whose work is made as it runs, has no lower bound",
                               expected="one of " + ", ".join(("trace", *GENERATORS)))


def _keys(graph: WorkGraph) -> list[Key]:
    return list(dict.fromkeys(key for key in graph.key if key is not None))


def _of(bound: Callable[..., Node], plan: Plan, index: int) -> Node:
    """The bound of a collective of a plan."""
    made = plan.collectives[index]
    phases = made.chunks[0].phases if made.custom is None else ()
    parts = sorted((phase.dim, phase.stride, phase.n) for phase in phases if phase.n > 1)
    return bound(CommOp(made.op), made.size, tuple(SubDim(dim, n, stride) for dim, stride, n in parts))


def _cheapest(trees: Sequence[Node]) -> Node:
    return make("min", trees)


def _value(space: Space, place: int, index: int) -> Any:
    axis = space.axes[place]
    return plain(axis.otherwise if index == -1 else axis.values[index])
