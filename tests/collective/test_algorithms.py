"""Every built-in algorithm sits the exam: right for every size, and no dearer than its bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from msgspec.structs import replace
from tests.commands import PlugIn

from astrarium import registry
from astrarium.collective.algorithms import Options, algorithm_of, bound, build, supporting
from astrarium.collective.exam import check_bound, examine
from astrarium.errors import InputError, PluginError, UnsupportedError
from astrarium.vocab import CommOp, Schedule

CASES = [(name, op) for name in registry.built_ins("algorithm") for op in sorted(algorithm_of(name).ops)]


# All small sizes (12: a multiple of three and of a power of two), then both sides of a power of two; `make exam` proves
# those between and up to 33.
SIZES = (*range(1, 14), 15, 16, 17)


@pytest.mark.parametrize("sizes", [SIZES, pytest.param(sorted({*range(34)} - {0, *SIZES}), marks=pytest.mark.exam)],
                         ids=["some", "rest"])
@pytest.mark.parametrize(("algorithm", "op"), CASES)
def test_every_size_is_proved_and_within_its_bound(algorithm: str, op: CommOp, sizes: Sequence[int]) -> None:
    for n in sizes:
        schedule = build(algorithm, op, n)
        proof = examine(schedule)
        limit = bound(algorithm, op, n, schedule.blocks)
        assert limit is not None
        check_bound(schedule, proof, limit)
        assert proof.in_place


@pytest.mark.parametrize(("algorithm", "op", "n"), [
    ("ring", CommOp.ALL_REDUCE, 65), ("halving_doubling", CommOp.ALL_REDUCE, 64),
    ("halving_doubling", CommOp.ALL_REDUCE, 100), ("double_binary_tree", CommOp.ALL_REDUCE, 150),
    ("direct", CommOp.ALL_TO_ALL, 60), ("bruck", CommOp.ALL_TO_ALL, 100), ("ring_two_way", CommOp.ALL_TO_ALL, 61)])
def test_larger_sizes_are_proved(algorithm: str, op: CommOp, n: int) -> None:
    proof = examine(build(algorithm, op, n), limit=3000)
    assert proof.messages >= n - 1


@pytest.mark.parametrize("n", [2, 3, 8, 13])
@pytest.mark.parametrize("algorithm", ["ring", "direct", "halving_doubling"])
def test_all_reduce_sends_the_least_that_is_possible(algorithm: str, n: int) -> None:
    """2 (n - 1) / n of the payload per participant (Patarasuk and Yuan), on average."""
    schedule = build(algorithm, CommOp.ALL_REDUCE, n)
    assert examine(schedule).sent.sum() == 2 * (n - 1) * n
    assert schedule.blocks == n


@pytest.mark.parametrize(("algorithm", "n", "steps"), [
    ("ring", 8, 14), ("direct", 8, 2), ("halving_doubling", 8, 6), ("halving_doubling", 7, 6), ("ring_two_way", 8, 14),
    ("binomial_tree", 16, 8)])
def test_all_reduce_takes_the_published_number_of_steps(algorithm: str, n: int, steps: int) -> None:
    assert examine(build(algorithm, CommOp.ALL_REDUCE, n)).steps == steps


@pytest.mark.parametrize("n", [2, 5, 16, 33])
def test_unpipelined_double_tree_is_two_heights_deep(n: int) -> None:
    proof = examine(build("double_binary_tree", CommOp.ALL_REDUCE, n, Options(pipeline=1)))
    assert proof.steps <= 2 * n.bit_length()


@pytest.mark.parametrize("n", range(2, 40))
def test_no_node_is_inner_in_both_trees(n: int) -> None:
    from astrarium.collective.algorithms.double_binary_tree import parents

    trees = [parents(n, 0), parents(n, 1)]
    inner = [set(up[up >= 0].tolist()) for up in trees]
    assert not inner[0] & inner[1]
    for up in trees:
        assert (up < 0).sum() == 1
        assert np.bincount(up[up >= 0]).max() <= 2


def test_programs_stay_compact() -> None:
    ring = build("ring", CommOp.ALL_REDUCE, 1024)
    assert (len(ring.send_ptr) - 1, len(ring.send_peer), len(ring.send_block)) == (1, 2046, 2046)
    assert len(build("direct", CommOp.ALL_TO_ALL, 256).send_peer) == 255
    assert len(build("halving_doubling", CommOp.ALL_REDUCE, 1024).send_peer) == 20


@pytest.mark.parametrize("window", [1, 2, 5, 100])
def test_a_window_bounds_the_messages_in_flight(window: int) -> None:
    schedule = build("direct", CommOp.ALL_TO_ALL, 9, Options(window=window))
    examine(schedule)
    ahead = np.arange(8) - schedule.send_needs
    assert ahead.max() == min(window, 7)


def test_an_unsupported_operation_names_those_who_have_it() -> None:
    with pytest.raises(UnsupportedError, match="'double_binary_tree' has no all_to_all; expected one of ring"):
        build("double_binary_tree", CommOp.ALL_TO_ALL, 4)
    assert "double_binary_tree" not in supporting(CommOp.ALL_TO_ALL)


def test_an_unknown_algorithm_names_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'halving_doubling'"):
        build("halving_dobling", CommOp.ALL_REDUCE, 4)
    with pytest.raises(InputError, match="at least 1"):
        build("ring", CommOp.ALL_REDUCE, 0)


@pytest.mark.parametrize("options", [{"pipeline": 0}, {"window": 0}, {"window": -2}])
def test_impossible_options_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InputError):
        Options(**options)


def test_every_operation_has_an_algorithm_and_reduce_scatter_block_is_an_alias() -> None:
    assert all(supporting(op) for op in CommOp)
    one: Schedule = build("ring", CommOp.REDUCE_SCATTER_BLOCK, 4)
    assert one.op == CommOp.REDUCE_SCATTER
    assert all(entry.sentence.endswith(".") for entry in registry.entries("algorithm").values())


def plugin(op: CommOp, n: int, options: Options) -> Schedule:
    """Stands for a plug-in's builder; the tests replace what it does."""
    return made(op, n)


