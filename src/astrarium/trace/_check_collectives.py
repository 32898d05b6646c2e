"""Doctor: groups, and whether the ranks of a group issue the same collectives in the same order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from astrarium.arrays import I32, I64
from astrarium.trace.columns import Attr, Columns, Traces
from astrarium.trace.finding import Findings, Severity
from astrarium.trace.graph import Dependencies, graph_of
from astrarium.trace.groups import group_key
from astrarium.trace.write import node_name
from astrarium.vocab import CommOp, NodeKind

__all__ = ["check"]

WORLD = -1
Groups = Mapping[str, tuple[int, ...]]


class _Calls(Struct, frozen=True, eq=False):
    """Collectives of all ranks, one entry per (rank, node), in the order in which each rank becomes ready for them."""

    group: I64     # number of the group, WORLD for all ranks
    rank: I64
    number: I64    # class
    node: I64      # index in the class
    op: I64
    size: I64


def check(traces: Traces, groups: Groups, orders: Sequence[I32], deps: Dependencies, found: Findings) -> None:
    """`orders`: per class, node indexes in the order in which they become ready; of profiled traces, the collectives in
    the order in which they were issued."""
    names = list(groups)
    numbers = _group_numbers(traces, names)
    calls = [_calls(traces, number, orders[number], numbers) for number in range(len(traces.classes))]
    calls = [c for c in calls if len(c.rank)]
    if not calls:
        return
    every = _Calls(*(np.concatenate([getattr(c, name) for c in calls]) for name in _Calls.__struct_fields__))
    _missing_groups(traces, every, groups, found)
    members = {WORLD: tuple(range(traces.ranks)), **{i: groups[name] for i, name in enumerate(names)}}
    _outsiders(traces, every, members, names, found)
    for group in _unequal(every, members):
        _compare(traces, every, group, members, names, deps, found)


def _group_numbers(traces: Traces, names: Sequence[str]) -> I64:
    """[texts + 1] the group number of each pg_name; WORLD for all ranks, -2 for unknown. The last is 'no pg_name'."""
    index = {name: i for i, name in enumerate(names)}
    keys = [group_key(text) for text in traces.texts]
    return np.array([index.get(key, WORLD if key in ("", "0") else -2) for key in keys] + [WORLD], np.int64)


def _calls(traces: Traces, number: int, order: I32, numbers: I64) -> _Calls:
    columns = traces.classes[number]
    ranks = traces.members(number).astype(np.int64)
    slot_of = np.full(columns.nodes, -1, np.int64)
    slot_of[columns.comm_node] = np.arange(len(columns.comm_node))
    slot_of[columns.type != NodeKind.COMM_COLL] = -1
    slots = slot_of[order]
    slots = slots[slots >= 0]
    nodes = columns.comm_node[slots].astype(np.int64)
    count = (len(ranks), len(slots))
    return _Calls(group=numbers[columns.group[:, slots]].ravel(), rank=np.repeat(ranks, len(slots)),
                  number=np.full(len(ranks) * len(slots), number, np.int64),
                  node=np.broadcast_to(nodes, count).ravel(),
                  op=np.broadcast_to(columns.comm_type[nodes], count).ravel(),
                  size=np.broadcast_to(columns.comm_size[nodes], count).ravel())


def _missing_groups(traces: Traces, calls: _Calls, groups: Groups, found: Findings) -> None:
    """Unknown names, once per name and rank: at its first collective."""
    unknown = np.flatnonzero(calls.group == -2)
    seen: set[tuple[int, str]] = set()
    for at in unknown.tolist():
        columns, node = traces.classes[calls.number[at]], int(calls.node[at])
        rank = int(calls.rank[at])
        if found.full("missing_group"):
            found.more("error", "missing_group", len(unknown))
            return
        slot = int(np.searchsorted(columns.comm_node, node))
        name = traces.texts[int(columns.group[int(traces.rank_row[rank]), slot])]
        if (rank, name) not in seen:
            seen.add((rank, name))
            known = ", ".join(list(groups)[:8]) + (", …" if len(groups) > 8 else "") if groups else "none"
            found.add("error", "missing_group", (rank,), f"group {name!r} is not defined (defined: {known})",
                      "define it in the comm-group file, or correct pg_name", int(columns.node_id[node]),
                      node_name(traces, rank, node))


def _outsiders(traces: Traces, calls: _Calls, members: Mapping[int, tuple[int, ...]], names: Sequence[str],
               found: Findings) -> None:
    """Ranks that use a group to which they do not belong, and members that do not exist."""
    used, first = np.unique(calls.group * traces.ranks + calls.rank, return_index=True)
    sets: dict[int, frozenset[int]] = {}
    for key, at in zip(used.tolist(), first.tolist(), strict=True):
        group, rank = divmod(key, traces.ranks)
        if group < 0:
            continue
        if group not in sets:
            sets[group] = frozenset(members[group])
            outside = [m for m in members[group] if m >= traces.ranks]
            if outside:
                found.add("error", "member_outside", (), f"group {names[group]!r} has rank {outside[0]}, but there are "
                          f"ranks 0-{traces.ranks - 1}", "correct the group, or give that rank a trace")
        if rank not in sets[group]:
            columns, node = traces.classes[calls.number[at]], int(calls.node[at])
            found.add("error", "not_member", (rank,), f"uses group {names[group]!r}, to which the rank does not belong",
                      "add the rank to the group, or correct pg_name", int(columns.node_id[node]),
                      node_name(traces, rank, node))


def _unequal(calls: _Calls, members: Mapping[int, tuple[int, ...]]) -> list[int]:
    """Groups whose members do not all issue the same (op, size) at the same place of their sequence."""
    order = np.lexsort((calls.rank, calls.group))   # stable: keeps the order within a rank
    group, rank = calls.group[order], calls.rank[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (group[1:] != group[:-1]) | (rank[1:] != rank[:-1])
    start = np.flatnonzero(new)
    place = np.arange(len(order)) - np.repeat(start, np.diff(np.append(start, len(order))))
    again = np.lexsort((place, group))
    g, p, op, size = group[again], place[again], calls.op[order][again], calls.size[order][again]
    differ = (g[1:] == g[:-1]) & (p[1:] == p[:-1]) & ((op[1:] != op[:-1]) | (size[1:] != size[:-1]))
    head = np.ones(len(g), np.bool_)
    head[1:] = (g[1:] != g[:-1]) | (p[1:] != p[:-1])
    heads = np.flatnonzero(head)
    present = np.diff(np.append(heads, len(g)))
    groups, which = np.unique(g[heads], return_inverse=True)
    expected = np.array([len(members.get(int(x), ())) for x in groups], np.int64)[which]
    bad = set(g[1:][differ].tolist()) | set(g[heads][present != expected].tolist())
    return sorted(bad - {-2})


def _compare(traces: Traces, calls: _Calls, group: int, members: Mapping[int, tuple[int, ...]], names: Sequence[str],
             deps: Dependencies, found: Findings) -> None:
    """Compares every member with what most members do (the lowest rank's way, where equally many differ)."""
    mine = calls.group == group
    sequences: dict[int, list[int]] = {rank: [] for rank in members[group] if rank < traces.ranks}
    for at in np.flatnonzero(mine).tolist():
        if int(calls.rank[at]) in sequences:
            sequences[int(calls.rank[at])].append(at)
    said = {rank: tuple((int(calls.op[a]), int(calls.size[a])) for a in ats)
            for rank, ats in sorted(sequences.items())}
    usual = Counter(said.values()).most_common(1)[0][0] if said else ()
    model = next((rank for rank, way in said.items() if way == usual), 0)
    title = "all ranks" if group == WORLD else f"group {names[group]!r}"
    for rank, way in said.items():
        if way != usual:
            _differs(traces, calls, (sequences[rank], sequences[model]), (rank, model), title, deps, found)


def _differs(traces: Traces, calls: _Calls, ats: tuple[list[int], list[int]], ranks: tuple[int, int], title: str,
             deps: Dependencies, found: Findings) -> None:
    """Reports where the sequence `ats[0]` of ranks[0] first leaves `ats[1]` of ranks[1]."""
    mine, model = ([(int(calls.op[a]), int(calls.size[a])) for a in side] for side in ats)
    k = next((i for i, (a, b) in enumerate(zip(mine, model, strict=False)) if a != b), min(len(mine), len(model)))
    here = _call(traces, calls, ats[0][k]) if k < len(mine) else "nothing"
    there = _call(traces, calls, ats[1][k]) if k < len(model) else "nothing"
    severity: Severity = "error"
    if sorted(mine) == sorted(model):
        code, fix = "collective_order", "issue the group's collectives in one order on every rank, tied by dependencies"
        if all(_class(traces, calls, side[k]).is_recorded for side in ats):
            fix = "the recordings disagree: record all ranks in one run, or issue them in one order"
        elif not _certain(traces, calls, ats, mine, model, k, deps):
            severity = "warning"
    elif k < len(mine) and k < len(model) and mine[k][0] == model[k][0] and len(mine) == len(model):
        code, fix = "collective_size", "give the collective the same comm_size on every rank of the group"
    else:
        code, fix = "collective_mismatch", "let every rank of the group issue the same collectives"
    columns = traces.classes[calls.number[ats[0][k]]] if k < len(mine) else None
    node = int(calls.node[ats[0][k]]) if k < len(mine) else None
    found.add(severity, code, (ranks[0],), f"collective number {k + 1} of {title} is {here}, but {there} on rank "
              f"{ranks[1]} ({len(mine)} and {len(model)} collectives)", fix,
              int(columns.node_id[node]) if columns and node is not None else None,
              node_name(traces, ranks[0], node) if node is not None else None)


def _call(traces: Traces, calls: _Calls, at: int) -> str:
    columns, node = traces.classes[calls.number[at]], int(calls.node[at])
    op = int(calls.op[at])
    word = CommOp(op).name.lower() if 0 <= op <= CommOp.BARRIER else f"operation {op}"
    word = word if columns.has(Attr.COMM_TYPE)[node] else "an operation without comm_type"
    return f"{word} of {int(calls.size[at])} bytes (node {int(columns.node_id[node])})"


def _certain(traces: Traces, calls: _Calls, ats: tuple[list[int], list[int]], mine: list[tuple[int, int]],
             model: list[tuple[int, int]], k: int, deps: Dependencies) -> bool:
    """Whether both ranks are bound to their orders: each must issue its k-th before what the other has there."""
    later_here = mine.index(model[k], k)
    later_there = model.index(mine[k], k)
    pairs = ((ats[0][k], ats[0][later_here]), (ats[1][k], ats[1][later_there]))
    return all(_forced_before(_class(traces, calls, a), int(calls.node[a]), int(calls.node[b]), deps) for a, b in pairs)


def _class(traces: Traces, calls: _Calls, at: int) -> Columns:
    return traces.classes[int(calls.number[at])]


def _forced_before(columns: Columns, first: int, second: int, deps: Dependencies) -> bool:
    """Whether node index `first` is always issued before `second`.

    So it is where `second` waits for it, directly or not, and where both wait for the same nodes and `first` has the
    lower id (equally ready nodes are issued in order of id).
    """
    graph = graph_of(columns, deps)

    def parents(node: int) -> set[int]:
        return {int(p) for p in graph.parent[graph.ptr[node]:graph.ptr[node + 1]]}

    if parents(first) == parents(second) and int(columns.node_id[first]) < int(columns.node_id[second]):
        return True
    seen, work = {second}, [second]
    while work:
        for parent in parents(work.pop()):
            if parent == first:
                return True
            if parent >= 0 and parent not in seen:
                seen.add(parent)
                work.append(parent)
    return False
