"""Why two designs differ: contributions against the textbook's formula, a closed form, and their own sum."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astrarium as ar
from astrarium.config import get, replace_all
from astrarium.errors import InputError
from astrarium.search.differences import between, differences
from astrarium.search.explain import explain

from .designs import four_dims, network_space

CHANGES = {"workload.payload": "10 MB", "collective.chunks": 2, "collective.composition": "blueconnect",
           "network.dims[2].npus": 8, "network.backend": "contention", "network.dims[0].latency": "1 us",
           "network.dims[1].bandwidth": "80 GB/s", "collective.scheduling": "fifo", "memory.bandwidth": "1 TB/s",
           "system.comm_streams": 2}


def _changed(count: int) -> tuple[ar.Design, ar.Design, list[str]]:
    """Two designs that differ in so many knobs."""
    paths = list(CHANGES)[:count]
    base = four_dims()
    return base, replace_all(base, {path: CHANGES[path] for path in paths}), paths


def _table(first: ar.Design, paths: list[str], seed: int, refused: float = 0.0) -> dict[frozenset[str], int | None]:
    """A makespan for every coalition; some are refused, the two ends never."""
    draw = random.Random(seed)
    every = [frozenset(chosen) for size in range(len(paths) + 1) for chosen in itertools.combinations(paths, size)]
    del first
    return {each: None if 0 < len(each) < len(paths) and draw.random() < refused else draw.randrange(1, 10**15)
            for each in every}


def _run(first: ar.Design, paths: list[str], table: dict[frozenset[str], int | None]) -> tuple[object, list[int]]:
    """What looks a design up in the table, and how often it was asked."""
    asked = [0]

    def run(design: ar.Design) -> int:
        asked[0] += 1
        value = table[frozenset(path for path in paths if get(design, path) != get(first, path))]
        if value is None:
            raise InputError("toy", "refuses this")
        return value
    return run, asked


def _shapley(paths: list[str], table: dict[frozenset[str], int | None]) -> dict[str, Fraction]:
    """The textbook's sum over coalitions, |S|! (n - |S| - 1)! / n! each."""
    found = {}
    for path in paths:
        others = [each for each in paths if each != path]
        total = Fraction(0)
        for size in range(len(paths)):
            weight = Fraction(math.factorial(size) * math.factorial(len(paths) - size - 1), math.factorial(len(paths)))
            for chosen in itertools.combinations(others, size):
                total += weight * ((table[frozenset((*chosen, path))] or 0) - (table[frozenset(chosen)] or 0))
        found[path] = total
    return found


def _plain_path(knob: str) -> str:
    return next(path for path in CHANGES if knob == path or
                ("[*]" in knob and knob.rpartition("]")[2] == path.rpartition("]")[2]))


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(0, 2**32))
def test_contributions_are_the_textbooks(count: int, seed: int) -> None:
    first, second, paths = _changed(count)
    table = _table(first, paths, seed)
    run, asked = _run(first, paths, table)
    found = explain(first, second, run=run)  # type: ignore[arg-type]
    expected = _shapley(paths, table)
    assert sum(each.contribution for each in found.changes) == found.difference
    for change in found.changes:
        path = _plain_path(change.knobs[0].knob)
        assert abs(change.contribution - expected[path]) < 1
        assert change.alone == (table[frozenset([path])] or 0) - found.before
    assert asked[0] == found.simulated == 2**count
    assert (found.exact, found.refused, found.orders) == (True, 0, math.factorial(count))
    assert sum(each.step for each in found.changes) == found.difference


