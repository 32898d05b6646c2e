"""Stages as one trace of all ranks: cross-stage collectives agree, every send has its receive, nothing waits in a ring.

A model draws every stage by itself, and may err. What does not agree is brought to agreement here, by rules that do
nothing to stages that do: surplus messages and collectives go, and those that stages would wait for in a ring; sizes
are those of the sender or of the first stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64, I32, I64
from astrarium.synthesise.examples import VALUES
from astrarium.synthesise.layout import ROLES, SHARED, Layout
from astrarium.synthesise.tokens import Token
from astrarium.trace.work import Generated, TraceClass
from astrarium.vocab import NodeKind

__all__ = ["Drawn", "join"]

SIZE = VALUES.index("comm_size")
COMM = (NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.COMM_RECV)
Pair = tuple[tuple[int, int], tuple[int, int]]      # (stage, node) twice


class Drawn(Struct, frozen=True, eq=False):
    """One stage: tokens [nodes], values [nodes, VALUES], who waits for whom (earlier nodes only)."""

    token: I64
    values: F64
    ptr: I64
    parent: I64


def join(tokens: Sequence[Token], stages: Sequence[Drawn], layout: Layout) -> Generated:
    """All ranks, one class per stage."""
    agreed = _agreed(tokens, stages, layout)
    groups: list[I32] = []
    index: dict[str, I32] = {}
    used = {tokens[kind].role for drawn in agreed for kind in np.unique(drawn.token).tolist()
            if tokens[kind].kind == NodeKind.COMM_COLL}
    for role in ROLES:
        index[role] = np.full(layout.ranks, -1, np.int32)
        if role in used and role != "all":
            members = layout.groups(role)
            index[role][members] = np.arange(len(members), dtype=np.int32)[:, None] + len(groups)
            groups += list(members)
    return Generated(tuple(_class(tokens, drawn, layout, stage, index) for stage, drawn in enumerate(agreed)),
                     tuple(groups), tuple(str(each + 1) for each in range(len(groups))), tuple(None for _ in agreed))


def _class(tokens: Sequence[Token], drawn: Drawn, layout: Layout, stage: int, index: Mapping[str, I32]) -> TraceClass:
    kinds = np.array([each.kind for each in tokens], np.uint8)
    ops = np.array([each.op for each in tokens], np.int32)
    token, step = drawn.token, layout.tp * layout.dp
    ranks = np.arange(stage * step, (stage + 1) * step, dtype=np.int32)
    comm = np.flatnonzero(np.isin(kinds[token], COMM))
    slot_a = np.full((step, comm.size), -1, np.int32)
    slot_b = np.full((step, comm.size), -1, np.int32)
    for kind in np.unique(token[comm]).tolist():
        at, role = np.flatnonzero(token[comm] == kind), tokens[kind].role
        if tokens[kind].kind == NodeKind.COMM_COLL:
            slot_b[:, at] = index[role][ranks][:, None]
        else:
            slot_a[:, at] = (ranks + (step if role == "next" else -step))[:, None]
            slot_b[:, at] = int((role == "next") != (tokens[kind].kind == NodeKind.COMM_SEND))

    def whole(column: int) -> F64:
        return np.nan_to_num(np.rint(np.clip(drawn.values[:, column], 0, 2.0**62)))

    involved, priority = np.array([(each.involved, each.priority) for each in tokens], np.int32)[token].T
    return TraceClass(
        ranks=ranks, node_id=np.arange(token.size, dtype=np.uint64), type=kinds[token],
        is_cpu=np.array([each.host for each in tokens], np.bool_)[token], duration_us=whole(0).astype(np.uint64),
        num_ops=np.rint(drawn.values[:, 1]), tensor_size=whole(2).astype(np.uint64), comm_type=ops[token],
        comm_size=whole(SIZE).astype(np.int64), involved=involved, priority=priority,
        parent_ptr=drawn.ptr, parent=drawn.parent.astype(np.int32),
        slot_a=slot_a, slot_b=slot_b, slot=np.arange(comm.size, dtype=np.int32),
        names=lambda node: tokens[int(token[node])].name.replace("#", "0"))


# ------------------------------------------------------------ agreement
def _agreed(tokens: Sequence[Token], stages: Sequence[Drawn], layout: Layout) -> list[Drawn]:
    kept, pairs = _matched(tokens, stages, layout)
    gone = sum(int((~keep).sum()) for keep in kept)
    agreed = [_without(drawn, keep) for drawn, keep in zip(stages, kept, strict=True)]
    while True:
        if gone:
            _, pairs = _matched(tokens, agreed, layout)
        stuck = _stuck(tokens, agreed, pairs) if pairs else []
        if not stuck:
            break
        if not gone:        # from here on communication goes in one order, so that no lane is taken out of turn
            agreed = [_in_line(tokens, drawn) for drawn in agreed]
        gone += sum(int((~keep).sum()) for keep in stuck)
        agreed = [_without(drawn, keep) for drawn, keep in zip(agreed, stuck, strict=True)]
    for (a, i), (b, j) in pairs:
        agreed[b].values[j, SIZE] = agreed[a].values[i, SIZE]
    return agreed


def _in_line(tokens: Sequence[Token], drawn: Drawn) -> Drawn:
    """A stage in which every communication node waits for the one before."""
    kinds = np.array([each.kind for each in tokens])[drawn.token]
    comm = np.flatnonzero(np.isin(kinds, COMM))
    child = np.concatenate([np.repeat(np.arange(drawn.token.size), np.diff(drawn.ptr)), comm[1:]])
    size = max(1, drawn.token.size)
    edges = np.unique(child * size + np.concatenate([drawn.parent, comm[:-1]]))
    ptr = np.concatenate([[0], np.cumsum(np.bincount(edges // size, minlength=drawn.token.size))]).astype(np.int64)
    return Drawn(drawn.token, drawn.values, ptr, edges % size)


def _matched(tokens: Sequence[Token], stages: Sequence[Drawn],
             layout: Layout) -> tuple[list[npt.NDArray[np.bool_]], list[Pair]]:
    """Nodes to keep, and pairs of nodes of different stages that belong together, the leading one first."""
    keep = [np.ones(drawn.token.size, np.bool_) for drawn in stages]
    pairs: list[Pair] = []

    def places(stage: int, kind: NodeKind, role: str) -> I64:
        chosen = [i for i, each in enumerate(tokens) if each.kind == kind and each.role == role]
        return np.flatnonzero(np.isin(stages[stage].token, chosen))

    def paired(a: int, mine: I64, b: int, theirs: I64) -> None:
        both = min(mine.size, theirs.size)
        keep[a][mine[both:]] = False
        keep[b][theirs[both:]] = False
        pairs.extend(((a, i), (b, j)) for i, j in zip(mine[:both].tolist(), theirs[:both].tolist(), strict=True))

    for stage in range(layout.pp - 1):
        paired(stage, places(stage, NodeKind.COMM_SEND, "next"), stage + 1,
               places(stage + 1, NodeKind.COMM_RECV, "prev"))
        paired(stage + 1, places(stage + 1, NodeKind.COMM_SEND, "prev"), stage,
               places(stage, NodeKind.COMM_RECV, "next"))
    for stage, kind, role in ((0, NodeKind.COMM_SEND, "prev"), (0, NodeKind.COMM_RECV, "prev"),
                              (layout.pp - 1, NodeKind.COMM_SEND, "next"), (layout.pp - 1, NodeKind.COMM_RECV, "next")):
        keep[stage][places(stage, kind, role)] = False
    for role in SHARED if layout.pp > 1 else ():
        members = [0, layout.pp - 1] if role == "ends" else list(range(layout.pp))
        at = {stage: places(stage, NodeKind.COMM_COLL, role) for stage in range(layout.pp)}
        both = min(at[stage].size for stage in members)
        for stage in range(layout.pp):
            keep[stage][at[stage][both if stage in members else 0:]] = False
        for stage in members[1:]:
            pairs.extend(((0, i), (stage, j)) for i, j in zip(at[0][:both].tolist(), at[stage][:both].tolist(),
                                                              strict=True))
    return keep, pairs


def _without(drawn: Drawn, keep: npt.NDArray[np.bool_]) -> Drawn:
    """A stage without some nodes; who waited for one waits for what it waited for."""
    if keep.all():
        return drawn
    waits: list[set[int]] = []
    for node in range(keep.size):
        own = set[int]()
        for parent in drawn.parent[drawn.ptr[node]:drawn.ptr[node + 1]].tolist():
            own |= {parent} if keep[parent] else waits[parent]
        waits.append(own)
    place = np.cumsum(keep) - 1
    lists = [sorted(int(place[each]) for each in own) for own, kept in zip(waits, keep.tolist(), strict=True) if kept]
    return Drawn(drawn.token[keep], drawn.values[keep], np.cumsum([0, *map(len, lists)]).astype(np.int64),
                 np.array([each for own in lists for each in own], np.int64))


def _stuck(tokens: Sequence[Token], stages: Sequence[Drawn],
           pairs: Sequence[Pair]) -> list[npt.NDArray[np.bool_]]:
    """Runs all stages without time; nodes to keep, per stage, where some pairs wait for each other in a ring, else []:
    where nothing can go on, the pair whose leading node comes first goes."""
    offset = np.cumsum([0, *(drawn.token.size for drawn in stages)])
    total = int(offset[-1])
    one = np.arange(total)                  # the node that represents each: collectives of several stages are one
    lead = np.array([offset[a] + i for (a, i), _ in pairs], np.int64)
    follow = np.array([offset[b] + j for _, (b, j) in pairs], np.int64)
    shared = np.array([tokens[int(stages[a].token[i])].kind == NodeKind.COMM_COLL for (a, i), _ in pairs], np.bool_)
    one[follow[shared]] = lead[shared]
    kids = np.concatenate([*(np.repeat(np.arange(drawn.token.size), np.diff(drawn.ptr)) + offset[s]
                             for s, drawn in enumerate(stages)), follow[~shared]])
    befores = np.concatenate([*(drawn.parent + offset[s] for s, drawn in enumerate(stages)), lead[~shared]])
    every = np.flatnonzero(one == np.arange(total))
    freed = _freed(one[kids], one[befores], every, np.unique(one[lead]), offset)
    if not freed:
        return []
    keep = ~(np.isin(one, freed) | np.isin(np.arange(total), follow[np.isin(one[lead], freed)]))
    return [keep[offset[s]:offset[s + 1]] for s in range(len(stages))]


def _freed(kids: I64, befores: I64, every: I64, leads: I64, offset: I64) -> list[int]:
    """The leading nodes that must go for all others to run."""
    total = int(offset[-1])
    left = np.bincount(kids, minlength=total)
    order = np.argsort(befores, kind="stable")
    begin = np.searchsorted(befores[order], np.arange(total + 1)).tolist()
    after, waits = kids[order].tolist(), left.tolist()
    done = np.zeros(total, np.bool_)
    freed: list[int] = []
    ready = every[left[every] == 0].tolist()
    while True:
        while ready:
            node = ready.pop()
            done[node] = True
            for each in after[begin[node]:begin[node + 1]]:
                waits[each] -= 1
                if not waits[each] and not done[each]:
                    ready.append(each)
        stuck = leads[~done[leads]]
        if not stuck.size:
            return freed
        first = int(stuck[np.argmin(stuck - offset[np.searchsorted(offset, stuck, side="right") - 1])])
        freed.append(first)
        done[first] = True
        ready.append(first)
