"""Spaces: against brute force, COSMIC's published counts, and what is refused."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.search.designs import CHOICES, four_dims, network_space

import astrarium as ar
from astrarium.config import replace_all
from astrarium.errors import InputError
from astrarium.search import Choice, Space

POWERS = [2**power for power in range(12)]
CONSTRAINTS = ("a * b <= 8", "product(a, b, c) == 8", "a + b + c >= 5", "a <= c", "b != 2 or c > 1",
               "if(a == 1, b, c) % 2 == 0", "a in [1, 4]", "max(a, b) - min(b, c) < 3", "c // 2 == 1")


def brute(lists: dict[str, list[int]], where: list[str]) -> list[tuple[int, ...]]:
    """Every combination of indexes, in order, that Python says meets the constraints."""
    names = {"product": lambda *args: args[0] * args[1] * args[2], "max": max, "min": min}
    found = []
    for indexes in itertools.product(*(range(len(values)) for values in lists.values())):
        values = {name: lists[name][index] for name, index in zip(lists, indexes)}
        texts = [text.replace("if(a == 1, b, c)", "(b if a == 1 else c)") for text in where]
        if all(eval(text, {"__builtins__": {}}, {**names, **values}) for text in texts):
            found.append(indexes)
    return found


@given(st.fixed_dictionaries(dict.fromkeys("abcd", st.lists(st.integers(1, 8), min_size=1, max_size=4, unique=True))),
       st.lists(st.sampled_from(CONSTRAINTS), max_size=4, unique=True))
def test_count_points_and_numbers_are_those_of_brute_force(lists: dict[str, list[int]], where: list[str]) -> None:
    expected = brute(lists, where)
    if not expected:
        with pytest.raises(InputError, match=r"no design meets|never holds"):
            Space(None, variables=lists, where=where)
        return
    space = Space(None, variables=lists, where=where)
    assert space.count == len(expected)
    assert sorted(space.points()) == expected
    assert [space.number(point) for point in space.points()] == list(range(space.count))
    for indexes in itertools.product(*(range(len(values)) for values in lists.values())):
        assert (space.number(indexes) >= 0) == (indexes in expected)


@given(st.fixed_dictionaries(dict.fromkeys("abc", st.lists(st.integers(1, 8), min_size=2, max_size=4, unique=True))),
       st.sampled_from(CONSTRAINTS), st.randoms(use_true_random=False))
def test_the_projection_is_a_nearest_point(lists: dict[str, list[int]], where: str, rng: random.Random) -> None:
    expected = brute(lists, [where])
    if not expected:
        return
    space = Space(None, variables=lists, where=where)
    wish = [rng.randrange(len(values)) + rng.choice([0, 0.25]) for values in lists.values()]

    def distance(point: Any) -> float:
        return sum(abs(index - want) / (len(values) - 1) for index, want, values in zip(point, wish, lists.values()))

    found = space.projector.project(wish)
    assert space.number(found) >= 0
    assert distance(found) == pytest.approx(min(map(distance, expected)))


@given(st.sampled_from(CONSTRAINTS), st.integers(0, 2), st.randoms(use_true_random=False))
def test_a_move_changes_its_axis_where_it_can(where: str, place: int, rng: random.Random) -> None:
    lists = {key: [1, 2, 4] for key in "abc"}
    space = Space(None, variables=lists, where=where)
    point = space.sample(rng)
    moved = space.projector.moved(point, place, rng)
    assert space.number(moved) >= 0
    if len({each[place] for each in brute(lists, [where])}) == 3:
        assert moved[place] != point[place]


def test_samples_are_uniform() -> None:
    space = Space(None, variables={"a": [1, 2, 4, 8], "b": [1, 2, 4, 8], "c": [1, 2]}, where="a * b <= 8")
    rng = random.Random(1)
    seen = Counter(space.sample(rng) for _ in range(20_000))
    assert len(seen) == space.count == 20
    expected = 20_000 / space.count
    chi = sum((count - expected) ** 2 / expected for count in seen.values())
    assert chi < 43.8      # 19 degrees of freedom, 0.1 %


def cosmic(npus: int | None, *, table: str) -> Space:
    """The talk's tables (published.md 1.1); `npus` None: the size table without the product of NPUs per dim."""
    size = table == "size"
    variables: dict[str, Any] = {"dp": POWERS[:11] if size else POWERS, "sp": POWERS[:11] if size else POWERS,
                                 "pp": POWERS[:11] if size else [1, 2, 4], "weight_sharded": [0, 1],
                                 "scheduling": ["LIFO", "FIFO"]}
    for dim in range(4):
        variables[f"algorithm{dim}"] = ["ring", "direct", "halving_doubling", "double_binary_tree"]
    variables |= {"chunks": range(1, 33) if size else [2, 4, 8, 16], "composition": ["baseline", "blueconnect"]}
    for dim in range(4):
        variables[f"shape{dim}"] = ["ring", "switch", "fully_connected"]
        variables[f"npus{dim}"] = [4, 8, 16]
        variables[f"bandwidth{dim}"] = range(100, 501, 100) if size else range(50, 501, 50)
    where = [f"dp * sp * pp <= {npus or 1024}"]
    if npus:
        where.append(f"product(npus0, npus1, npus2, npus3) == {npus}")
    return Space(None, variables=variables, where=where)