def ring(op: CommOp, n: int) -> Schedule:
    return build("ring", op, n)


made: Callable[[CommOp, int], Schedule] = ring


@pytest.fixture
def _registered(plug_in: PlugIn) -> None:
    plug_in({"algorithm.mine": f"{__name__}:plugin"})


def raises(op: CommOp, n: int) -> Schedule:
    raise KeyError(op)


def refuses(op: CommOp, n: int) -> Schedule:
    raise UnsupportedError("mine", "no barrier")


@pytest.mark.usefixtures("_registered")
@pytest.mark.parametrize(("makes", "error", "words"), [
    (lambda op, n: None, PluginError, "algorithm plug-in mine: gave None, which is no Schedule"),
    (raises, PluginError, "algorithm plug-in mine: raised KeyError"),
    (refuses, UnsupportedError, "mine: no barrier"),
    (lambda op, n: ring(op, n + 1), PluginError, "on 5 participants for .* on 4"),
    (lambda op, n: ring(CommOp.BROADCAST, n), PluginError, "gave a schedule of .*BROADCAST.* for .*ALL_REDUCE"),
    (lambda op, n: replace(ring(op, n), blocks=0), PluginError, "a schedule of 0 blocks"),
    (lambda op, n: replace(ring(op, n), send_peer=ring(op, n).send_peer + 99), PluginError,
     "gave a broken schedule: schedule peer out of range"),
    (lambda op, n: replace(ring(op, n), send_peer=ring(op, n).send_peer.tolist()), PluginError,
     "gave a broken schedule: array send_peer has the wrong type"),
])
def test_a_plugin_that_makes_no_schedule(makes: Callable[[CommOp, int], Schedule], error: type[Exception], words: str,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    assert examine(build("mine", CommOp.ALL_REDUCE, 4)).steps == 6
    monkeypatch.setattr(f"{__name__}.made", makes)
    with pytest.raises(error, match=words):
        build("mine", CommOp.ALL_REDUCE, 4)
