"""A custom collective in a group: which program and which ranks each member has, as in ASTRA-sim."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from astrarium.arrays import I32
from astrarium.engine.plan import CustomProgram, Kind, Program
from astrarium.errors import InputError, TraceError

__all__ = ["CustomCollective", "custom_program"]

RUNS = (Kind.SEND, Kind.RECV, Kind.DELAY)


class CustomCollective(Struct, frozen=True, eq=False):
    """A custom collective as ASTRA-sim reads it: program q is trace `prefix.q.et`, read from `sources[q]`.

    `peer`, `tag` [comm nodes]; `roots`: the nodes without parents in the order in which they become free.
    """

    programs: tuple[Program, ...]
    peer: tuple[I32, ...]
    tag: tuple[I32, ...]
    roots: tuple[I32, ...]
    sources: tuple[str, ...]


def custom_program(custom: CustomCollective, listed: I32, order: I32) -> CustomProgram:
    """The programs of a group's members. Raises TraceError, naming file and node, for one that does not fit.

    A rank runs the program of its place among the sorted members, but peer numbers count in the order of the group's
    list, `listed`. `order` is the engine's order of the members. Programs beyond the group's size are not used.
    """
    members = listed.size
    if len(custom.programs) < members:
        raise InputError(custom.sources[0] if custom.sources else "custom collective",
                         f"{len(custom.programs)} programs, but a group has {members} ranks",
                         expected="one program per rank")
    for position, rank in enumerate(np.sort(listed).tolist()):
        _check_program(custom, position, rank, listed)
    place = np.empty(int(listed.max()) + 1, dtype=np.int32)
    place[order] = np.arange(members, dtype=np.int32)
    peers = tuple(_peers(custom, position, listed, place) for position in range(members))
    return CustomProgram(custom.programs[:members], np.argsort(np.argsort(order)).astype(np.int32), peers,
                         custom.tag[:members], custom.roots[:members])


def _peers(custom: CustomCollective, position: int, listed: I32, place: I32) -> I32:
    found: I32 = place[listed[custom.peer[position]]].astype(np.int32)
    return found


def _check_program(custom: CustomCollective, position: int, rank: int, listed: I32) -> None:
    """Refuse what ASTRA-sim exits, aborts or never ends on."""
    program, source = custom.programs[position], custom.sources[position]
    if not program.node_id.size:
        raise TraceError(source, "no nodes, so this rank's part of the custom collective never ends",
                         expected="send, receive or compute nodes")
    for i in np.flatnonzero(~np.isin(program.kind, RUNS))[:1].tolist():
        raise TraceError(source, "a node that a custom collective cannot run", node=int(program.node_id[i]),
                         expected="send, receive and compute nodes")
    peer = custom.peer[position]
    for i in np.flatnonzero(program.slot >= 0).tolist():
        number = int(peer[program.slot[i]])
        if number >= listed.size:
            raise TraceError(source, f"its peer is position {number}, but the group that runs it has {listed.size} "
                             "ranks", node=int(program.node_id[i]), expected=f"a position of 0..{listed.size - 1}")
        if int(listed[number]) == rank:
            raise TraceError(source, f"a message of rank {rank} to itself: position {number} of the group is that rank",
                             node=int(program.node_id[i]), expected="another position")
