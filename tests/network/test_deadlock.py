"""Circles of the channel dependency graph, against all ways written out."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws
from tests.plans.graphs import graph_from, random_graph, shortest_ways

from astrarium.engine.plan import FIRST_LINK, Dim, NetworkPlan, PacketRules, Shape
from astrarium.errors import UnsupportedError
from astrarium.fabric.graph import graph_of
from astrarium.network.deadlock import circle_in, circle_of
from astrarium.oracle.fabric import fabric_of

FINITE = PacketRules(buffer=8192)


def has_cycle(after: dict[int, set[int]]) -> bool:
    """Take away what nothing comes after, until nothing is left or something stays."""
    left = {came: set(going) for came, going in after.items()}
    while True:
        ends = [came for came, going in left.items() if not going & left.keys()]
        if not ends:
            return bool(left)
        for came in ends:
            del left[came]


def dependencies(ways: list[list[int]]) -> dict[int, set[int]]:
    after: dict[int, set[int]] = {}
    for way in ways:
        for came, going in pairwise(way):
            after.setdefault(came, set()).add(going)
    return after


@given(st.integers(0, 2**32), st.booleans())
@draws(40)
def test_a_circle_is_found_where_there_is_one(seed: int, first: bool) -> None:
    rng = random.Random(seed)
    npus = rng.randint(2, 7)
    graph = random_graph(rng, npus)
    network = NetworkPlan("packets", (Dim(Shape.SWITCH, npus, 1.0, 1.0),), graph=graph, packets=FINITE,
                          ecmp=FIRST_LINK if first else 3)
    pairs = [(a, b) for a in range(npus) for b in range(npus) if a != b]
    if first:
        fabric = fabric_of(network)
        ways = [[hop.port[3] for hop in fabric.between(*pair)] for pair in pairs]
    else:
        ways = [way for pair in pairs for way in shortest_ways(graph, *pair)]
    after, circle = dependencies(ways), circle_in(network)
    assert bool(circle) == has_cycle(after)
    assert all(going in after[came] for came, going in zip(circle, circle[1:] + circle[:1], strict=True))


@pytest.mark.parametrize("shape", list(Shape))
@pytest.mark.parametrize("npus", [2, 3, 4, 5, 8])
def test_of_dims_only_rings_turn_round(shape: Shape, npus: int) -> None:
    """As the graph of the dims says, with the ways of the dims."""
    if shape == Shape.HYPERCUBE and npus & (npus - 1):
        return
    dims = (Dim(Shape.SWITCH, 2, 1.0, 1.0), Dim(shape, npus, 1.0, 1.0))
    network = NetworkPlan("packets", dims, packets=FINITE)
    on_graph = replace(network, graph=graph_of(dims), ecmp=FIRST_LINK)
    circle = circle_in(on_graph)
    if not circle:
        circle_of(network)
        return
    with pytest.raises(UnsupportedError, match=r"dim 1 \(a ring of"):
        circle_of(network)
    with pytest.raises(UnsupportedError, match=rf"links {circle[0]} \("):
        circle_of(on_graph)


def test_links_without_limit_wait_for_nobody() -> None:
    """A ring of five whose one link has no limit breaks the circle of one way round."""
    ring = [(n, (n + 1) % 5, 1.0, 1.0) for n in range(5)]
    graph = graph_from(5, ring)
    network = NetworkPlan("packets", (Dim(Shape.SWITCH, 5, 1.0, 1.0),), graph=replace(graph, buffer=np.full(5, 9000)))
    assert circle_in(network) == [0, 1, 2, 3, 4]
    buffer = np.array([0, 9000, 9000, 9000, 9000])
    assert not circle_in(replace(network, graph=replace(graph, buffer=buffer)))
