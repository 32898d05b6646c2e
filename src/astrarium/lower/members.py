"""Whether the ranks that issue a group's collectives are in the group, under either rule book."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I32, I64
from astrarium.lower.node_tables import COMM_TYPE
from astrarium.trace.work import TraceClass
from astrarium.vocab import NodeKind

__all__ = ["Members", "first_nodes", "member_test", "refuse_foreign_groups", "refuse_strangers"]

MEMBER_TABLE = 1 << 26  # entries of the group x rank table; larger ones are searched


class Members(Struct, frozen=True, eq=False):
    """Who is in which group, one entry per member of each: `owner`, the number of the group, and `member`, the rank."""

    groups: Sequence[I32]
    owner: I64
    member: I64

    @staticmethod
    def of(groups: Sequence[I32]) -> Members:
        """Make the members of groups."""
        owner = np.repeat(np.arange(len(groups), dtype=np.int64), list(map(len, groups)))
        return Members(groups, owner, np.concatenate([np.zeros(0, np.int32), *groups]).astype(np.int64))

    def test(self, ranks: int) -> Callable[[I64], npt.NDArray[np.bool_]]:
        """Tells of group * ranks + rank whether the rank is in the group."""
        pairs = self.owner * ranks + self.member
        if len(self.groups) * ranks > MEMBER_TABLE:
            pairs.sort()
            return lambda keys: pairs[np.minimum(np.searchsorted(pairs, keys), pairs.size - 1)] == keys
        table = np.zeros(len(self.groups) * ranks, np.bool_)
        table[pairs] = True
        return lambda keys: table[keys]


def member_test(groups: Sequence[I32], npus: int) -> Callable[[I64], npt.NDArray[np.bool_]]:
    """See Members.test."""
    return Members.of(groups).test(npus)


def first_nodes(trace: TraceClass, nodes: I64) -> I64:
    """[slots] the first of the comm `nodes` of every slot; -1 of a slot that none has."""
    if trace.slot is None:
        return nodes
    first = np.full(trace.slot_b.shape[1], -1, np.int64)
    first[trace.slot[::-1]] = nodes[::-1]
    return first


def refuse_strangers(trace: TraceClass, nodes: I64, group: I32, groups: Sequence[I32], ranks: int,
                     inside: Callable[[I64], npt.NDArray[np.bool_]]) -> None:
    """TraceError where a rank of `trace` issues a collective of a group that it is not in.

    `group` [ranks of the trace, nodes]: the group of node index `nodes[i]`, or -1 for all ranks; `inside`: what
    `Members.test` gave.
    """
    bad = (group >= 0) & ~inside(np.maximum(group, 0).astype(np.int64) * ranks + trace.ranks[:, None])
    for row, place in np.argwhere(bad)[:1] if bad.any() else ():
        members = groups[int(group[row, place])].tolist()
        shown = ", ".join(map(str, members[:8])) + (", …" if len(members) > 8 else "")
        raise trace.fault(int(nodes[place]), "a collective of a group that the rank is not in", row=int(row),
                          expected=f"one of the group's ranks: {shown}")


def refuse_foreign_groups(classes: Sequence[TraceClass], members: Members, ranks: int) -> None:
    """TraceError where a rank of some class issues a collective of a group that it is not in; costs ranks x slots."""
    if not members.groups:
        return
    inside = members.test(ranks)
    for trace in classes:
        nodes = first_nodes(trace, np.flatnonzero(COMM_TYPE[trace.type]))
        collective = np.flatnonzero(trace.type[nodes] == NodeKind.COMM_COLL)
        refuse_strangers(trace, nodes[collective], trace.slot_b[:, collective], members.groups, ranks, inside)
