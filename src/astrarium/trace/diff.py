"""What differs between two traces: nodes that only one has, nodes whose values changed, totals by kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from astrarium.arrays import I64, U64
from astrarium.trace.columns import Columns, Traces, total
from astrarium.trace.graph import graph_of
from astrarium.trace.micros import in_ns
from astrarium.trace.node import trace_kind
from astrarium.vocab import CommOp, NodeKind

__all__ = ["Changed", "RankDiff", "TraceDiff", "diff_columns", "diff_traces"]

Item = TypeVar("Item")
ROUNDS = (3, 1, 0)      # how far around a node is looked at: first far, what is left then nearer
FIELDS = (("duration_us", "duration"), ("num_ops", "num_ops"), ("tensor_size", "tensor_size"),
          ("comm_type", "comm_type"), ("comm_size", "comm_size"), ("stream", "stream"),
          ("comm_priority", "comm_priority"))
MIX, ADD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)


class Changed(Struct, frozen=True):
    """A pair of nodes (ids in the first and the second trace) with fields that differ: name -> (before, after)."""

    before: int
    after: int
    name: str
    fields: dict[str, tuple[float, float]]


class Listed(Sequence[Item], Generic[Item]):
    """What `make` says of each number, made when it is asked for: large traces differ in millions of nodes."""

    def __init__(self, numbers: I64, make: Callable[[int], Item]) -> None:
        self._numbers, self._make = numbers, make

    def __len__(self) -> int:
        return self._numbers.size

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | Sequence[Item]:
        if isinstance(place, slice):
            return Listed(self._numbers[place], self._make)
        return self._make(int(self._numbers[place]))


class RankDiff(Struct, frozen=True):
    """The difference of one pair of traces, and the ranks that have it.

    `removed` and `added` are (id, name) of nodes that only the first or the second has. `totals` has per kind of node
    the count, recorded microseconds, flop and bytes of both sides; `kinds` is what each was made from.
    """

    ranks: tuple[int, ...]
    matched: int
    removed: Sequence[tuple[int, str]]
    added: Sequence[tuple[int, str]]
    changed: Sequence[Changed]
    kinds: tuple[str | None, str | None]
    totals: dict[str, dict[str, tuple[int, int]]]

    @property
    def same(self) -> bool:
        """Whether nothing differs that is looked at."""
        return not (self.removed or self.added or self.changed)

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        found: dict[str, Any] = in_ns({
            "ranks": self.ranks, "matched": self.matched, "removed": list(self.removed), "added": list(self.added),
            "changed": [asdict(each) for each in self.changed], "kinds": self.kinds, "totals": self.totals})
        return found


class TraceDiff(Struct, frozen=True):
    """Differences by pair of classes; ranks that only one side has."""

    ranks: tuple[int, int]
    pairs: tuple[RankDiff, ...]

    @property
    def same(self) -> bool:
        """Whether both are equal in ranks and in all that is compared."""
        return self.ranks[0] == self.ranks[1] and all(pair.same for pair in self.pairs)

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {"same": self.same, "ranks": self.ranks, "pairs": [pair.plain() for pair in self.pairs]}


def diff_traces(before: Traces, after: Traces) -> TraceDiff:
    """Compares rank by rank; equal pairs of traces once."""
    ranks = min(before.ranks, after.ranks)
    pairs = defaultdict(list)
    for rank, key in enumerate(zip(before.rank_class[:ranks].tolist(), after.rank_class[:ranks].tolist(),
                                   strict=True)):
        pairs[key].append(rank)
    return TraceDiff((before.ranks, after.ranks), tuple(
        diff_columns(before.classes[a], after.classes[b], members) for (a, b), members in pairs.items()))


def diff_columns(before: Columns, after: Columns, ranks: Sequence[int] = (0,)) -> RankDiff:
    """Compares two traces by structure: ids do not matter.

    Nodes pair up by kind and name, first those with the same surroundings (what they wait for, three steps far), then
    those with the same parents, then by kind and name alone; among equal ones in file order.
    """
    left, right = _signatures(before, after)
    first, second = _paired(left, right)
    return RankDiff(tuple(ranks), first.size, _alone(before, first), _alone(after, second),
                    _changes(before, after, first, second),
                    (trace_kind(before.metadata), trace_kind(after.metadata)), _totals(before, after))


def _alone(columns: Columns, paired: I64) -> Sequence[tuple[int, str]]:
    """(id, name) of the nodes that are in no pair."""
    return Listed(np.setdiff1d(np.arange(columns.nodes), paired),
                  lambda node: (int(columns.node_id[node]), columns.name(node)))


def _signatures(before: Columns, after: Columns) -> tuple[list[U64], list[U64]]:
    """For both traces, a number [nodes] per entry of ROUNDS that tells nodes and surroundings apart."""
    known: dict[tuple[int, str], int] = {}
    found = []
    for columns in (before, after):
        base = _numbered(columns, known)
        graph = graph_of(columns)
        child = np.repeat(np.arange(columns.nodes), np.diff(graph.ptr))
        kept = graph.parent >= 0
        levels = [_mixed(base)]
        for _ in range(max(ROUNDS)):
            around = np.zeros(columns.nodes, np.uint64)
            np.add.at(around, child[kept], _mixed(levels[-1][graph.parent[kept]]))
            levels.append(_mixed(levels[-1] * MIX + around))
        found.append([levels[each] for each in ROUNDS])
    return found[0], found[1]


def _numbered(columns: Columns, known: dict[tuple[int, str], int]) -> U64:
    """[nodes] the number of a node's kind and name."""
    names, place = columns.distinct_names()
    pairs, which = np.unique(place.astype(np.int64) << 8 | columns.type, return_inverse=True)
    numbers = [known.setdefault((pair & 0xFF, names[pair >> 8]), len(known)) for pair in pairs.tolist()]
    return np.array(numbers, np.uint64)[which]


