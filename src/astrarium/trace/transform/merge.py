"""Merging traces: jobs side by side on separate ranks, or one after the other on the same ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from astrarium.errors import InputError
from astrarium.trace._wire import delimited
from astrarium.trace.columns import Columns, Traces
from astrarium.trace.node import Node, encode_node
from astrarium.trace.transform.files import Changes, Edit, Files, Job, rebuilt
from astrarium.trace.transform.members import all_groups, definitions, next_name, pg_names
from astrarium.trace.transform.patch import Change
from astrarium.trace.write import node_messages
from astrarium.vocab import NodeKind

__all__ = ["Along", "merge"]

Along = Literal["ranks", "time"]
JOIN = "one trace ends, the next begins"


def merge(jobs: Sequence[Job], along: Along) -> Job:
    """`ranks`: the second job's ranks follow the first one's, and a collective of all ranks becomes one of its job.
    `time`: every rank runs its first trace to the end, then its second. Groups of equal names and other members get
    new names. InputError where traces in time are of different numbers of ranks.
    """
    if not jobs:
        raise InputError("merge", "no traces", expected="at least one")
    whole = jobs[0]
    for other in jobs[1:]:
        whole = _beside(whole, other) if along == "ranks" else _after(whole, other)
    return whole


def _beside(first: Job, second: Job) -> Job:
    left, right = first.traces(), second.traces()
    count = left.ranks + right.ranks
    groups: dict[str, tuple[int, ...]] = {}
    parts = []
    for job, traces, shift in ((first, left, 0), (second, right, left.ranks)):
        known = {name: tuple(member + shift for member in members)
                 for name, members in all_groups(job, traces).items() if name not in ("", "0")}
        known[""] = tuple(range(shift, shift + traces.ranks))
        names = {}
        for name, members in known.items():
            names[name] = _place(groups, name, members)
        parts.append(_shifted(traces, shift, names, groups))
    return Job(Files(count, lambda rank: parts[0][rank] if rank < left.ranks else parts[1][rank - left.ranks]), groups)


def _place(groups: dict[str, tuple[int, ...]], name: str, members: tuple[int, ...]) -> str:
    """Adds a group under its name, or a new one where another has it; that name."""
    free = name and name not in groups
    if name and groups.get(name) == members:
        return name
    new = name if free else str(next_name(groups))
    groups[new] = members
    return new


def _shifted(traces: Traces, shift: int, names: Mapping[str, str], groups: Mapping[str, Sequence[int]]) -> Files:
    metadata = [definitions(columns, groups) for columns in traces.classes]

    def own(rank: int) -> Changes:
        columns, row = traces.of(rank)
        found: dict[int, Change | None] = dict(metadata[int(traces.rank_class[rank])])
        kind = columns.type[columns.comm_node]
        for at, node in enumerate(columns.comm_node.tolist()):
            if kind[at] == NodeKind.COMM_COLL:
                number = int(columns.group[row, at])
                text = "" if number < 0 else traces.texts[number].strip()
                found[node] = Change(values={"pg_name": names["" if text.strip("0") == "" else text.lstrip("0")
                                                              if text.isdigit() else text]})
            elif shift:
                ends = {"comm_src": int(columns.source[row, at]), "comm_dst": int(columns.destination[row, at])}
                found[node] = Change(values={word: end + shift for word, end in ends.items() if end >= 0})
        return found

    return rebuilt(traces, [Edit(own=own) for _ in traces.classes])


# ------------------------------------------------------------ one after the other
def _after(first: Job, second: Job) -> Job:
    left, right = first.traces(), second.traces()
    if left.ranks != right.ranks:
        raise InputError("merge", f"traces of {left.ranks} and of {right.ranks} ranks", expected="as many ranks each")
    groups = {name: members for name, members in all_groups(first, left).items() if name not in ("", "0")}
    names = {name: _place(groups, name, members) for name, members in all_groups(second, right).items()
             if name not in ("", "0")}
    before = _renamed(left, groups, lambda name: name, lambda columns: {})
    base = [max((int(columns.node_id.max()) if columns.nodes else 0 for columns in left.classes), default=0) + 1]
    after = _renamed(right, groups, lambda name: names.get(name, name), lambda columns: _moved(columns, base[0]))

    def make(rank: int) -> bytes:
        columns, _ = left.of(rank)
        join = encode_node(Node(base[0], JOIN, int(NodeKind.INVALID), data_deps=_ends(columns)))
        return before[rank] + delimited(join) + b"".join(map(delimited, list(node_messages(after[rank]))[1:]))

    return Job(Files(left.ranks, make), groups)


def _renamed(traces: Traces, groups: Mapping[str, Sequence[int]], rename: Callable[[str], str],
             moved: Callable[[Columns], Mapping[int, Change]]) -> Files:
    """Files whose collectives have new group names, on top of changes by class."""
    common = []
    for columns in traces.classes:
        changes: dict[int, Change | None] = dict(moved(columns))
        for node, change in definitions(columns, groups).items():
            was = changes.get(node) or Change()
            changes[node] = Change(id=was.id, data_deps=was.data_deps, ctrl_deps=was.ctrl_deps,
                                   inputs_values=change.inputs_values)
        common.append(changes)

    def own(rank: int) -> Changes:
        base = common[int(traces.rank_class[rank])]
        found = {}
        for node, name in pg_names(traces, rank, rename).items():
            was = base.get(node) or Change()
            found[node] = Change(id=was.id, data_deps=was.data_deps, ctrl_deps=was.ctrl_deps, values={"pg_name": name})
        return found

    return rebuilt(traces, [Edit(each, own) for each in common])


def _moved(columns: Columns, base: int) -> dict[int, Change]:
    """New ids above `base`. The former roots wait for node `base`."""
    data, ctrl = columns.data_dep.tolist(), columns.ctrl_dep.tolist()
    spans = [columns.data_ptr.tolist(), columns.ctrl_ptr.tolist()]
    found = {}
    for node, number in enumerate(columns.node_id.tolist()):
        deps = [tuple(each + base + 1 for each in ids[span[node]:span[node + 1]])
                for ids, span in zip((data, ctrl), spans, strict=True)]
        found[node] = Change(id=number + base + 1, data_deps=deps[0] or (base,), ctrl_deps=deps[1])
    return found


def _ends(columns: Columns) -> tuple[int, ...]:
    """Ids of the nodes without dependents."""
    waited = np.isin(columns.node_id, columns.data_dep) | np.isin(columns.node_id, columns.ctrl_dep)
    return tuple(columns.node_id[~waited].tolist())
