"""all_to_alls whose ranks exchange unequal amounts: as what back ends make of them, a message to and from each rank."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from astrarium.profile.link.comm import Comm

__all__ = ["spread"]


def spread(comm: Comm, rank: int, groups: Mapping[str, tuple[int, ...]]) -> list[Comm] | None:
    """An all_to_all with stated parts as messages, those that `rank` sends first, each to the next of its group in
    turn, as NCCL does: also on a rank that gets the same from all others, which may be the only one. Itself where all
    parts are equal, what a rank keeps too; None where its members are not known."""
    if comm.op != "all_to_all" or comm.splits is None:
        return [comm]
    sent, received = comm.splits
    members = groups.get(comm.group or "", tuple(range(len(sent))) if comm.group in (None, "", "0") else ())
    if len(members) != len(sent) or rank not in members:
        return None
    own, count = members.index(rank), len(members)
    if count == 1:
        return [comm]
    if sent[0] and len({*sent, *received}) == 1:    # what all ranks do if capacities are equal
        return [replace(comm, size=sum(sent))]
    after = [(own + step) % count for step in range(1, count)]
    return ([Comm("send", sent[place], comm.group, members[place]) for place in after if sent[place]]
            + [Comm("recv", received[place], comm.group, members[place]) for place in after[::-1] if received[place]])
