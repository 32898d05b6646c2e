"""Process groups of a linked trace."""

from __future__ import annotations

from typing import Any

import msgspec

from astrarium.profile.link.host import HostTrace
from astrarium.profile.link.records import MAX_MEMBERS, CommArgs, DeviceTrace
from astrarium.profile.link.text import UNREADABLE

__all__ = ["all_groups"]


def all_groups(host: HostTrace | None, trace: DeviceTrace) -> dict[str, tuple[int, ...]]:
    """Group name -> global ranks: from Kineto's `pg_config`, else its kernels' arguments, else the host trace's own
    `process_group:init` node, where an empty list means all ranks."""
    groups = dict(trace.groups)
    for args in (*trace.comms.values(), *trace.op_comms.values()):
        _from_args(groups, args)
    if host is not None:
        for node, name in enumerate(host.name):
            if "process_group:init" in name:
                _from_host(groups, host, node)
    return dict(sorted(groups.items()))


def _from_args(groups: dict[str, tuple[int, ...]], args: CommArgs) -> None:
    if args.group and args.ranks:
        groups.setdefault(args.group, args.ranks)


def _from_host(groups: dict[str, tuple[int, ...]], host: HostTrace, node: int) -> None:
    try:
        values = msgspec.json.decode(host.tensors(node)[0].values, type=list[str])
        listed: Any = msgspec.json.decode(values[0].encode()) if values else []
    except UNREADABLE:
        return
    for item in listed if isinstance(listed, list) else ():
        if not isinstance(item, dict) or not isinstance(item.get("pg_name"), (str, int)):
            continue
        ranks, size = item.get("ranks"), item.get("group_size")
        room = MAX_MEMBERS - sum(map(len, groups.values()))
        if ranks == [] and isinstance(size, int) and 0 < size < room:
            ranks = list(range(size))
        if isinstance(ranks, list) and 0 < len(ranks) <= room and _distinct(ranks):
            groups.setdefault(str(item["pg_name"]), tuple(ranks))


def _distinct(ranks: list[Any]) -> bool:
    whole = all(isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 1 << 31 for rank in ranks)
    return whole and len(set(ranks)) == len(ranks)