@settings(max_examples=25)
@given(st.integers(2, 6), st.integers(0, 2**32), st.floats(0.1, 1))
def test_whatever_is_refused_the_parts_add_up(count: int, seed: int, share: float) -> None:
    first, second, paths = _changed(count)
    run, asked = _run(first, paths, _table(first, paths, seed, share))
    found = explain(first, second, run=run)  # type: ignore[arg-type]
    assert sum(each.contribution for each in found.changes) == found.difference
    assert sum(each.step for each in found.changes) == found.difference
    assert sorted(knob.knob for each in found.changes for knob in each.knobs) == sorted(
        each.knob for each in differences(first, second))
    assert asked[0] == found.simulated + found.refused


def test_when_everything_in_between_is_refused_all_is_one_knob() -> None:
    first, second, paths = _changed(8)
    table = {frozenset[str](): 5, frozenset(paths): 9}

    def run(design: ar.Design) -> int:
        key = frozenset(path for path in paths if get(design, path) != get(first, path))
        if key not in table:
            raise InputError("toy", "refuses this")
        return table[key]
    found = explain(first, second, run=run)
    assert [(each.contribution, each.alone, len(each.knobs)) for each in found.changes] == [(4, 4, 8)]


def test_drawn_orders_add_up_and_are_near_the_truth() -> None:
    first, second, paths = _changed(10)
    table = _table(first, paths, 3)
    run, _ = _run(first, paths, table)
    found, again = (explain(first, second, run=run, orders=100, seed=7) for _ in range(2))  # type: ignore[arg-type]
    assert found == again
    assert (found.exact, found.orders) == (False, 100)
    assert sum(each.contribution for each in found.changes) == found.difference
    expected = _shapley(paths, table)
    for change in found.changes:
        assert change.error > 0
        assert abs(change.contribution - expected[_plain_path(change.knobs[0].knob)]) < 5 * change.error
    with pytest.raises(InputError, match="4 or more"):
        explain(first, second, orders=2)


def test_a_ring_against_its_closed_form() -> None:
    """An all_reduce on a ring takes 2 (n - 1) steps of latency plus payload / (n x bandwidth): no interaction."""
    def ring(bandwidth: str, latency: str) -> ar.Design:
        return ar.Design(workload=ar.SingleCollective(op="all_reduce", payload="80 MB"),
                         network=ar.Network([ar.Ring(8, bandwidth=bandwidth, latency=latency)]),
                         collective=ar.Collective(all_reduce=["ring"]))
    found = explain(ring("50 GB/s", "500 ns"), ring("100 GB/s", "700 ns"))
    assert {each.knobs[0].knob: each.contribution for each in found.changes} == {
        "network.dims[0].latency": 14 * 200_000, "network.dims[0].bandwidth": -14 * 100_000_000}
    assert all(each.alone == each.step == each.contribution for each in found.changes)


def test_a_knob_has_the_number_of_its_dim_unless_several_differ() -> None:
    first = four_dims()
    one = replace_all(first, {"network.dims[2].latency": "3 us"})
    both = replace_all(one, {"network.dims[1].latency": "3 us"})
    assert [each.knob for each in differences(first, one)] == ["network.dims[2].latency"]
    assert [each.knob for each in differences(first, both)] == ["network.dims[*].latency"]


def test_equal_designs_and_the_way_back() -> None:
    first, second, _ = _changed(4)
    nothing = explain(first, first)
    assert (nothing.changes, nothing.difference, nothing.simulated) == ((), 0, 1)
    there, back = explain(first, second), explain(second, first)
    for one, other in zip(there.changes, back.changes):
        assert abs(one.contribution + other.contribution) <= 1


def test_all_changes_make_the_other_design() -> None:
    space, draw = network_space(), random.Random(1)
    for _ in range(20):
        first, second = (space.design(space.sample(draw)) for _ in range(2))
        assert between(first, second, differences(first, second)) == second
        assert between(first, second, ()) == first


