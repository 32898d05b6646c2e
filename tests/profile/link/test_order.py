"""Nodes in an order in which no dependency goes back: by time, as far as dependencies allow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from astrarium.profile.link.nodes import Draft, ordered

TIMES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8)


def drafted(times: list[tuple[int, int]], edges: list[tuple[int, int]]) -> Draft:
    draft = Draft()
    for start, length in times:
        draft.node(start, start + length, 0, 0, 0)
    for before, after in edges:
        draft.edge(before, after)
    return draft


@given(TIMES, st.data())
def test_edges_without_a_cycle_are_all_kept(times: list[tuple[int, int]], data: st.DataObject) -> None:
    rank = data.draw(st.permutations(range(len(times))))
    pairs = st.tuples(*[st.integers(0, len(times) - 1)] * 2).filter(lambda pair: rank[pair[0]] < rank[pair[1]])
    edges = data.draw(st.lists(pairs, max_size=12)) if len(times) > 1 else []
    order = ordered(drafted(times, edges))
    assert order.dropped == 0
    assert sorted(order.node.tolist()) == list(range(len(times)))
    kept = {(int(order.node[order.before[edge]]), int(order.node[place])) for place in range(len(times))
            for edge in range(order.ptr[place], order.ptr[place + 1])}
    assert kept == set(edges)
    assert all(order.place[before] < order.place[after] for before, after in edges)


@given(TIMES, st.data())
def test_cycles_are_broken(times: list[tuple[int, int]], data: st.DataObject) -> None:
    edges = data.draw(st.lists(st.tuples(*[st.integers(0, len(times) - 1)] * 2), max_size=12))
    order = ordered(drafted(times, edges))
    assert sorted(order.node.tolist()) == list(range(len(times)))
    for place in range(len(times)):
        assert all(parent < place for parent in order.before[order.ptr[place]:order.ptr[place + 1]])
    assert order.dropped <= len(edges)


def test_time_decides_where_dependencies_do_not() -> None:
    order = ordered(drafted([(5, 1), (0, 2), (0, 1), (5, 1)], []))
    assert order.node.tolist() == [2, 1, 0, 3]