def test_cosmics_size_table() -> None:
    assert cosmic(None, table="size").count == 76_859_228_160_000
    assert cosmic(1024, table="size").count == 9_488_793_600_000


@pytest.mark.parametrize(("npus", "count"), [(512, 3_609_722_880_000), (1024, 11_014_963_200_000),
                                             (2048, 21_127_495_680_000)])
def test_cosmics_evaluation_table(npus: int, count: int) -> None:
    space = cosmic(npus, table="evaluation")
    assert space.count == count
    rng = random.Random(npus)
    for _ in range(100):
        number = rng.randrange(count)
        assert space.number(space.point(number)) == number


def test_designs_are_those_of_replace_all() -> None:
    space, rng = network_space(), random.Random(0)
    for _ in range(50):
        point = space.sample(rng)
        design = space.design(point)
        assert design == replace_all(four_dims(), space.values(point))
        assert design.network.npus == 1024
        assert space.point_of(space.values(point)) == point
    assert space.count == 10 * 3**4 * 3**4 * 3**4 * 4 * 2


def test_shared_derived_and_conditional_knobs() -> None:
    base = four_dims()
    space = Space(base, {
        "network.dims[*].bandwidth": {"values": ["50 GB/s", "100 GB/s"], "shared": True},
        "collective.chunks": [1, 4],
        "collective.active_chunks": {"values": [1, 2], "when": "collective.chunks > 1"},
    }, derived={"network.dims[*].latency": "network.dims[*].bandwidth * 10",
                "collective.pipeline": "collective.chunks * 2"})
    assert space.count == 2 * (1 + 2)
    for point in space.points():
        design = space.design(point)
        bandwidths = {dim.bandwidth for dim in design.network.flat}
        assert bandwidths in ({50.0}, {100.0})
        assert {dim.latency for dim in design.network.flat} == {10 * bandwidths.pop()}
        assert design.collective.pipeline == 2 * design.collective.chunks
        if design.collective.chunks == 1:
            assert design.collective.active_chunks is None
            assert "collective.active_chunks" not in space.values(point)


def test_a_field_of_another_variant() -> None:
    space = Space(four_dims(), {"network.dims[1].shape": ["ring", "switch"],
                                "network.dims[1].one_way": {"values": [True, False],
                                                            "when": "network.dims[1].shape == 'ring'"}})
    assert space.count == 3
    assert {getattr(space.design(point).network.dims[1], "one_way", None) for point in space.points()} == {
        True, False, None}


def test_continua() -> None:
    space = Space(four_dims(), {"network.dims[0].bandwidth": {"from": "10 GB/s", "to": "1 TB/s", "log": True},
                                "collective.chunks": {"from": 1, "to": 8}})
    rng = random.Random(0)
    values = [space.design(space.sample(rng)).network.flat[0].link_bandwidth for _ in range(400)]
    assert min(values) >= 10
    assert max(values) <= 1000
    assert 150 < sum(value < 100 for value in values) < 250
    assert space.count == 8
    assert space.point_of(space.values(space.point(3))) == space.point(3)


