"""What differs between two traces: nodes that only one has, nodes whose values changed, totals by kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from astrarium.trace.columns import Columns, Traces
from astrarium.trace.graph import graph_of
from astrarium.trace.node import trace_kind
from astrarium.vocab import CommOp, NodeKind

__all__ = ["Changed", "RankDiff", "TraceDiff", "diff_columns", "diff_traces"]

U64 = npt.NDArray[np.uint64]
ROUNDS = (3, 1, 0)      # how far around a node is looked at: first far, what is left then nearer
FIELDS = (("duration_us", "duration"), ("num_ops", "num_ops"), ("tensor_size", "tensor_size"),
          ("comm_type", "comm_type"), ("comm_size", "comm_size"), ("stream", "stream"),
          ("comm_priority", "comm_priority"))
MIX, ADD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)


@dataclass(frozen=True)
class Changed:
    """A pair of nodes (ids in the first and the second trace) with fields that differ: name -> (before, after)."""

    before: int
    after: int
    name: str
    fields: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class RankDiff:
    """The difference of one pair of traces, and the ranks that have it.

    `removed` and `added` are (id, name) of nodes that only the first or the second has. `totals` has per kind of node
    the count, recorded microseconds, flop and bytes of both sides; `kinds` is what each was made from.
    """

    ranks: tuple[int, ...]
    matched: int
    removed: tuple[tuple[int, str], ...]
    added: tuple[tuple[int, str], ...]
    changed: tuple[Changed, ...]
    kinds: tuple[str | None, str | None]
    totals: dict[str, dict[str, tuple[int, int]]]

    @property
    def same(self) -> bool:
        """Whether nothing differs that is looked at."""
        return not (self.removed or self.added or self.changed)


@dataclass(frozen=True)
class TraceDiff:
    """Differences by pair of classes; ranks that only one side has."""

    ranks: tuple[int, int]
    pairs: tuple[RankDiff, ...]

    @property
    def same(self) -> bool:
        """Whether both are equal in ranks and in all that is compared."""
        return self.ranks[0] == self.ranks[1] and all(pair.same for pair in self.pairs)

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {"same": self.same, **asdict(self)}


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
    pairs = _paired(left, right)
    first, second = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    gone = np.setdiff1d(np.arange(before.nodes), first)
    new = np.setdiff1d(np.arange(after.nodes), second)
    return RankDiff(
        tuple(ranks), len(pairs), tuple((int(before.node_id[n]), before.name(n)) for n in gone.tolist()),
        tuple((int(after.node_id[n]), after.name(n)) for n in new.tolist()),
        tuple(_changes(before, after, first, second)), (trace_kind(before.metadata), trace_kind(after.metadata)),
        _totals(before, after))


def _signatures(before: Columns, after: Columns) -> tuple[list[U64], list[U64]]:
    """Of both traces, a number [nodes] per entry of ROUNDS that tells nodes and surroundings apart."""
    known: dict[tuple[int, str], int] = {}
    found = []
    for columns in (before, after):
        kinds = columns.type.tolist()
        base = np.array([known.setdefault((kind, name), len(known)) for kind, name in
                         zip(kinds, columns.names(), strict=True)], np.uint64)
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


def _mixed(values: U64) -> U64:
    """A permutation of 64-bit numbers that scatters them (splitmix64's finaliser, Steele, Lea and Flood 2014)."""
    x = values + ADD
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)), np.uint64)


def _paired(left: Sequence[U64], right: Sequence[U64]) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    rest = [np.arange(len(side[0])) for side in (left, right)]
    for a, b in zip(left, right, strict=True):
        waiting: dict[int, list[int]] = defaultdict(list)
        for node in rest[1][::-1].tolist():
            waiting[int(b[node])].append(node)
        alone, taken = [], set()
        for node in rest[0].tolist():
            same = waiting.get(int(a[node]))
            if same:
                pairs.append((node, same.pop()))
                taken.add(pairs[-1][1])
            else:
                alone.append(node)
        rest = [np.array(alone, np.int64), np.array([n for n in rest[1].tolist() if n not in taken], np.int64)]
    return sorted(pairs)


def _changes(before: Columns, after: Columns, first: npt.NDArray[np.int64],
             second: npt.NDArray[np.int64]) -> list[Changed]:
    parts: dict[int, dict[str, tuple[float, float]]] = defaultdict(dict)
    for word, name in FIELDS:
        old, new = getattr(before, name)[first], getattr(after, name)[second]
        for place in np.flatnonzero(old != new).tolist():
            parts[place][word] = (_number(old[place]), _number(new[place]))
    for word, ptr in (("data_deps", "data_ptr"), ("ctrl_deps", "ctrl_ptr")):
        old, new = np.diff(getattr(before, ptr))[first], np.diff(getattr(after, ptr))[second]
        for place in np.flatnonzero(old != new).tolist():
            parts[place][word] = (int(old[place]), int(new[place]))
    return [Changed(int(before.node_id[first[place]]), int(after.node_id[second[place]]),
                    before.name(int(first[place])), fields) for place, fields in sorted(parts.items())]


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
                               "flop": int(columns.num_ops[mask].sum()), "bytes": int(size[mask].sum())}
    return found
