"""Dimension-ordered routes written down once more: an independent account of which links a message loads.

Nothing here imports the engine. A link is (dim, from NPU, to NPU); -1 stands for a switch. NPU number = sum of
coordinate * product of the inner dims' sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

__all__ = ["Link", "Message", "Side", "bytes_per_link", "hops", "route"]

Link = tuple[int, int, int]
Message = tuple[int, int, int]     # source NPU, destination NPU, bytes


class Side(Struct, frozen=True):
    """One dim: ring, one_way, switch, full, mesh or cube; bandwidth in bytes/ns, latency in ns per hop."""

    kind: str
    npus: int
    bandwidth: float
    latency: float


def _steps(kind: str, count: int, here: int, there: int) -> Iterator[tuple[int, int]]:
    """The hops between two coordinates of one dim, as (from, to); -1 is the switch."""
    if kind == "switch":
        yield here, -1
        yield -1, there
    elif kind == "full":
        yield here, there
    elif kind == "cube":
        for bit in range(count.bit_length()):
            if (here ^ there) >> bit & 1:
                yield here, here ^ (1 << bit)
                here ^= 1 << bit
    else:
        clockwise = (there - here) % count
        backwards = there < here if kind == "mesh" else kind == "ring" and count - clockwise < clockwise
        while here != there:
            after = here + (-1 if backwards else 1)
            yield here, after % count
            here = after % count


def route(sides: Sequence[Side], source: int, destination: int) -> Iterator[Link]:
    """The links of a message, innermost dim first."""
    at, stride = source, 1
    for dim, side in enumerate(sides):
        here, there = at // stride % side.npus, destination // stride % side.npus
        start = at - here * stride
        if here != there:
            for a, b in _steps(side.kind, side.npus, here, there):
                yield dim, -1 if a < 0 else start + a * stride, -1 if b < 0 else start + b * stride
        at, stride = start + there * stride, stride * side.npus


def hops(sides: Sequence[Side], source: int, destination: int) -> int:
    """How many links a message crosses."""
    return sum(1 for _ in route(sides, source, destination))


def bytes_per_link(sides: Sequence[Side], messages: Iterable[Message]) -> dict[Link, int]:
    """Bytes that every link carries; links without bytes are left out."""
    carried: dict[Link, int] = {}
    for source, destination, size in messages:
        for link in route(sides, source, destination):
            if size:
                carried[link] = carried.get(link, 0) + size
    return carried
