"""Communication groups: the ranks of a `pg_name`, from a comm-group file or from the traces themselves."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from astrarium.errors import InputError, TraceError
from astrarium.trace.columns import Columns, Traces

__all__ = ["GROUPS_NODE", "Groups", "group_key", "groups_of", "groups_text", "read_groups"]

GROUPS_NODE = "## process_group:init ##"
"""Name of the METADATA node in which PyTorch defines groups."""

Groups = Mapping[str, tuple[int, ...]]
"""Group name -> its ranks, in the order given (a ring follows that order). "" and "0" mean all ranks unless defined."""


def group_key(text: str) -> str:
    """The name under which a `pg_name` is looked up: integers without leading zeros, other texts as they are."""
    digits = text.strip()
    return digits.lstrip("0") or "0" if digits.isascii() and digits.isdigit() else text


def read_groups(path: str | os.PathLike[str]) -> dict[str, tuple[int, ...]]:
    """Reads a comm-group file: JSON `{"<group id>": [rank, …], …}` with ids > 0.

    Raises InputError naming the file, the group and what was expected.
    """
    where = os.fspath(path)
    try:
        with open(where, encoding="utf-8") as file:
            pairs = json.load(file, object_pairs_hook=list)
    except OSError as error:
        raise InputError("", f"comm-group file: {where} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(where, f"not JSON: {error}", expected='{"1": [0, 1], "2": [2, 3], …}') from None
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        raise InputError(where, "not a JSON object", expected='{"1": [0, 1], "2": [2, 3], …}')
    groups: dict[str, tuple[int, ...]] = {}
    for name, members in pairs:
        number = _group_id(where, name)
        if number in groups:
            raise InputError(where, f"group {name!r} is there twice")
        groups[number] = _members(where, f"group {name!r}", members)
    return groups


def groups_of(traces: Traces) -> dict[str, tuple[int, ...]]:
    """Groups that METADATA nodes define (PyTorch's `## process_group:init ##`); empty where there are none.

    Raises TraceError where such a node cannot be read, or where two ranks define one name differently.
    """
    if traces.groups is not None:
        return dict(traces.groups)
    found: dict[str, tuple[int, ...]] = {}
    defined_by: dict[str, int] = {}
    for number, columns in enumerate(traces.classes):
        if not len(columns.meta_node):
            continue
        rank = int(traces.members(number)[0])
        for index in range(len(columns.meta_node)):
            for name, members in _node_groups(traces, columns, index, rank).items():
                if found.setdefault(name, members) != members:
                    node = int(columns.meta_node[index])
                    raise TraceError(traces.sources[rank], f"process group {name!r} has other ranks than rank "
                                     f"{defined_by[name]} gives it", rank=rank, node=int(columns.node_id[node]),
                                     name=columns.name(node), expected="one list of ranks for one name")
                defined_by.setdefault(name, rank)
    return found


def groups_text(groups: Iterable[tuple[str, Sequence[int]]]) -> str:
    """`inputs.values` of the node GROUPS_NODE: a printed Python list of one JSON text, as Chakra's readers expect."""
    return repr([json.dumps([{"pg_name": name, "ranks": list(ranks), "group_size": len(ranks)}
                             for name, ranks in groups])])


def _group_id(where: str, name: str) -> str:
    if not (name.isascii() and name.isdigit() and name.strip("0")):
        raise InputError(where, f"group id {name[:60]!r}", expected="a whole number above 0, as text")
    return group_key(name)


def _members(where: str, what: str, members: object) -> tuple[int, ...]:
    if not isinstance(members, list) or not members:
        raise InputError(where, f"{what}: {members!r:.60}", expected="a list of at least one rank")
    for member in members:
        if isinstance(member, bool) or not isinstance(member, int) or member < 0:
            raise InputError(where, f"{what}: rank {member!r:.60}", expected="whole numbers from 0")
    if len(set(members)) != len(members):
        twice = next(m for i, m in enumerate(members) if m in members[:i])
        raise InputError(where, f"{what}: rank {twice} is there twice", expected="each rank once")
    return tuple(members)


def _node_groups(traces: Traces, columns: Columns, index: int, rank: int) -> dict[str, tuple[int, ...]]:
    """Groups of one METADATA node. A node that is not about process groups has none."""
    node = int(columns.meta_node[index])
    items = _listed(columns.inputs_values(index))
    if items is None:
        if "process_group:init" not in columns.name(node):
            return {}
        raise TraceError(traces.sources[rank], "inputs.values cannot be read", rank=rank,
                         node=int(columns.node_id[node]), name=columns.name(node),
                         expected="""['[{"pg_name": "1", "ranks": [0, 1]}, …]']""")
    groups = {}
    where = f"{traces.sources[rank]}: rank {rank}, node {int(columns.node_id[node])} ({columns.name(node)})"
    for item in items:
        ranks = item["ranks"] or list(range(traces.ranks))   # an empty list means all ranks
        groups[group_key(str(item["pg_name"]))] = _members(where, f"process group {item['pg_name']!r}", ranks)
    return groups


def _listed(text: str) -> list[dict[str, Any]] | None:
    """The JSON list inside a printed Python list of one string; None where it is something else."""
    try:
        outer = ast.literal_eval(text)
        single = isinstance(outer, list) and len(outer) == 1 and isinstance(outer[0], str)
        inner = json.loads(outer[0]) if single else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    good = isinstance(inner, list) and all(isinstance(i, dict) and "pg_name" in i and "ranks" in i for i in inner)
    return inner if good else None
