"""The collectives that inference finds, carried out on numpy shards, give the tensor that is wanted."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astrarium.errors import InternalError
from astrarium.vocab import CommOp
from astrarium.workload.graph.infer import Placed, changes
from astrarium.workload.graph.layout import Layout

AXES = ("a", "b", "c")
DEGREES = {"a": 2, "b": 3, "c": 2}
SIZE = 12


def coordinates():
    return [dict(zip(AXES, place)) for place in itertools.product(*(range(DEGREES[axis]) for axis in AXES))]


def shard(full, axes_by_place, where):
    """The part of `full` that the rank at `where` holds; the first axis of a dim varies slowest."""
    for place, axes in enumerate(axes_by_place):
        for axis in axes:
            full = np.array_split(full, DEGREES[axis], axis=place)[where[axis]]
    return full


def key(where, axes):
    return tuple(where[axis] for axis in AXES if axis not in axes)


def in_group(ranks, mine, axes):
    """Members of the group of `mine` over `axes`, in order of the axes."""
    group = [other for other in ranks if key(other, axes) == key(mine, axes)]
    return sorted(group, key=lambda other: [other[axis] for axis in axes])


def run(placed, want, layout, full, rng):
    """Every rank's array after the collectives that `changes` lists, with their sizes checked."""
    ranks = coordinates()
    before = [layout.axes_of(dim) for dim in placed.dims]
    after = [layout.axes_of(dim) for dim in want]
    parts = {}
    for where in ranks:     # partial: random terms that add up to the whole
        parts[tuple(where.values())] = shard(full, before, where)
    if placed.partial:
        for where in ranks:
            group = in_group(ranks, where, placed.partial)
            if group[0] == where:
                terms = rng.integers(-9, 9, (len(group) - 1, *parts[tuple(where.values())].shape))
                total = parts[tuple(where.values())]
                for other, term in zip(group[1:], terms):
                    parts[tuple(other.values())] = term
                parts[tuple(where.values())] = total - terms.sum(axis=0)
    left = {axis: place for place, axes in enumerate(before) for axis in axes}
    aims = {axis: place for place, axes in enumerate(after) for axis in axes}
    for change in changes(placed, want, layout):
        before_step = parts
        parts = {}
        for where in ranks:
            members = [before_step[tuple(other.values())] for other in in_group(ranks, where, change.axes)]
            assert members[0].size == change.elements
            name = tuple(where.values())
            parts[name] = carried_out(change, members, before_step[name], where, left, aims)
    return ranks, parts, after


def cut(array, place, axes, where):
    for axis in axes:
        array = np.array_split(array, DEGREES[axis], axis=place)[where[axis]]
    return array


def carried_out(change, members, own, where, left, aims):
    """What one rank has after a collective of `members`' arrays."""
    first = change.axes[0]
    if change.op is None:
        return cut(own, aims[first], change.axes, where)
    if change.op == CommOp.ALL_REDUCE:
        return np.sum(members, axis=0)
    if change.op == CommOp.REDUCE_SCATTER:
        return cut(np.sum(members, axis=0), aims[first], change.axes, where)
    whole = nested(members, left[first], change.axes)
    return whole if change.op == CommOp.ALL_GATHER else cut(whole, aims[first], change.axes, where)


def nested(members, place, axes):
    """Concatenation of a group's shards, the last axis fastest."""
    for axis in reversed(axes):
        size = DEGREES[axis]
        members = [np.concatenate(members[i:i + size], axis=place) for i in range(0, len(members), size)]
    return members[0]


@st.composite
def cases(draw):
    """Two ways to lay out a tensor of three dims over three axes; at most one axis a dim, so order cannot matter."""
    def places(names):
        chosen = draw(st.lists(st.sampled_from([*names, None]), min_size=3, max_size=3))
        used = set()
        return [() if each is None or each in used or used.add(each) else (each,) for each in chosen]
    before, after = places(AXES), places(AXES)
    free = [axis for axis in AXES if (axis,) not in before]
    partial = tuple(draw(st.lists(st.sampled_from(free), unique=True))) if free else ()
    return before, after, partial


@settings(max_examples=150)
@given(cases(), st.integers(0, 2**32))
def test_collectives_give_the_wanted_layout(case, seed):
    before, after, partial = case
    dims = ("x", "y", "z")
    have, want = tuple(f"{dim}.0" for dim in dims), tuple(f"{dim}.1" for dim in dims)
    axes = {**dict(zip(have, before)), **dict(zip(want, after))}
    layout = Layout(dict.fromkeys(dims, SIZE), axes, DEGREES)
    rng = np.random.default_rng(seed)
    full = rng.integers(-99, 99, (SIZE,) * 3)
    ranks, parts, wanted = run(Placed(have, partial), want, layout, full, rng)
    for where in ranks:
        np.testing.assert_array_equal(parts[tuple(where.values())], shard(full, wanted, where))


@pytest.mark.parametrize(("before", "after", "partial", "ops"), [
    ((), (), ("a",), [CommOp.ALL_REDUCE]),
    ((), ("a",), ("a",), [CommOp.REDUCE_SCATTER]),
    (("a",), (), (), [CommOp.ALL_GATHER]),
    ((), ("a",), (), [None]),
    (("a", "b"), (), (), [CommOp.ALL_GATHER]),
    ((), (), ("a", "b"), [CommOp.ALL_REDUCE]),
])
def test_one_rule_each(before, after, partial, ops):
    layout = Layout({"x": SIZE}, {"x.0": before, "x.1": after}, DEGREES)
    assert [change.op for change in changes(Placed(("x.0",), partial), ("x.1",), layout)] == ops


def test_another_dim_is_an_all_to_all():
    layout = Layout({"x": SIZE, "y": SIZE}, {"x.0": ("a",), "y.1": ("a",)}, DEGREES)
    (change,) = changes(Placed(("x.0", "y")), ("x", "y.1"), layout)
    assert (change.op, change.axes, change.elements) == (CommOp.ALL_TO_ALL, ("a",), math.prod((SIZE, SIZE)) / 2)


def test_other_dims_are_our_mistake():
    with pytest.raises(InternalError, match="are used as"):
        changes(Placed(("x",)), ("y",), Layout({"x": 1, "y": 1}, {}, {}))
