"""`network.routes`: paths between NPUs of a fabric that a design gives, in addition to the shortest ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Annotated

import numpy as np

from astrarium.config import Config, Knob
from astrarium.engine.plan import GivenRoutes
from astrarium.engine.routes import FAR, Routes
from astrarium.errors import InputError
from astrarium.fabric.built import Built

__all__ = ["Route", "given_routes"]

MOST = 1 << 22      # links of all routes
End = str | int


class Route(Config, frozen=True, kw_only=True):
    """The way of messages from some NPUs to others: through `via`, in this order, and between these as short as
    possible, by the first link where several are."""

    source: Annotated[str | int, Knob("Number of an NPU, or a name of the fabric (host.0: all NPUs in it).")]
    destination: Annotated[str | int, Knob("The same of NPUs that the messages are for.")]
    via: Annotated[Sequence[str | int], Knob("Devices that they pass, in order: leaf.0, spine.1; numbers of NPUs.")]


@lru_cache(maxsize=8)
def given_routes(routes: Sequence[Route], built: Built) -> GivenRoutes | None:
    """The routes link by link, one value for equal ones; None where there are none.

    Raises InputError, with the path of the route, for an end that has no NPU, a device that is not in the graph or is
    several nodes, a way that would come to a node twice or that a missing link cuts, and a pair of NPUs that two routes
    are of.
    """
    if not routes:
        return None
    ways = Routes(built.graph)
    rows: list[tuple[int, int, int]] = []
    by: dict[tuple[int, int], int] = {}
    for place, route in enumerate(routes):
        path = f"network.routes[{place}]"
        via = [_node(built, end, f"{path}.via[{number}]") for number, end in enumerate(route.via)]
        for pair in _pairs(built, route, path):
            if by.setdefault(pair, place) != place:
                raise InputError(path, f"NPU {pair[0]} to NPU {pair[1]} has a way by network.routes[{by[pair]}], too",
                                 expected="one route of a pair of NPUs")
            rows += [(*pair, link) for link in _links(built, ways, (pair[0], *via, pair[1]), path)]
            if len(rows) > MOST:
                raise InputError(path, f"more than {MOST:,} links in all routes", expected="fewer pairs of NPUs")
    columns = np.array(rows, np.int32).reshape(-1, 3)
    return GivenRoutes(*(np.ascontiguousarray(columns[:, side]) for side in range(3)))


def _pairs(built: Built, route: Route, path: str) -> Iterator[tuple[int, int]]:
    sources, destinations = (_npus(built, end, f"{path}.{name}") for name, end in
                             (("source", route.source), ("destination", route.destination)))
    found = [(one, two) for one in sources for two in destinations if one != two]
    if not found:
        raise InputError(path, f"goes from {route.source} to itself", expected="two NPUs")
    yield from found


def _npus(built: Built, end: End, path: str) -> list[int]:
    found = [int(node) for node in built.nodes(end, path) if node < built.npus]
    if not found:
        raise InputError(path, f"{end!r} has no NPU", expected="an NPU, or a device with NPUs")
    return found


def _node(built: Built, end: End, path: str) -> int:
    found = built.nodes(end, path)
    if found.size != 1:
        some = ", ".join(built.name(int(node)) for node in found[:4])
        raise InputError(path, f"{end!r} is {found.size} nodes of the graph" + (f" ({some}, ...)" if some else ""),
                         expected="one of them" if some else "a device on a way between NPUs")
    return int(found[0])


def _links(built: Built, ways: Routes, stops: Sequence[int], path: str) -> list[int]:
    """The links of the way through `stops`. Raises InputError where it comes to a node twice, or there is none."""
    found: list[int] = []
    been = {stops[0]}
    for one, two in pairwise(stops):
        if ways.distances_to(two)[one] == FAR:
            raise InputError(path, f"there is no way from {built.name(one)} to {built.name(two)}",
                             expected="devices that links join")
        for link in ways.between(one, two):
            found.append(link)
            at = ways.target[link]
            if at in been:
                raise InputError(path, f"the way from {built.name(stops[0])} to {built.name(stops[-1])} comes to "
                                 f"{built.name(at)} twice", expected="a way without a loop")
            been.add(at)
        if one == two:
            raise InputError(path, f"passes {built.name(one)} twice in a row", expected="a way without a loop")
    return found
