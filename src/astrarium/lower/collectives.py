"""Collectives natively: shapes of groups, one CollectivePlan per (shape, operation, bytes), arguments of every node."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from astrarium.arrays import I32, I64
from astrarium.collective.algorithms import Options, canonical_op, has_op
from astrarium.collective.algorithms.algorithm import Reach
from astrarium.collective.compose import Composition
from astrarium.collective.config import (
    Custom,
    active_chunks_of,
    algorithms_of,
    chunks_of,
    composition_of,
    parse_algorithm,
)
from astrarium.collective.groups import SubDim, group_shape, world_shape
from astrarium.collective.lower import plan_collective
from astrarium.collective.settings import Link, Settings
from astrarium.design import Design
from astrarium.engine.plan import CollectivePlan, Dim, Kind, Program, Shape
from astrarium.errors import InternalError
from astrarium.lower.choice import free_of, made_choice, reaches_of
from astrarium.lower.distinct import distinct_rows
from astrarium.lower.in_switch import abilities, along_trees, each_its_own
from astrarium.lower.kernel_times import KernelTimer, kernels_of
from astrarium.lower.node_tables import COMM_TYPE
from astrarium.lower.plugins import chosen_algorithms
from astrarium.lower.timed import Timed, timer_of
from astrarium.trace.work import TraceClass
from astrarium.vocab import CommOp

if TYPE_CHECKING:
    from astrarium.engine.plugins import CollectiveChoice
    from astrarium.lower.custom import CustomSource
    from astrarium.lower.kept import Kept

__all__ = ["CollectiveTable", "by_size", "first_alike", "shapes_of"]

GroupShape = tuple[SubDim, ...]
Kinds = tuple[I64, list[tuple[int, GroupShape]]]
Key = tuple[int, int, int]
BySize = list[tuple[I64, I32]]
FEW_KINDS = 8       # of groups of one size, beyond which they are looked up one by one
DENSE = 1 << 22     # entries of a look-up table, beyond which pairs are sorted instead
NO_CUSTOM = Custom()


def by_size(groups: Sequence[I32]) -> BySize:
    """(which groups, their members [groups, members]) for every size of groups."""
    counts = np.array(list(map(len, groups)), np.int64)
    alike = [(count, np.flatnonzero(counts == count)) for count in np.flatnonzero(np.bincount(counts)).tolist()]
    return [(same, np.concatenate([groups[g] for g in same.tolist()]).reshape(same.size, count))
            for count, same in alike]


def shapes_of(groups: Sequence[I32], names: Sequence[str], npu_of: I32, sizes: Sequence[int],
              tables: BySize | None = None) -> tuple[I64, list[tuple[int, GroupShape]]]:
    """(kind of group g at index g + 1, all ranks at 0; (members, shape) of every kind).

    Shapes are those of NPU numbers, not of ranks. Groups whose members lie alike relative to the first are one kind,
    analysed once. Groups of one size are compared together; `tables`: what `by_size` says of the groups.
    """
    if len(names) != len(groups):
        raise InternalError(f"{len(groups)} groups with {len(names)} names")
    like = np.arange(len(groups), dtype=np.int64)       # the first group of the same kind
    for same, members in by_size(groups) if tables is None else tables:
        like[same] = same[first_alike(npu_of[members], sizes)]
    first, kind = np.unique(like, return_inverse=True)
    shapes = [(npu_of.size, _world(npu_of, sizes))]
    shapes += [(groups[g].size, group_shape(npu_of[groups[g]], sizes, path=f"group {names[g]}"))
               for g in first.tolist()]
    return np.concatenate([np.zeros(1, np.int64), kind.reshape(-1) + 1]), shapes


def first_alike(npus: I32, sizes: Sequence[int]) -> I64:
    """[groups] the first row of `npus` [groups, members] whose members lie alike relative to their first."""
    rows = np.empty((len(sizes), *npus.shape), np.int32)
    rest = npus
    for dim, size in enumerate(sizes):
        rest, place = np.divmod(rest, size)
        rows[dim] = place - place[:, :1]
    first, left = np.zeros(len(npus), np.int64), np.arange(len(npus))
    for _ in range(FEW_KINDS):
        if not left.size:
            return first
        alike = (rows[:, left] == rows[:, left[:1]]).all(axis=(0, 2))
        first[left[alike]] = left[0]
        left = left[~alike]
    seen: dict[bytes, int] = {}
    for group in left.tolist():
        first[group] = seen.setdefault(rows[:, group].tobytes(), group)
    return first


def _world(npu_of: I32, sizes: Sequence[int]) -> GroupShape:
    total = int(np.prod(np.array(sizes, np.int64)))
    if npu_of.size == total and bool((npu_of == np.arange(total, dtype=np.int32)).all()):
        return world_shape(sizes)
    return group_shape(npu_of, sizes, path="system.placement")


def _custom(design: Design) -> dict[CommOp, CustomSource]:
    if design.collective.custom == NO_CUSTOM:
        return {}
    from astrarium.lower.custom import custom_sources

    return custom_sources(design)


def slot_nodes(trace: TraceClass, program: Program) -> tuple[I64, I64]:
    """(a node of every slot of the program, the trace's slot of that node); a node that is replayed has no slot."""
    comm = np.flatnonzero(COMM_TYPE[trace.type])
    of_trace = np.arange(comm.size, dtype=np.int64) if trace.slot is None else trace.slot.astype(np.int64)
    slot = program.slot[comm]
    kept = np.flatnonzero(slot >= 0)
    place = np.zeros(int(slot.max(initial=-1)) + 1, np.int64)
    place[slot[kept]] = kept
    return comm[place], of_trace[place]


class CollectiveTable:
    """The CollectivePlans of a design, made once each; `slots` gives the argument columns of a class."""

    def __init__(self, design: Design, dims: Sequence[Dim], npu_of: I32, groups: Sequence[I32],
                 names: Sequence[str], choice: CollectiveChoice | None, kept: Kept,
                 kinds: Kinds | None = None) -> None:
        self._design, self._dims = design, tuple(dims)
        self._said = self._of_design if choice is None else partial(self._of_plugin, choice)
        self._npu_of, self._groups = npu_of, groups
        self._kinds, self._shapes = kinds or shapes_of(groups, names, npu_of, [dim.npus for dim in dims])
        flat, said = design.network.flat, design.collective
        balanced = said.composition == "themis" or (said.composition is None and said.choice == "auto")
        self._links = tuple([Link(float(dim.npu_bandwidth * dim.efficiency),
                                  plan.latency * (2 if plan.shape == Shape.SWITCH else 1))
                             for dim, plan in zip(flat, dims, strict=True)]) if balanced else ()
        self._in_switch = abilities(flat, dims)
        self._trees = design.network.fabric is not None and bool(design.network.fabric.in_switch)
        if self._trees:
            self._kinds, self._shapes = each_its_own((self._kinds, self._shapes))
        self._tags = tuple([dim.tag for dim in flat])
        rest = (self._dims, design.memory.bandwidth) if said.choice == "auto" else ()
        self._settings: dict[CommOp, Settings] = kept.collectives.get(
            ("settings", said, self._tags, self._links, self._in_switch, rest), dict)
        self._custom = _custom(design)
        self._kernels: KernelTimer | None = kernels_of(design, kept.collectives)
        self._timed: Timed | None = timer_of(design)
        self._kept = kept
        self._reaches: dict[int, dict[int, Reach]] = {}     # per kind of group that chooses
        self._index: dict[Key, int] = {}
        self._plans: list[CollectivePlan] = []

    def plans(self) -> tuple[CollectivePlan, ...]:
        """Everything interned so far, in order of index."""
        return tuple(self._plans)

    def keys(self) -> tuple[Key, ...]:
        """(operation, bytes, kind of group) of each."""
        return tuple(self._index)

    def referred(self, keys: Sequence[Key]) -> tuple[CollectivePlan, ...]:
        """The plans of what another table had, in its order."""
        for op, size, kind in keys:
            self._intern(op, size, kind)
        return self.plans()

    def settings(self, keys: Sequence[Key]) -> tuple[Settings, ...] | None:
        """What plans of collectives depend on beside operation, bytes and kind of group, per operation among them; None
        where that is not all."""
        if self._custom or self._timed is not None or self._kernels is not None or self._trees:
            return None
        return tuple([self._settings_of(CommOp(op)) for op in dict.fromkeys([op for op, _, _ in keys])])

    def number(self, op: CommOp, size: int, group: int) -> int:
        """The plan number of one collective of a group (-1: all ranks)."""
        return self._intern(int(op), size, int(self._kinds[group + 1]))

    def slots(self, trace: TraceClass, program: Program) -> tuple[I32, I32, I32]:
        """(slot_a, slot_b, slot_c), each broadcastable to [ranks, slots of the program]."""
        nodes, chosen = slot_nodes(trace, program)
        slot_a, slot_b = trace.slot_a[:, chosen], trace.slot_b[:, chosen]
        slot_c = np.zeros(nodes.size, np.int32)
        places = np.flatnonzero(program.kind[nodes] == Kind.COLLECTIVE)
        if places.size and trace.ranks.size:
            collective = nodes[places]
            slot_a[:, places] = self._numbers(trace, collective, self._kinds[slot_b[:, places] + 1])
            slot_c[places] = trace.priority[collective]
        return slot_a, slot_b, slot_c

    def _numbers(self, trace: TraceClass, nodes: I64, kinds: I64) -> I32:
        """Plan numbers of collective `nodes` [ranks, nodes], given the kind of group of each."""
        keys, key_of = distinct_rows(np.stack([trace.comm_type[nodes], trace.comm_size[nodes]], axis=1))
        width = int(kinds.max()) + 1
        pairs = key_of[None, :] * width + kinds
        if len(keys) * width <= DENSE:
            table = np.zeros(len(keys) * width, np.int32)
            table[pairs.ravel()] = 1
            found = np.flatnonzero(table)
            table[found] = self._interned(keys, width, found)
            return np.asarray(table[pairs])
        found, place = np.unique(pairs, return_inverse=True)
        return np.asarray(np.array(self._interned(keys, width, found), np.int32)[place.reshape(pairs.shape)])

    def _interned(self, keys: I64, width: int, pairs: I64) -> list[int]:
        """Plan numbers of (operation and bytes, kind of group) pairs."""
        return [self._intern(int(keys[pair // width, 0]), int(keys[pair // width, 1]), pair % width)
                for pair in pairs.tolist()]

    def _intern(self, code: int, size: int, kind: int) -> int:
        op = canonical_op(CommOp(code))
        key = (int(op), size, kind)
        if key not in self._index:
            self._index[key] = len(self._plans)
            self._plans.append(self._plan(op, size, kind))
        return self._index[key]

    def _plan(self, op: CommOp, size: int, kind: int) -> CollectivePlan:
        members, shape = self._shapes[kind]
        if op in self._custom:
            return CollectivePlan(int(op), size, (), custom=self._custom[op].program(size, members),
                                  how=f"custom {os.path.basename(self._custom[op].path)}")
        if members > 1 and self._kernels is not None and (
                kernel := self._kernels.plan(op, size, shape, members)) is not None:
            return kernel
        if members > 1 and self._timed is not None:
            timed = self._timed(op, size, shape, self._members(kind))
            if timed is not None:
                return timed
        settings = self._said(op, size, kind)
        if self._trees:
            settings = replace(settings, in_switch=along_trees(self._design.network, self._in_switch, self._dims,
                                                               self._members(kind), shape))
        if settings.free is not None:
            if kind not in self._reaches:
                self._reaches[kind] = reaches_of(shape, self._members(kind), self._dims)
            settings = made_choice(op, size, shape, self._reaches[kind], settings,
                                   self._kept.collectives)
        found: CollectivePlan = self._kept.collectives.get(
            ("plan", int(op), size, shape, settings.on(shape)),
            lambda: plan_collective(op, size, shape, settings, cache=self._kept.schedules))
        return found if self._kernels is None else self._kernels.with_phases(found, shape)

    def _members(self, kind: int) -> I32:
        """The NPUs of the first group of a kind, in its order."""
        place = int(np.flatnonzero(self._kinds == kind)[0])
        return self._npu_of[self._groups[place - 1]] if place else self._npu_of

    def _of_design(self, op: CommOp, size: int, kind: int) -> Settings:
        del size, kind      # a design says it per operation
        return self._settings_of(op)

    def _of_plugin(self, choice: CollectiveChoice, op: CommOp, size: int, kind: int) -> Settings:
        settings = self._settings_of(op)
        entries = chosen_algorithms(choice, op, size, self._members(kind).tolist(), self._dims)
        if not entries:
            return settings
        flat = entries[0] if len(set(entries)) == 1 else settings.flat_algorithm
        scatters, gathers = self._steps(op, entries)
        return replace(settings, algorithms=entries, flat_algorithm=flat, scatters=scatters, gathers=gathers, free=None)

    def _settings_of(self, op: CommOp) -> Settings:
        if op not in self._settings:
            chosen, name = self._design.collective, op.name.lower()
            entries: tuple[str, ...] = tuple(getattr(chosen, name))
            composition, algorithms = Composition(composition_of(chosen)), algorithms_of(chosen, name, self._tags)
            scatters, gathers = self._steps(op, algorithms)
            self._settings[op] = Settings(
                algorithms=algorithms, composition=composition, chunks=chunks_of(chosen),
                active_chunks=active_chunks_of(chosen),
                flat_algorithm=entries[0] if len(entries) == 1 else "ring", options=Options(chosen.pipeline),
                links=self._links,
                endpoint_delay=float(chosen.endpoint_delay), scatters=scatters, gathers=gathers,
                free=free_of(self._design, op, self._dims, self._in_switch), in_switch=self._in_switch)
        return self._settings[op]

    def _steps(self, op: CommOp, algorithms: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(those of reduce_scatter, of all_gather) of an all_reduce that is composed of other operations; none: its
        own. A dim whose algorithm has no such operation, as a tree has none, takes what the design has for that."""
        if op != CommOp.ALL_REDUCE or self._design.collective.composition == "baseline":
            return (), ()
        return self._able(CommOp.REDUCE_SCATTER, algorithms), self._able(CommOp.ALL_GATHER, algorithms)

    def _able(self, op: CommOp, algorithms: Sequence[str]) -> tuple[str, ...]:
        able = [has_op(parse_algorithm(entry)[0], op) for entry in algorithms]
        if all(able):
            return ()
        own = algorithms_of(self._design.collective, op.name.lower(), self._tags)
        return tuple([entry if fits else other for entry, fits, other in zip(algorithms, able, own, strict=True)])
