"""Who waits for whom between streams and communications, from the dependencies of the trace: vector clocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from astrarium.profile.execute.program import Program

__all__ = ["waits_of"]

Clock = dict[int, int]      # lane -> the last item of it that has ended


class _Item(Protocol):
    @property
    def nodes(self) -> list[int]: ...
    @property
    def lane(self) -> tuple[object, ...]: ...


def waits_of(program: Program, items: Sequence[_Item]) -> list[tuple[int, ...]]:
    """[items] the items of other lanes that each waits for, without those that its lane has waited for before.

    Items of a lane (a stream, a group's communications) follow each other. Those without a lane run on the host, which
    follows itself. A dependency through any number of host nodes counts.
    """
    number: dict[tuple[object, ...], int] = {}
    item_of = {node: place for place, item in enumerate(items) for node in item.nodes}
    lanes = [number.setdefault(item.lane, len(number)) if item.lane else -1 for item in items]
    needs: list[Clock] = [{} for _ in items]
    parents = _parents(program)
    clocks: list[Clock] = [{}] * len(parents)
    for node in program.order:
        clock = _joined([clocks[parent] for parent in parents[node]])
        place = item_of.get(node, -1)
        if place >= 0:
            needs[place] = _joined([needs[place], clock])
            if lanes[place] >= 0 and clock.get(lanes[place], -1) < place:
                clock = {**clock, lanes[place]: place}
        clocks[node] = clock
    return _fewest(needs, lanes)


def _parents(program: Program) -> list[list[int]]:
    parents: list[list[int]] = [[] for _ in program.order]
    for node, children in enumerate(program.children):
        for child in children:
            parents[child].append(node)
    return parents


def _joined(clocks: Sequence[Clock]) -> Clock:
    """The later of each lane; one of `clocks` itself where it has them all."""
    out: Clock = {}
    for clock in clocks:
        if clock is out or not clock:
            continue
        if not out:
            out = clock
            continue
        later = {lane: place for lane, place in clock.items() if out.get(lane, -1) < place}
        out = {**out, **later} if later else out
    return out


def _fewest(needs: Sequence[Clock], lanes: Sequence[int]) -> list[tuple[int, ...]]:
    seen: dict[int, Clock] = {}
    out = []
    for place, need in enumerate(needs):
        own = lanes[place]
        known = seen.setdefault(own, {})
        waits = [other for lane, other in need.items() if lane != own and known.get(lane, -1) < other < place]
        known.update({lane: max(other, known.get(lane, -1)) for lane, other in need.items()})
        out.append(tuple(sorted(waits)))
    return out
