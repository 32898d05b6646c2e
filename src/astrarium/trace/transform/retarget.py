"""Retargeting: the same work on more ranks. Data parallelism grows by copies, tensor parallelism by division."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from astrarium.config import Config, Knob
from astrarium.errors import InputError, UnsupportedError
from astrarium.trace.columns import Attr, Columns, Traces
from astrarium.trace.groups import group_key
from astrarium.trace.transform.files import Changes, Edit, Job, rebuilt
from astrarium.trace.transform.members import all_groups, definitions, next_name
from astrarium.trace.transform.patch import Change
from astrarium.trace.transform.select import gpu, named
from astrarium.vocab import CommOp, NodeKind

__all__ = ["GrowDp", "GrowTp", "grow_dp", "grow_tp"]

SHARDED = (CommOp.ALL_GATHER,)
WHOLE = (CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER, CommOp.REDUCE_SCATTER_BLOCK, CommOp.BROADCAST, CommOp.REDUCE,
         CommOp.BARRIER)
WORLD = "all"


class _Grow(Config, frozen=True, kw_only=True):
    factor: Annotated[int, Knob("How many times as many ranks.", ge=2, lt=2**20)]
    over: Annotated[Sequence[str], Knob("Groups that grow: names, or all (the group of all ranks). Groups of the same "
                                        "size and spacing as a named one grow too.")]


class GrowDp(_Grow, frozen=True, kw_only=True):
    """More data-parallel replicas: weak scaling, so every replica does what it did."""

    sharded: Annotated[str, Knob("Pattern of the names of compute nodes whose work replicas divide (ZeRO's optimizer "
                                 "step); left out: none.")] = ""


class GrowTp(_Grow, frozen=True, kw_only=True):
    """More ranks divide every layer: strong scaling of the nodes that are divided."""

    sharded: Annotated[str, Knob("Pattern of the names of compute nodes that are divided.")] = "*"


def grow_dp(job: Job, step: GrowDp) -> Job:
    """Replica j's copy of old rank r is rank j * n + r.

    Groups in `over` take in the copies of their members; any other group is copied. The input shards of their
    all-gathers shrink by the factor (ZeRO's weights are divided further), and so do flop and bytes of the nodes that
    `sharded` names; full buffers of all-reduce and reduce-scatter stay. UnsupportedError where a growing group
    exchanges all-to-all: experts would move.
    """
    traces = job.traces()
    count = traces.ranks
    grown = _Grown(job, traces, step, "grow_dp", [rank for _ in range(step.factor) for rank in range(count)],
                   lambda old: [replica * count + old for replica in range(step.factor)])
    common = _all_divided(traces, step.sharded, step.factor, "grow_dp")
    edits = [Edit(each, grown.changes) for each in common]
    return Job(rebuilt(traces, edits, grown.layout), grown.groups)


def grow_tp(job: Job, step: GrowTp) -> Job:
    """Old rank r becomes ranks k * r .. k * r + k - 1, which divide what it did.

    Flop and bytes of the compute nodes that `sharded` names are divided, and so are the sizes of collectives and
    messages outside `over` (gradients, weights and activations of a part); those of `over` stay, but for all-gathers'
    shards. UnsupportedError where a divided node has a recorded duration: how it would shrink is not known (see
    roofline), or where a size does not divide.
    """
    traces = job.traces()
    k = step.factor
    grown = _Grown(job, traces, step, "grow_tp", [rank for rank in range(traces.ranks) for _ in range(k)],
                   lambda old: [old * k + part for part in range(k)])
    common = _all_divided(traces, step.sharded, k, "grow_tp")
    grown.divide = True
    edits = [Edit(each, grown.changes) for each in common]
    return Job(rebuilt(traces, edits, grown.layout), grown.groups)


class _Grown:
    """Groups, peers and sizes of the ranks after growth."""

    def __init__(self, job: Job, traces: Traces, step: _Grow, path: str, layout: Sequence[int], copies: Any) -> None:
        self.traces, self.factor, self.layout, self.path, self.copies = traces, step.factor, layout, path, copies
        self.divide = False
        before = all_groups(job, traces)
        before = {name: members for name, members in before.items() if name not in ("", "0")}
        everyone = tuple(range(traces.ranks))
        named_all = [name for name, members in before.items() if tuple(sorted(members)) == everyone]
        self.growing = _growing(before, [*step.over, *(named_all if WORLD in step.over else ())], path)
        self.groups: dict[str, tuple[int, ...]] = {}
        self.name: dict[tuple[str, int], str] = {}      # (old name, copy) -> the new name
        number = next_name(before)
        for name, members in before.items():
            if name in self.growing:
                self.groups[name] = tuple(sorted(new for old in members for new in copies(old)))
                continue
            for copy in range(self.factor):
                self.name[name, copy] = name if copy == 0 else str(number)
                number += copy > 0
                self.groups[self.name[name, copy]] = tuple(copies(old)[copy] for old in members)
        if WORLD not in step.over and self._uses_world():
            raise UnsupportedError(path, "collectives of all ranks, which the step does not say to grow",
                                   expected=f"over={WORLD}, or traces whose collectives name groups")
        self.world = WORLD in step.over
        self._metadata = [definitions(columns, self.groups) for columns in traces.classes]

    def _uses_world(self) -> bool:
        for columns in self.traces.classes:
            coll = columns.type[columns.comm_node] == NodeKind.COMM_COLL
            world = [number for number in np.unique(columns.group[:, coll]).tolist()
                     if number < 0 or group_key(self.traces.texts[number]) in ("", "0")]
            big = columns.comm_size[columns.comm_node[coll]] > 64      # norms and flags of a few bytes are everyone's
            if world and big[(np.isin(columns.group[0, coll], world))].any():
                return True
        return False

    def changes(self, rank: int) -> Changes:
        """Node index -> change of new rank `rank`."""
        old = self.layout[rank]
        copy = self.copies(old).index(rank)
        columns, row = self.traces.of(old)
        found: dict[int, Change | None] = dict(self._metadata[int(self.traces.rank_class[old])])
        kind = columns.type[columns.comm_node]
        for at, node in enumerate(columns.comm_node.tolist()):
            if kind[at] == NodeKind.COMM_COLL:
                values = self._collective(columns, node, int(columns.group[row, at]), copy)
            else:
                ends = {"comm_src": int(columns.source[row, at]), "comm_dst": int(columns.destination[row, at])}
                values = {word: self.copies(end)[copy] for word, end in ends.items() if end >= 0}
                if self.divide:
                    values["comm_size"] = self._part(columns, node)
            if values:
                found[node] = Change(values=values)
        return found

    def _collective(self, columns: Columns, node: int, group: int, copy: int) -> dict[str, Any]:
        name = "" if group < 0 else group_key(self.traces.texts[group])
        world = name in ("", "0")
        grows = self.world if world else name in self.growing
        op, values = int(columns.comm_type[node]), dict[str, Any]()
        if not world and not grows:
            values["pg_name"] = self.name[name, copy]
        if grows and op in SHARDED:
            values["comm_size"] = self._part(columns, node)
        elif grows and op not in WHOLE:
            word = CommOp(op).name.lower() if op in set(CommOp) else str(op)
            raise UnsupportedError(self.path, f"a {word} among a group that grows (node {columns.name(node)[:60]!r})",
                                   expected="groups of all_reduce, all_gather, reduce_scatter, broadcast or reduce")
        elif self.divide and not grows and not world:
            values["comm_size"] = self._part(columns, node)
        return values

    def _part(self, columns: Columns, node: int) -> int:
        size = int(columns.comm_size[node])
        if self.divide and size % self.factor:
            raise UnsupportedError(self.path, f"{size} bytes of {columns.name(node)[:60]!r} do not divide by "
                                              f"{self.factor}", expected="sizes that divide")
        return -(-size // self.factor)


def _growing(groups: Mapping[str, Sequence[int]], over: Sequence[str], path: str) -> set[str]:
    """The named groups and those of the same size and spacing."""
    found: set[str] = set()
    shapes = {name: tuple(np.diff(members).tolist()) for name, members in groups.items()}
    for name in over:
        key = group_key(name)
        if name == WORLD:
            continue
        if key not in groups:
            raise InputError(f"{path}.over", f"there is no group {name!r}",
                             expected=f"{WORLD}, or some of {', '.join(list(groups)[:12])}")
        found |= {each for each, shape in shapes.items() if shape == shapes[key]}
    return found


def _all_divided(traces: Traces, pattern: str, factor: int, path: str) -> list[dict[int, Change]]:
    if not pattern:
        return [{} for _ in traces.classes]
    return [_divided(columns, pattern, factor, path, traces.sources[int(traces.members(number)[0])])
            for number, columns in enumerate(traces.classes)]


def _divided(columns: Columns, pattern: str, factor: int, path: str, source: str) -> dict[int, Change]:
    """Flop and bytes of the accelerator's nodes that match, divided."""
    mask = gpu(columns) & named(columns, pattern, gpu(columns))
    timed = np.flatnonzero(mask & (columns.duration > 0) & ~columns.has(Attr.NUM_OPS))
    if timed.size:
        raise UnsupportedError(path, f"{source}: {columns.name(int(timed[0]))[:60]!r} has a recorded duration and "
                               "no num_ops, so a part of it takes an unknown time",
                               expected="--step roofline:... first")
    found = {}
    for node in np.flatnonzero(mask & columns.has(Attr.NUM_OPS)).tolist():
        values: dict[str, Any] = {"num_ops": float(columns.num_ops[node]) / factor}
        if float(values["num_ops"]).is_integer():
            values["num_ops"] = int(values["num_ops"])
        if columns.has(Attr.TENSOR_SIZE)[node]:
            values["tensor_size"] = -(-int(columns.tensor_size[node]) // factor)
        found[node] = Change(duration=0, values=values)
    return found