def test_ranges() -> None:
    base = four_dims()
    space = Space(base, {"collective.chunks": Choice(low=1, high=1024, factor=2),
                         "network.dims[0].bandwidth": {"from": "50 GB/s", "to": "500 GB/s", "step": "50 GB/s"}})
    assert next(axis.values for axis in space.axes) == tuple(POWERS[:11])
    assert [float(value) for value in space.axes[1].values] == [50.0 * step for step in range(1, 11)]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"choices": {"network.dims[*].bandwith": ["50 GB/s"]}}, "did you mean 'bandwidth'"),
    ({"choices": {"network.dims[9].bandwidth": ["50 GB/s"]}}, "no entry 9"),
    ({"choices": {"network.dims[0].bandwidth": [50]}}, "without a unit"),
    ({"choices": {"network.dims[0].bandwidth": []}}, "holds no values"),
    ({"choices": {"network.dims[0].shape": ["rng"]}}, "did you mean 'ring'"),
    ({"choices": {"collective.chunks": [1, 0]}}, "1 or more"),
    ({"choices": {"collective.chunks": [1, 1]}}, "twice"),
    ({"choices": {"collective.chunks": {"form": 1}}}, "did you mean 'from'"),
    ({"choices": {"collective.chunks": {"from": 1}}}, "to: is missing"),
    ({"choices": {"collective.chunks": {"from": 4, "to": 1}}}, "from below to"),
    ({"choices": {"collective.chunks": {"from": 1, "to": 2**40}}}, "at most"),
    ({"choices": {"network.dims[*].npus": [4], "network.dims[1].npus": [8]}}, "sets too"),
    ({"choices": {"collective.all_gather[*]": ["ring"]}}, "list is empty"),
    ({"choices": {}}, "at least one knob"),
    ({"choices": {"collective.chunks": [1]}, "where": "collective.chunk == 1"}, "did you mean 'collective.chunks'"),
    ({"choices": {"collective.chunks": [1, 2]}, "where": "collective.chunks > 2"}, "no design meets"),
    ({"choices": {"collective.chunks": [1, 2]}, "where": "collective.chunks + 1"}, "not true or false"),
    ({"choices": {"collective.chunks": [1, 2]}, "where": "1 > 2"}, "never holds"),
    ({"choices": {"collective.chunks": [1, 2]}, "where": "4 // (collective.chunks - 1) > 1"}, "divides by zero"),
    ({"choices": {"collective.chunks": [1, 2]}, "where": "network.dims[*].npus == 4"}, "is a list"),
    ({"choices": {"collective.chunks": [1, 2]}, "where": "network == 4"}, "not a single value"),
    ({"choices": {"collective.chunks": [1, 2]}, "derived": {"collective.chunks": "3"}}, "derived and chosen"),
    ({"choices": {"collective.chunks": [1, 2]}, "derived": {"collective.pipeline": "collective.pipeline + 1"}},
     "derived from itself"),
    ({"choices": {"collective.chunks": {"values": [1, 2], "when": "collective.chunks > 1"}}}, "comes after|circle"),
    ({"choices": {"network.dims[0].bandwidth": {"from": "1 GB/s", "to": "2 GB/s"}},
      "where": "network.dims[0].bandwidth > 1"}, "continuum"),
    ({"variables": {"a b": [1]}}, "not a path|not a name"),
]


@pytest.mark.parametrize(("given_", "says"), BAD)
def test_what_is_wrong_is_said_when_the_space_is_made(given_: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Space(four_dims(), **given_)


def test_a_contradiction_names_the_constraints_that_make_it() -> None:
    with pytest.raises(InputError) as caught:
        Space(four_dims(), CHOICES, ["collective.chunks >= 2", "network.npus == 1024", "network.dims[0].npus == 16",
                                     "network.dims[1].npus == 16", "network.dims[2].npus >= 4"])
    text = str(caught.value)
    assert "together" in text
    assert "chunks" not in text
    assert "dims[2]" not in text
    for needed in ("network.npus == 1024", "dims[0].npus == 16", "dims[1].npus == 16"):
        assert needed in text


def test_a_sum_over_too_many_prices_is_refused() -> None:
    variables = {f"price{index}": [1.0 + 0.1 * k + 0.013 * index * k * k for k in range(30)] for index in range(6)}
    text = " + ".join(variables)
    with pytest.raises(InputError, match=r"more than .* ways"):
        Space(None, variables=variables, where=f"{text} <= 40")


def test_a_refused_design_says_so_as_replace_all_does() -> None:
    space = Space(four_dims(), {"network.dims[1].npus": [8, 12], "network.dims[1].shape": ["hypercube"]})
    with pytest.raises(InputError) as ours:
        space.design((1, 0))
    with pytest.raises(InputError) as theirs:
        replace_all(four_dims(), {"network.dims[1].npus": 12, "network.dims[1].shape": "hypercube"})
    assert str(ours.value) == str(theirs.value)
    assert isinstance(space.design((0, 0)), ar.Design)


def test_a_range_from_a_value_to_itself_is_that_value() -> None:
    """A continuum of one value would be no scale for a model."""
    for log in (False, True):
        one = Choice(low="1 GB/s", high="1 GB/s", log=log)
        space = Space(four_dims(), {"network.dims[0].bandwidth": one})
        assert (space.count, len(space.continua)) == (1, 0)
