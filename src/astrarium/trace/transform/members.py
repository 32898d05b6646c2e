"""Groups when ranks change: the names that collectives use, and the metadata nodes that define groups."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from astrarium.errors import InputError
from astrarium.trace.columns import Columns, Traces
from astrarium.trace.groups import group_key, groups_of
from astrarium.trace.transform.files import Job
from astrarium.trace.transform.patch import Change
from astrarium.vocab import NodeKind

__all__ = ["all_groups", "definitions", "next_name", "pg_names", "used_groups"]

LONGEST = 4_000         # digits of a group's number; Python reads no more than 4,300


def all_groups(job: Job, traces: Traces) -> dict[str, tuple[int, ...]]:
    """The groups of the file and those that the traces define; InputError where a collective names another one."""
    found = {group_key(name): tuple(members) for name, members in groups_of(traces).items()}
    found |= {group_key(name): tuple(members) for name, members in job.groups.items()}
    for name in used_groups(traces):
        if name not in found:
            raise InputError("groups", f"collectives name group {name!r}, which nothing defines",
                             expected="--groups FILE, or PREFIX.groups.json beside the traces")
    return found


def used_groups(traces: Traces) -> list[str]:
    """Names of the groups that collectives name, except the one of all ranks."""
    used: set[str] = set()
    for columns in traces.classes:
        coll = columns.type[columns.comm_node] == NodeKind.COMM_COLL
        numbers = np.unique(columns.group[:, coll])
        used |= {group_key(traces.texts[number]) for number in numbers[numbers >= 0].tolist()}
    return sorted(used - {"", "0"})


def pg_names(traces: Traces, rank: int, rename: Callable[[str], str]) -> dict[int, str]:
    """Node index -> the new group name of a rank's collectives, where it is another one."""
    columns, row = traces.of(rank)
    coll = columns.type[columns.comm_node] == NodeKind.COMM_COLL
    found = {}
    for node, number in zip(columns.comm_node[coll].tolist(), columns.group[row][coll].tolist(), strict=True):
        if number >= 0:
            old = traces.texts[number]
            new = old if group_key(old) in ("", "0") else rename(group_key(old))
            if new != old:
                found[node] = new
    return found


def definitions(columns: Columns, groups: Mapping[str, Sequence[int]]) -> dict[int, Change]:
    """Changes that make the first metadata node of process groups define `groups`, and the others none."""
    nodes = [node for node in columns.meta_node.tolist() if "process_group:init" in columns.name(node)]
    listed = [{"pg_name": name, "ranks": list(members), "group_size": len(members)}
              for name, members in groups.items()]
    text = "['" + json.dumps(listed) + "']"
    return {node: Change(inputs_values=text if place == 0 else "['[]']") for place, node in enumerate(nodes)}


def next_name(names: Mapping[str, object]) -> int:
    """The lowest number that is above every group name that is a number of up to LONGEST digits."""
    return max((int(name) for name in names if name.isascii() and name.isdigit() and len(name) <= LONGEST),
               default=0) + 1
