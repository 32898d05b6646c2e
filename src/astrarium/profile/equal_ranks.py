"""One recorded rank in the place of all: what a network makes of a job whose ranks are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from astrarium.arrays import I32
from astrarium.errors import InputError, UnsupportedError
from astrarium.profile.recorded import world_size
from astrarium.trace.columns import Columns, Traces
from astrarium.trace.groups import group_key, groups_of
from astrarium.vocab import NodeKind

__all__ = ["equal_ranks"]

Members = tuple[int, ...]


def equal_ranks(traces: Traces, rank: int, ranks: int, groups: Mapping[str, Members] | None = None) -> Traces:
    """Traces of `ranks` ranks that all do what `rank` did, of which `traces` holds the trace alone. `groups` are those
    that its collectives name, where its file does not define them.

    Groups of all recorded ranks become groups of all. Any other group is taken for one of a grid, so that every rank is
    in one that lies alike; the job must have been of `ranks` ranks then. Raises UnsupportedError for messages, whose
    other ends cannot be equal, and for groups that are no part of a grid; InputError for another number of ranks.
    """
    columns, source = traces.classes[0], traces.sources[0]
    messages = columns.comm_node[columns.type[columns.comm_node] != NodeKind.COMM_COLL]
    if messages.size:
        raise UnsupportedError("workload.rank", f"{source}: rank {rank} sends or receives messages "
                               f"({columns.name(int(messages[0]))[:60]!r}), so its ranks are not equal",
                               expected="a rank that only meets others in collectives, or traces of all ranks")
    known = groups_of(traces) if groups is None else groups
    used = [group_key(traces.texts[number]) for number in sorted(set(columns.group[0].tolist())) if number >= 0]
    size = world_size(traces, 0) or max((max(members) + 1 for members in known.values()), default=ranks)
    parts = {name: _grid(name, known[name], rank, size, ranks) for name in used if name in known}
    return _spread(traces, columns, parts, ranks)


def _grid(name: str, members: Members, rank: int, size: int, ranks: int) -> list[Members]:
    """The groups, one after the other, into which all ranks fall."""
    if sorted(members) == list(range(size)):
        return [tuple(range(ranks))]
    where = f"group {name!r} of rank {rank} has {len(members)} of {size} ranks"
    if ranks != size:
        raise InputError("workload.rank", f"{where}, so that the groups of {ranks} ranks are not known",
                         expected=f"a network of {size} NPUs")
    ordered = sorted(members)
    stride = ordered[1] - ordered[0] if len(ordered) > 1 else 1
    first = rank - (rank // stride) % len(ordered) * stride if stride else -1
    if rank not in members or size % (stride * len(ordered)) or \
            ordered != list(range(first, first + stride * len(ordered), stride)):
        raise UnsupportedError("workload.rank", f"{where}, {ordered[:8]}, which is no part of a grid",
                               expected="traces of all ranks")
    bases = [base for base in range(size) if (base // stride) % len(ordered) == 0]
    return [tuple(member + base - first for member in members) for base in bases]


def _spread(traces: Traces, columns: Columns, parts: Mapping[str, Sequence[Members]], ranks: int) -> Traces:
    """One class of `ranks` rows; groups under new names where there are several in the place of one."""
    texts, groups = list(traces.texts), dict[str, Members]()
    group: I32 = np.repeat(columns.group, ranks, axis=0)
    number = 1 + max((int(name) for name in parts if name.isdigit()), default=0)
    for name, found in parts.items():
        same = [place for place, text in enumerate(traces.texts) if group_key(text) == name]
        mine = np.isin(columns.group[0], same)
        for place, members in enumerate(found):
            new = name if place == 0 else str(number)
            number += place > 0
            groups[new] = members
            texts.append(new)
            group[np.array(members)[:, None], np.flatnonzero(mine)] = len(texts) - 1
    source, destination, tag = (np.repeat(each, ranks, axis=0)
                                for each in (columns.source, columns.destination, columns.tag))
    made = replace(columns, group=group, source=source, destination=destination, tag=tag,
                   source_class=_Same(columns.source_class))
    return Traces((made,), np.zeros(ranks, np.int32), np.arange(ranks, dtype=np.int32), tuple(texts),
                  traces.sources * ranks, dict.fromkeys(range(ranks), traces.described.get(0, b"")), groups)


class _Same:
    """Rebuilds one file, whichever rank is asked for."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def rebuild(self, row: int) -> bytes:
        """The bytes of the recorded rank's file."""
        del row
        return bytes(self._of.rebuild(0))