def _mixed(values: U64) -> U64:
    """A permutation of 64-bit numbers that scatters them (splitmix64's finaliser, Steele, Lea and Flood 2014)."""
    x = values + ADD
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)), np.uint64)


def _paired(left: Sequence[U64], right: Sequence[U64]) -> tuple[I64, I64]:
    """Nodes of both sides that belong together [pairs], ascending on the first: per round the k-th of a number with the
    other side's k-th."""
    rest = [np.arange(side[0].size) for side in (left, right)]
    pairs: list[tuple[I64, I64]] = []
    for a, b in zip(left, right, strict=True):
        keys = _occurrences(a[rest[0]], b[rest[1]])
        _, mine, its = np.intersect1d(*keys, assume_unique=True, return_indices=True)
        pairs.append((rest[0][mine], rest[1][its]))
        rest = [np.delete(rest[0], mine), np.delete(rest[1], its)]
    first, second = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    order = np.argsort(first)
    return first[order], second[order]


def _occurrences(a: U64, b: U64) -> tuple[I64, I64]:
    """For each entry of both a number that tells its value and how many equal ones are before it on its side."""
    values, which = np.unique(np.concatenate((a, b)), return_inverse=True)
    count = max(a.size, b.size, 1)
    found = []
    for side in (which[:a.size], which[a.size:]):
        order = np.argsort(side, kind="stable")
        ranked = side[order]
        turn = np.empty(side.size, np.int64)
        turn[order] = np.arange(side.size) - np.searchsorted(ranked, np.arange(values.size))[ranked]
        found.append(side.astype(np.int64) * count + turn)
    return found[0], found[1]


def _changes(before: Columns, after: Columns, first: I64, second: I64) -> Sequence[Changed]:
    """Pairs with a field that differs."""
    rows = [(word, getattr(before, name), getattr(after, name)) for word, name in FIELDS]
    rows += [(word, np.diff(getattr(before, ptr)), np.diff(getattr(after, ptr)))
             for word, ptr in (("data_deps", "data_ptr"), ("ctrl_deps", "ctrl_ptr"))]
    differs = np.zeros(first.size, np.bool_)
    for _, old, new in rows:
        differs |= old[first] != new[second]

    def made(place: int) -> Changed:
        a, b = int(first[place]), int(second[place])
        fields = {word: (_number(old[a]), _number(new[b])) for word, old, new in rows if old[a] != new[b]}
        return Changed(int(before.node_id[a]), int(after.node_id[b]), before.name(a), fields)

    return Listed(np.flatnonzero(differs), made)


def _number(value: Any) -> float:
    number = float(value)
    return int(number) if number.is_integer() else number


def _totals(before: Columns, after: Columns) -> dict[str, dict[str, tuple[int, int]]]:
    """Kind of node (collectives by operation) -> nodes, recorded_us, flop, bytes: (before, after)."""
    sides = [_sums(before), _sums(after)]
    kinds = sorted({*sides[0], *sides[1]})
    empty = {"nodes": 0, "recorded_us": 0, "flop": 0, "bytes": 0}
    return {kind: {word: (sides[0].get(kind, empty)[word], sides[1].get(kind, empty)[word]) for word in empty}
            for kind in kinds}


def _sums(columns: Columns) -> dict[str, dict[str, int]]:
    host = columns.is_cpu_op != 0
    found = {}
    for kind in NodeKind:
        of_kind = columns.type == kind
        splits = {kind.name.lower(): of_kind}
        if kind == NodeKind.COMP:
            splits = {"compute": of_kind & ~host, "host": of_kind & host}
        elif kind == NodeKind.COMM_COLL:
            splits = {op.name.lower(): of_kind & (columns.comm_type == op) for op in CommOp}
        for name, mask in splits.items():
            if mask.any():
                size = columns.comm_size if kind >= NodeKind.COMM_SEND else columns.tensor_size
                found[name] = {"nodes": int(mask.sum()), "recorded_us": int(columns.duration[mask].sum()),
                               "flop": int(total(columns.num_ops[mask])), "bytes": int(size[mask].sum())}
    return found