def test_knobs_that_only_go_together_are_one() -> None:
    """A dim more needs an algorithm more; one bandwidth stands in place of the other."""
    first = four_dims()
    second = ar.Design(workload=first.workload, network=ar.Network(
        [*first.network.dims[:3], ar.Switch(4, bandwidth_per_npu="70 GB/s", latency="500 ns"),
         ar.Switch(2, bandwidth="50 GB/s", latency="500 ns")]),
        collective=ar.Collective(all_reduce=["ring", "direct", "ring", "direct", "direct"], chunks=2))
    found = explain(first, second)
    assert [[knob.knob for knob in each.knobs] for each in found.changes] == [
        ["network.dims", "collective.all_reduce"], ["collective.chunks"]]
    other = replace_all(first, {"network.dims[3].bandwidth": None, "network.dims[3].bandwidth_per_npu": "70 GB/s"})
    assert [[knob.knob for knob in each.knobs] for each in explain(first, other).changes] == [
        ["network.dims[3].bandwidth", "network.dims[3].bandwidth_per_npu"]]


def test_sections_of_another_kind_are_one_knob() -> None:
    def model(**more: object) -> ar.Design:
        workload = {"source": "transformer", "model": "gpt2-xl", "dp": 4, "global_batch": 4, **more}
        return replace_all(base, {"workload": workload, "compute": {"model": "roofline", "peak": "100 TFLOP/s"},
                                  "memory.bandwidth": "1 TB/s"})
    base = ar.Design(workload=ar.SingleCollective(op="all_reduce", payload="1 MB"),
                     network=ar.Network([ar.Ring(4, bandwidth="50 GB/s", latency="500 ns")]))
    assert [each.knob for each in differences(base, model())] == ["workload", "compute", "memory.bandwidth"]
    assert [each.knob for each in differences(model(), model(model="gpt3-175b", zero=1))] == [
        "workload.model", "workload.zero"]


def training(**axes: int) -> ar.Design:
    """64 ranks of a small model."""
    return ar.Design(
        workload=ar.Transformer(ar.Decoder(layers=8, d_model=512, heads=8, ffn=2048, vocab=1024, seq=256),
                                global_batch=64, micro_batch=1, **axes),
        network=ar.Network([ar.Switch(8, bandwidth="50 GB/s", latency="500 ns"),
                            ar.Switch(8, bandwidth="10 GB/s", latency="2 us")]),
        compute=ar.Roofline(peak="100 TFLOP/s"), memory=ar.Memory(bandwidth="1 TB/s"))


def test_axes_of_a_parallelisation_have_shares_of_their_own() -> None:
    """Each axis alone is a design that runs: another one makes up for it, dp first."""
    first, second = training(tp=8, pp=1, dp=8), training(tp=2, pp=4, dp=8)
    together = explain(first, second)       # two axes only change together
    assert [len(each.knobs) for each in together.changes] == [2]
    assert together.filled == 0
    third = training(tp=2, pp=8, dp=4)
    found = explain(first, third)
    assert [each.knobs[0].knob for each in found.changes] == ["workload.dp", "workload.tp", "workload.pp"]
    assert (found.refused, found.filled, found.simulated) == (0, 6, 8)
    assert sum(each.contribution for each in found.changes) == found.difference
    alone = {each.knobs[0].knob: each.alone for each in found.changes}
    between_them = {"workload.tp": training(tp=2, pp=1, dp=32), "workload.pp": training(tp=8, pp=8, dp=1),
                    "workload.dp": training(tp=8, pp=2, dp=4)}
    for knob, design in between_them.items():
        assert alone[knob] == ar.simulate(design).makespan_ps - found.before


def test_what_the_time_goes_into() -> None:
    first, second = training(tp=8, pp=1, dp=8), training(tp=1, pp=8, dp=8)
    found = explain(first, second)
    for design, times in zip((first, second), found.times):
        result = ar.simulate(design)
        assert times["compute"] == round(1000 * result.compute)
        assert times["exposed_comm"] == round(1000 * result.exposed_comm)
        assert sum(times.values()) == result.makespan_ps
    assert found.times[1]["bubble"] > found.times[0]["bubble"]
