"""ASTRA-sim's collectives: how a payload is cut into chunks, which phases a chunk walks, which queues they take.

Nodes that run the same way share one CollectivePlan: (operation, bytes, involved dims, custom program, kind of group)
are interned per class of ranks, never node by node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from astrarium.arrays import I32, I64
from astrarium.astra_sim.custom_program import CustomCollective, custom_program
from astrarium.astra_sim.rules import ALL, AstraRules
from astrarium.collective.chunking import split
from astrarium.collective.groups import FLAT, group_shape
from astrarium.engine.plan import Algorithm, Chunk, CollectivePlan, CustomProgram, Kind, Phase, Pick, Program
from astrarium.errors import InputError, UnsupportedError
from astrarium.lower.distinct import distinct, distinct_rows
from astrarium.trace.work import TraceClass
from astrarium.vocab import CommOp

__all__ = ["CollectiveTable", "CustomCollective"]


KEYS = {CommOp.ALL_REDUCE: "all-reduce", CommOp.ALL_GATHER: "all-gather", CommOp.ALL_TO_ALL: "all-to-all",
        CommOp.REDUCE_SCATTER: "reduce-scatter"}
# Members of enums by names of this module: before Python 3.12 looking them up in their class is slow.
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER
ANY, FIRST_HALF, LAST_HALF = Pick.ANY, Pick.FIRST_HALF, Pick.LAST_HALF
COLLECTIVE = int(Kind.COLLECTIVE)   # numpy compares with plain integers four times as fast

_PLAIN = {"ring": Algorithm.RING, "halvingDoubling": Algorithm.HALVING_DOUBLING,
          "doubleBinaryTree": Algorithm.DOUBLE_BINARY_TREE}
_FAULTS = {Algorithm.HALVING_DOUBLING: "halvingDoubling never ends",
           Algorithm.DOUBLE_BINARY_TREE: "doubleBinaryTree crashes"}
MAX_CHUNKS = 1 << 20
DEFAULT_DIMS = 4  # without involved_dim ASTRA-sim assumes four dims; a fifth is not used
WORLD, FULL = 0, 1  # kinds of group; a smaller group has kind 2 + its number in the table of smaller ones


class Implementation(NamedTuple):
    """One entry of a `*-implementation` list."""

    algorithm: Algorithm
    window: int
    flat: bool  # "one…": all dims as a single one


class Level(NamedTuple):
    """What chunks walk over: all dims or one of them, a group or a slice of it. Fields as those of Phase."""

    dim: int
    algorithm: Algorithm
    n: int
    stride: int
    window: int
    local: bool = False


def implementation(path: str, name: str) -> Implementation:
    """Parse "ring", "direct", "direct4", "halvingDoubling", "doubleBinaryTree" and the "one…" forms."""
    flat = name.startswith("one")
    word = name[3:4].lower() + name[4:] if flat else name
    if word in _PLAIN and not (flat and word == "doubleBinaryTree"):
        return Implementation(_PLAIN[word], -1, flat)
    window = word[len("direct"):]
    if word.startswith("direct") and (not window or (window.isdecimal() and len(window) < 10 and int(window) > 0)):
        return Implementation(Algorithm.DIRECT, int(window) if window else -1, flat)
    raise InputError(path, repr(name), expected="ring, direct, direct<window>, halvingDoubling, doubleBinaryTree, "
                     "oneRing, oneDirect or oneHalvingDoubling")


class CollectiveTable:
    """The CollectivePlans of a run, made once each; `slots` gives the argument columns of a class."""

    def __init__(self, npus: int, sizes: tuple[int, ...], groups: Sequence[I32], splits: int, optimization: str | None,
                 implementations: Mapping[CommOp, tuple[str, ...]], custom: Mapping[CommOp, CustomCollective],
                 custom_nodes: Mapping[int, CustomCollective], where: str = "system.",
                 rules: AstraRules = ALL) -> None:
        if optimization not in (None, "baseline", "localBWAware"):
            raise InputError(f"{where}collective-optimization", repr(optimization), expected="baseline or localBWAware")
        self._where, self._known, self._rules = where, optimization is not None, rules
        self._npus, self._sizes, self._splits, self._lists = npus, sizes, splits, groups
        self._local_aware = optimization == "localBWAware"
        self._by_op = self._entries(implementations)
        for op, entries in self._by_op.items():
            if len(entries) > len(sizes):
                raise InputError(f"{where}{KEYS[op]}-implementation", f"{len(entries)} entries for {len(sizes)} dims",
                                 expected="at most one per dim")
        self._customs = [*custom.values(), *custom_nodes.values()]
        self._custom_of_op = {op: i for i, op in enumerate(custom)}
        self._custom_of_node = {node: len(custom) + i for i, node in enumerate(custom_nodes)}
        self._kinds = self._group_kinds(groups)
        self.groups = tuple(np.sort(g) if g.size == npus else g for g in groups)
        self._plans: list[CollectivePlan] = []
        self._index: dict[tuple[int, ...], int] = {}

    def _entries(self, implementations: Mapping[CommOp, tuple[str, ...]]) -> dict[CommOp, list[Implementation]]:
        """The parsed lists; most inputs name the same one or two algorithms for every operation."""
        known: dict[str, Implementation] = {}
        for op, names in implementations.items():
            for i, name in enumerate(names):
                if name not in known:
                    known[name] = implementation(f"{self._where}{KEYS[op]}-implementation[{i}]", name)
        return {op: [known[name] for name in names] for op, names in implementations.items()}

    def plans(self) -> tuple[CollectivePlan, ...]:
        """Everything interned so far, in order of index."""
        return tuple(self._plans)

    def slots(self, trace: TraceClass, program: Program, nodes: I64) -> tuple[I32, I32, I32]:
        """(slot_a, slot_b, slot_c), each broadcastable to [ranks, comm nodes]; `nodes`: the class's comm nodes."""
        places = (program.kind[nodes] == COLLECTIVE).nonzero()[0]
        if not places.size:
            return trace.slot_a, trace.slot_b, np.zeros(nodes.size, dtype=np.int32)
        if places.size == nodes.size:
            return self._numbers(trace, nodes, trace.slot_b), trace.slot_b, trace.priority[nodes]
        slot_a, slot_c = trace.slot_a.copy(), np.zeros(nodes.size, dtype=np.int32)
        slot_a[:, places] = self._numbers(trace, nodes[places], trace.slot_b[:, places])
        slot_c[places] = trace.priority[nodes[places]]
        return slot_a, trace.slot_b, slot_c

    def _numbers(self, trace: TraceClass, nodes: I64, group: I32) -> I32:
        """[ranks, or 1 where all ranks want the same; collectives] the plan's number of each. `group` [ranks, ...]."""
        keys, key_of = distinct_rows(self._node_keys(trace, nodes))
        wanted = key_of[None, :]
        if self._lists:
            wanted = wanted * (int(self._kinds.max()) + 1) + self._kinds[group + 1]
        _, first, number = distinct(wanted)
        plans = []
        for at in first.tolist():
            row, c = divmod(at, nodes.size)
            plans.append(self._intern_for(trace, nodes[c], row, keys[key_of[c]], int(group[row, c])))
        return np.array(plans, dtype=np.int32)[number].reshape(wanted.shape)

    def _node_keys(self, trace: TraceClass, nodes: I64) -> I64:
        """[nodes, 4]: operation, bytes, involved dims, number of the custom program or -1."""
        keys = np.empty((nodes.size, 4), dtype=np.int64)
        keys[:, 0], keys[:, 1], keys[:, 2] = trace.comm_type[nodes], trace.comm_size[nodes], trace.involved[nodes]
        keys[:, 3] = -1
        for op, number in self._custom_of_op.items():
            keys[keys[:, 0] == op, 3] = number
        for node, number in self._custom_of_node.items():
            keys[trace.node_id[nodes] == node, 3] = number
        return keys

    def _group_kinds(self, groups: Sequence[I32]) -> I64:
        """Kind of group g at index g + 1: groups of one size run alike, unless custom programs look at their order."""
        kinds = [WORLD]
        seen: dict[int, int] = {}
        for number, group in enumerate(groups):
            if group.size == self._npus and not self._customs:
                kinds.append(FULL)
            else:
                own = bool(self._customs) or not self._rules.flat_groups
                key = -1 - number if own else int(group.size)
                kinds.append(seen.setdefault(key, 2 + len(seen)))
        return np.array(kinds, dtype=np.int64)

    def _intern_for(self, trace: TraceClass, node: int, row: int, key: I64, group: int) -> int:
        """The plan's number; what cannot run names the node that wants it, too."""
        try:
            return self._intern(key, group)
        except InputError as error:
            user = trace.fault(node, f"{CommOp(int(key[0])).name} of {int(key[1])} bytes", row=row)
            raise type(error)(error.path, f"{error.message} ({user} wants it)", expected=error.expected) from error

    def _intern(self, key: I64, group: int) -> int:
        op, size, involved, custom = key.tolist()
        full = (op, size, involved, custom, int(self._kinds[group + 1]))
        number = self._index.get(full)
        if number is None:
            number = self._index[full] = len(self._plans)
            chunks, program = self._chunks(CommOp(op), size, involved, custom, group)
            self._plans.append(CollectivePlan(op, size, chunks, custom=program))
        return number

    def _chunks(self, op: CommOp, size: int, involved: int, custom: int,
                group: int) -> tuple[tuple[Chunk, ...], CustomProgram | None]:
        members = self._npus if group < 0 else int(self._lists[group].size)
        if custom >= 0:
            phase = Phase(0, op, Algorithm.CUSTOM, size, members, 1)
            return (Chunk(1, (phase,)),), self._custom_program(self._customs[custom], group)
        if op not in self._by_op:
            raise InputError(f"{self._where}{KEYS[op]}-implementation", "missing", expected="one algorithm per dim")
        if members < self._npus:
            levels, bits = self._group_levels(op, group, members), -1
        else:
            levels, bits = self._levels(op), -1
            if group < 0:
                bits = (1 << DEFAULT_DIMS) - 1 if involved < 0 else involved
        rows = self._cut(op, size, members)
        count = sum([count for count, _ in rows])
        if count > MAX_CHUNKS:
            raise UnsupportedError(f"{self._where}preferred-dataset-splits", f"cuts {size} bytes into {count} chunks",
                                   expected=f"at most {MAX_CHUNKS:,} chunks")
        walked = [(count, self._walk(op, chunk, levels, bits)) for count, chunk in rows]
        return tuple([Chunk(count, phases) for count, phases in walked if count and phases]), None

    def _cut(self, op: CommOp, size: int, members: int) -> Sequence[tuple[int, int]]:
        """(chunks, bytes of each): bytes / splits, at least one per NPU (all_gather: one byte); a rest is one more."""
        if self._splits <= 0:
            raise InputError(f"{self._where}preferred-dataset-splits", str(self._splits), expected="a number above 0")
        if not self._rules.full_chunks:
            return split(size, self._splits, granule=1 if op == ALL_GATHER else members)
        chunk = size // self._splits
        if op != ALL_GATHER and self._npus > chunk:
            return ((self._splits, self._npus),)
        chunk = max(chunk, 1)
        return ((-(-size // chunk), chunk),)

    def _group_levels(self, op: CommOp, group: int, members: int) -> list[Level]:
        """Levels of a group smaller than the system: one flat ring; or, without that rule, the slices of dims that it
        is made of, with their algorithms."""
        if self._rules.flat_groups:
            return [self._flat_group(op, members)]
        parts, entries = group_shape(self._lists[group], self._sizes), self._by_op[op]
        if any(part.dim == FLAT or part.dim >= len(entries) for part in parts) or any(each.flat for each in entries):
            return [self._flat_group(op, members)]
        return [Level(part.dim, entries[part.dim].algorithm, part.n, part.stride, entries[part.dim].window,
                      self._rules.group_delay) for part in parts]

    def _flat_group(self, op: CommOp, members: int) -> Level:
        """A group smaller than the system: one ring in list order, or the only algorithm of a one-entry list."""
        entries = self._by_op[op]
        entry = entries[0] if len(entries) == 1 else Implementation(Algorithm.RING, -1, False)
        if entry.algorithm == Algorithm.DOUBLE_BINARY_TREE:
            raise UnsupportedError(f"{self._where}{KEYS[op]}-implementation[0]",
                                   f"ASTRA-sim's doubleBinaryTree crashes in a group ({members} of {self._npus} ranks)",
                                   expected="ring, direct or halvingDoubling, or a native design")
        return Level(-1, entry.algorithm, members, 1, entry.window, self._rules.group_delay)

    def _levels(self, op: CommOp) -> list[Level]:
        """One template per logical dim of the whole system; fewer entries than dims leave the outer dims unused."""
        levels = []
        stride = 1
        for dim, entry in enumerate(self._by_op[op]):
            if entry.flat:
                levels.append(Level(dim, entry.algorithm, self._npus, 1, entry.window))
                break
            levels.append(Level(dim, entry.algorithm, self._sizes[dim], stride, entry.window))
            stride *= self._sizes[dim]
        return levels

    def _walk(self, op: CommOp, size: int, levels: Sequence[Level], involved: int) -> tuple[Phase, ...]:
        """A chunk's phases: each used dim once; a localBWAware all_reduce reduces up the dims and gathers down."""
        used = [level for dim, level in enumerate(levels) if level.n > 1 and involved >> dim & 1]
        if op == ALL_REDUCE and len(used) > 1 and not self._known:
            raise InputError(f"{self._where}collective-optimization", f"missing, and all_reduce over {len(used)} dims "
                             "depends on it (ASTRA-sim reads uninitialised memory)",
                             expected="baseline or localBWAware")
        if op != ALL_REDUCE or not self._local_aware:
            plan = [(op, level, ANY) for level in (reversed(used) if op == ALL_GATHER else used)]
        else:
            plan = [(REDUCE_SCATTER, level, FIRST_HALF) for level in used[:-1]]
            plan += [(ALL_REDUCE, level, FIRST_HALF) for level in used[-1:]]
            plan += [(ALL_GATHER, level, LAST_HALF) for level in reversed(used[:-1])]
        phases = []
        for phase_op, level, pick in plan:
            if level.algorithm in _FAULTS:
                _refuse(f"{self._where}{KEYS[op]}-implementation", phase_op, level)
            phases.append(Phase(level.dim, phase_op, level.algorithm, size, level.n, level.stride, pick, level.window,
                                level.local))
            size = _after(phase_op, level, size)
            if size >= 1 << 62:
                raise UnsupportedError("comm_size", f"a chunk grows to {size} bytes", expected="below 2^62 bytes")
        return tuple(phases)

    def _custom_program(self, custom: CustomCollective, group: int) -> CustomProgram:
        if group >= 0:
            return custom_program(custom, self._lists[group], self.groups[group])
        everyone = np.arange(self._npus, dtype=np.int32)
        return custom_program(custom, everyone, everyone)


def _refuse(path: str, op: CommOp, level: Level) -> None:
    """What ASTRA-sim exits, hangs or crashes on, each with what it does instead of an answer."""
    if level.algorithm == Algorithm.HALVING_DOUBLING and op == CommOp.ALL_TO_ALL:
        raise UnsupportedError(path, "ASTRA-sim has no all-to-all by halvingDoubling", expected="ring or direct")
    if level.n & (level.n - 1):
        raise UnsupportedError(path, f"ASTRA-sim's {_FAULTS[level.algorithm]} on {level.n} participants",
                               expected="a power of two; ring or direct; or a native design, where it takes any number")


def _after(op: CommOp, level: Level, size: int) -> int:
    """Bytes of a chunk after a phase; the tree leaves them as they are."""
    if level.algorithm == Algorithm.DOUBLE_BINARY_TREE:
        return size
    if op == REDUCE_SCATTER:
        return size // level.n
    return size * level.n if op == ALL_GATHER else size
