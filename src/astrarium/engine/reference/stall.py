"""Why a run cannot go on: one sentence per waiting node, by rank, with node ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from astrarium.engine.plan import Kind
from astrarium.engine.reference.meetings import Meeting, Meetings
from astrarium.engine.reference.program import Table
from astrarium.errors import Wait

__all__ = ["Stalled", "stall_waits"]


class Stalled(Protocol):
    """What is known of a rank that has not finished."""

    flying: set[int]
    parents: list[int]

    @property
    def ready(self) -> list[list[int]]: ...


def stall_waits(unfinished: Sequence[tuple[int, Table, Stalled, dict[int, Meeting]]], meetings: Meetings,
                argument: Callable[[int, int], tuple[int, int, int]]) -> list[Wait]:
    """What StallError says, ranks ascending; `argument(rank, node)` gives the slots of a comm node."""
    result = []
    for rank, rows, state, joined in unfinished:
        for node in sorted(state.flying):
            text = _in_flight(rank, node, rows, meetings, joined, argument)
            result.append(_wait(rank, rows.node_id[node], text))
        if not state.flying:
            result.append(_wait(rank, *_blocked(rows, state)))
    return result


def _wait(rank: int, node: int, text: str) -> Wait:
    return Wait(f"rank {rank}: node {node} {text}", rank, node)


def _in_flight(rank: int, node: int, rows: Table, meetings: Meetings, joined: dict[int, Meeting],
               argument: Callable[[int, int], tuple[int, int, int]]) -> str:
    kind, size = rows.kind[node], rows.size[node]
    if kind == Kind.COLLECTIVE:
        return f"({meetings.sentence(rank, joined[node])})"
    if kind in (Kind.SEND, Kind.RECV):
        peer, tag, _ = argument(rank, node)
        if kind == Kind.RECV:
            return f"(recv from {peer}, tag {tag}, {size} bytes) waits for a send that never comes"
        return f"(send to {peer}, tag {tag}, {size} bytes) waits for a receive that never comes"
    return "never ends"


def _blocked(rows: Table, state: Stalled) -> tuple[int, str]:
    ready = [node for heap in state.ready for node in heap]
    if ready:
        node = min(ready)
        return rows.node_id[node], f"is ready, but its lane ({rows.lane[node]}) has no room"
    node = next(i for i, parents in enumerate(state.parents) if parents > 0)
    parents = [i for i, children in enumerate(rows.children) if node in children and state.parents[i] > 0]
    parent = rows.node_id[parents[0]] if parents else "?"
    return rows.node_id[node], f"waits for node {parent}, which never starts (a cycle?)"
