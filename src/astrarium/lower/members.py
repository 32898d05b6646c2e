"""Whether the ranks that issue a group's collectives are in the group, under either rule book."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from astrarium.lower.astra_programs import COMM_TYPE
from astrarium.trace.work import TraceClass
from astrarium.vocab import NodeKind

__all__ = ["member_test", "refuse_foreign_groups", "refuse_strangers"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
MEMBER_TABLE = 1 << 26  # entries of the group x rank table; larger ones are searched


def member_test(groups: Sequence[I32], npus: int) -> Callable[[I64], npt.NDArray[np.bool_]]:
    """Tells of group * npus + rank whether the rank is in the group."""
    owner = np.repeat(np.arange(len(groups), dtype=np.int64), [group.size for group in groups])
    pairs = np.sort(owner * npus + np.concatenate([np.zeros(0, np.int32), *groups]))
    if len(groups) * npus > MEMBER_TABLE:
        return lambda keys: pairs[np.minimum(np.searchsorted(pairs, keys), pairs.size - 1)] == keys
    table = np.zeros(len(groups) * npus, np.bool_)
    table[pairs] = True
    return lambda keys: table[keys]


def refuse_strangers(trace: TraceClass, nodes: I64, group: I32, groups: Sequence[I32], ranks: int,
                     inside: Callable[[I64], npt.NDArray[np.bool_]]) -> None:
    """TraceError where a rank of `trace` issues a collective of a group that it is not in.

    `group` [ranks of the trace, nodes]: the group of node index `nodes[i]`, or -1 for all ranks; `inside`: what
    `member_test` gave.
    """
    bad = (group >= 0) & ~inside(np.maximum(group, 0).astype(np.int64) * ranks + trace.ranks[:, None])
    for row, place in np.argwhere(bad)[:1] if bad.any() else ():
        members = groups[int(group[row, place])].tolist()
        shown = ", ".join(map(str, members[:8])) + (", …" if len(members) > 8 else "")
        raise trace.fault(int(nodes[place]), "a collective of a group that the rank is not in", row=int(row),
                          expected=f"one of the group's ranks: {shown}")


def refuse_foreign_groups(classes: Sequence[TraceClass], groups: Sequence[I32], ranks: int) -> None:
    """TraceError where a rank of some class issues a collective of a group that it is not in; costs ranks x slots."""
    if not groups:
        return
    inside = member_test(groups, ranks)
    for trace in classes:
        nodes = np.flatnonzero(COMM_TYPE[trace.type])
        if trace.slot is not None:      # a node of every slot
            nodes = nodes[np.unique(trace.slot, return_index=True)[1]]
        group = np.where(trace.type[nodes] == NodeKind.COMM_COLL, trace.slot_b, -1)
        refuse_strangers(trace, nodes, group, groups, ranks, inside)
